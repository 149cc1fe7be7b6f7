/** Progress of a long job: a bar on a terminal, occasional log lines elsewhere. */
import { Presets, SingleBar } from 'cli-progress'
import type { Log } from '../../observe/log.ts'

export interface Progress {
  /** `done` is a part of the total; `text` describes it, such as "54 blocks, 12 Mgas/s". */
  update(done: number, text: string): void
  stop(): void
}

const LINE_MS = 5_000

/** @param total in the unit of `update`, such as bytes; undefined if it is unknown */
export function startProgress(
  total: number | undefined,
  {
    log,
    isTerminal,
    now,
  }: { readonly log: Pick<Log, 'info'>; readonly isTerminal: boolean; now(): number },
): Progress {
  const started = now()
  const leftText = (done: number): string => {
    if (done <= 0 || total === undefined) return 'unknown'
    const seconds = ((now() - started) / 1_000) * (total / done - 1)
    return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`
  }
  if (!isTerminal) {
    let reportedAt = started
    return {
      update(done, text) {
        if (now() - reportedAt < LINE_MS) return
        reportedAt = now()
        if (total === undefined) log.info(text)
        else log.info(`${Math.floor((done / total) * 100)} %, ${text}, ${leftText(done)} left`)
      },
      stop() {},
    }
  }
  const bar = new SingleBar(
    {
      format: total === undefined ? '{text}' : '{bar} {percentage} %  {text}, {left} left',
      stream: process.stderr,
      hideCursor: true,
    },
    Presets.shades_classic,
  )
  bar.start(total ?? 0, 0, { text: '', left: 'unknown' })
  return {
    update: (done, text) => bar.update(done, { text, left: leftText(done) }),
    stop: () => bar.stop(),
  }
}
