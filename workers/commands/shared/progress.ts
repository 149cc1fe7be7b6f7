/** How far a long job has come: a bar on a terminal, a log line now and then elsewhere. */
import { Presets, SingleBar } from 'cli-progress'
import type { Log } from '../../observe/log.ts'

export interface Progress {
  /** `done` of the total so far; `text` says what that means, e.g. "54 blocks, 12 Mgas/s". */
  update(done: number, text: string): void
  stop(): void
}

const LINE_MS = 5_000

/** @param total in the unit of `update`, e.g. bytes of a file; undefined: nobody knows */
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
    let told = started
    return {
      update(done, text) {
        if (now() - told < LINE_MS) return
        told = now()
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
