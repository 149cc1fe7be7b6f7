/** `flashnode replay`: to the end of the record or to a flashblock of it, and what came of it. */
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { JournalError } from '../../../engine/storage/directory/journal.ts'
import { LazyStartError } from '../../../engine/storage/lazy/start.ts'
import type { Answerer } from '../../../rpc/seam/exchange.ts'
import type { ConfigOf } from '../../config/command.ts'
import type { NodeDefaults } from '../../config/serving.ts'
import { startNode } from '../../node/start.ts'
import { StartError } from '../../process/context.ts'
import type { AskedLine } from '../../record/ahead.ts'
import {
  type AskedAt,
  type Asking,
  type Counts,
  createAsking,
  type Difference,
} from '../../record/asking.ts'
import { createCourses } from '../../record/courses.ts'
import type { Head, Place, ReplayEnd } from '../../record/lines.ts'
import { openRecord } from '../../record/reading.ts'
import { RecordError } from '../../record/sections.ts'
import { startParts } from '../shared/parts.ts'
import { type Process, runProcess } from '../shared/process.ts'
import { say } from '../shared/said.ts'
import { table } from '../shared/table.ts'
import type { FLAGS } from './flags.ts'
import { replayRole } from './role.ts'

type ReplayConfig = ConfigOf<typeof FLAGS, NodeDefaults & { readonly chain: undefined }>
type Told = ReplayEnd & { readonly isCut: boolean }
type Ended = Told & { readonly requests: Counts }

const FAILS = [JournalError, LazyStartError, RecordError]

/** Ends with 1 where something was shown otherwise than in the record, or the flashblock to stop at did not come. */
export function runReplay(config: ReplayConfig, path: string): Promise<void> {
  return runProcess(config, FAILS, async (process) => {
    // Whoever names no file, or another one, is told before anything is opened.
    const { head } = open(path)
    await start(config, process, { path, head })
  })
}

/** @throws {RecordError} {StartError} */
function open(path: string) {
  try {
    return openRecord(path)
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error
    throw new StartError(`${path} cannot be read: ${error.message}`)
  }
}

async function start(
  config: ReplayConfig,
  running: Process,
  { path, head }: { readonly path: string; readonly head: Head },
): Promise<void> {
  const { log, end } = running
  const over = Promise.withResolvers<void>()
  const parts = startParts({ log, isTerminal: process.stderr.isTTY })
  const { speed, until, stay, json } = config
  const courses = createCourses()
  let asking: Asking | undefined
  const tape = {
    type: 'replay',
    data: { path, speed: speed === 'full' ? undefined : speed, until },
    onStatus({ events }: ReplayEnd | { readonly events: number }) {
      parts.update({ part: 'events', done: events, total: undefined })
    },
    courses,
    onAsk: async (lines: readonly AskedLine[], at: AskedAt) => asking?.ask(lines, at),
    async onEnd(told: Told) {
      parts.stop()
      const ended = { ...told, requests: asking!.counts }
      await say(json ? jsonOf(ended) : textOf(ended))
      if (!stay) return end(statusOf(ended, until))
      over.resolve()
    },
  } as const
  const onAnswerer = (answer: Answerer) => {
    asking = createAsking(answer, { atOnce: config.atOnce, courses })
  }
  const role = replayRole({
    ...{ head, tape, over: over.promise, onAnswerer },
    isQuiet: !stay || json,
  })
  await startNode({ config: { ...config, ...servedBy(config, head) }, ...running }, role)
}

/** As the node that was recorded answered, whatever this one's flags say. */
const servedBy = (
  { limits }: Pick<ReplayConfig, 'limits'>,
  { heldFlashblocks, serving }: Head,
) => ({
  ...{ heldFlashblocks, verifySample: 0, frontThreads: 1 },
  ...serving,
  limits: { ...limits, ...serving.limits },
})

function statusOf(
  { differs, isStopped, shown, requests }: Ended,
  until: Place | undefined,
): number {
  const isSame = differs === undefined && requests.different === 0
  return isSame && !isStopped && (until === undefined || isAt(shown, until)) ? 0 : 1
}

const isAt = (shown: Ended['shown'], { number, index }: Place): boolean =>
  shown !== undefined &&
  (shown.pending > number || (shown.pending === number && shown.index >= index))

function jsonOf({ shown, differs, requests, ...counts }: Ended): string {
  const hashes = shown && {
    ...shown,
    hash: bytesToHex(shown.hash),
    canonicalHash: bytesToHex(shown.canonicalHash),
  }
  return `${JSON.stringify({ ...counts, shown: hashes ?? null, differs: differs ?? null, requests: requestsOf(requests) })}\n`
}

const requestsOf = ({ differences, ...counts }: Counts) => ({
  ...counts,
  differences: differences.map(({ place, ...one }) => ({ ...one, place: place ?? null })),
})

function textOf(ended: Ended): string {
  const { events, frames, blocks, values, held, shown, differs, isCut, requests } = ended
  const rows: (readonly [string, string | number])[] = [
    ['events', events],
    ['frames', frames],
    ['canonical blocks', blocks],
    ['reads of others', values],
    ['shown, and held to the record', held],
    ['requests asked again', requests.asked],
    ['answered as they were', requests.same],
    ['answered otherwise', requests.different],
    ...Object.entries(requests.notAsked).map(
      ([why, count]) => [`not asked: ${why}`, count] as const,
    ),
    ...(requests.leftOut === 0 ? [] : [['left out by the record', requests.leftOut] as const]),
  ]
  const lines = [table(rows)]
  if (shown !== undefined)
    lines.push(
      `canonical ${shown.canonical} ${bytesToHex(shown.canonicalHash)}\n`,
      `pending ${shown.pending}:${shown.index} ${bytesToHex(shown.hash)}\n`,
    )
  if (isCut) lines.push('the file was cut: this is up to its last whole section\n')
  lines.push(...requests.differences.map(differenceText))
  if (differs !== undefined) lines.push(`${differs}\n`)
  else if (requests.different === 0) lines.push('the same as it was recorded\n')
  return lines.join('')
}

function differenceText({ method, endpoint, record, place, body, was, is }: Difference): string {
  const where = place === undefined ? `record ${record}` : `record ${record}, pending ${place}`
  return `${method} at ${endpoint}, ${where}: ${body}\n  was ${was}\n  is  ${is}\n`
}
