/**
 * `flashnode replay`: replays a recording to its end or to a flashblock, and reports differences.
 */
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { JournalError } from '../../../engine/storage/directory/journal.ts'
import { LazyStartError } from '../../../engine/storage/lazy/start.ts'
import type { Responder } from '../../../rpc/core/exchange.ts'
import type { ConfigOf } from '../../config/command.ts'
import type { NodeDefaults } from '../../config/serving-options.ts'
import { startNode } from '../../node/start.ts'
import { StartError } from '../../process/context.ts'
import type { FlashblockPosition, Head, ReplayEnd } from '../../record/lines.ts'
import type { ReplayLine } from '../../record/lookahead.ts'
import { openRecord } from '../../record/reading.ts'
import { createRequestContexts } from '../../record/request-context.ts'
import {
  type Counts,
  createRequestReplayer,
  type Difference,
  type ReplayPosition,
  type RequestReplayer,
} from '../../record/request-replayer.ts'
import { RecordError } from '../../record/sections.ts'
import { startParts } from '../shared/parts.ts'
import { print } from '../shared/print.ts'
import { type Process, runProcess } from '../shared/process.ts'
import { table } from '../shared/table.ts'
import type { FLAGS } from './flags.ts'
import { replayRole } from './role.ts'

type ReplayConfig = ConfigOf<typeof FLAGS, NodeDefaults & { readonly chain: undefined }>
type ReplayOutcome = ReplayEnd & { readonly isCut: boolean }
type Ended = ReplayOutcome & { readonly requests: Counts }

const FAILS = [JournalError, LazyStartError, RecordError]

/**
 * Ends with status 1 if a flashblock differs from the recording, or if the flashblock to stop at
 * never came.
 */
export function runReplay(config: ReplayConfig, path: string): Promise<void> {
  return runProcess(config, FAILS, async (process) => {
    // The file is checked before any directory is opened.
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
  const requestContexts = createRequestContexts()
  let replayer: RequestReplayer | undefined
  const recording = {
    type: 'replay',
    data: { path, speed: speed === 'full' ? undefined : speed, until },
    onStatus({ events }: ReplayEnd | { readonly events: number }) {
      parts.update({ part: 'events', done: events, total: undefined })
    },
    requestContexts,
    onRequest: async (lines: readonly ReplayLine[], at: ReplayPosition) =>
      replayer?.request(lines, at),
    async onEnd(outcome: ReplayOutcome) {
      parts.stop()
      const ended = { ...outcome, requests: replayer!.counts }
      await print(json ? jsonOf(ended) : textOf(ended))
      if (!stay) return end(statusOf(ended, until))
      over.resolve()
    },
  } as const
  const onResponder = (respond: Responder) => {
    replayer = createRequestReplayer(respond, { atOnce: config.atOnce, requestContexts })
  }
  const role = replayRole({
    head,
    recording,
    over: over.promise,
    onResponder,
    isQuiet: !stay || json,
  })
  await startNode({ config: { ...config, ...servedBy(config, head) }, ...running }, role)
}

/** Serves with the limits and flags of the recorded node, whatever this command's flags say. */
const servedBy = (
  { limits }: Pick<ReplayConfig, 'limits'>,
  { heldFlashblocks, serving }: Head,
) => ({
  heldFlashblocks,
  verifySample: 0,
  frontThreads: 1,
  ...serving,
  limits: { ...limits, ...serving.limits },
})

function statusOf(
  { differs, isStopped, shown, requests }: Ended,
  until: FlashblockPosition | undefined,
): number {
  const isSame = differs === undefined && requests.different === 0
  return isSame && !isStopped && (until === undefined || isAt(shown, until)) ? 0 : 1
}

const isAt = (shown: Ended['shown'], { number, index }: FlashblockPosition): boolean =>
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
    ['fetched values of the state', values],
    ['snapshots compared with the recording', held],
    ['requests repeated', requests.asked],
    ['with the same answer', requests.same],
    ['with another answer', requests.different],
    ...Object.entries(requests.notAsked).map(
      ([why, count]) => [`not repeated: ${why}`, count] as const,
    ),
    ...(requests.leftOut === 0 ? [] : [['left out of the recording', requests.leftOut] as const]),
  ]
  const lines = [table(rows)]
  if (shown !== undefined)
    lines.push(
      `canonical ${shown.canonical} ${bytesToHex(shown.canonicalHash)}\n`,
      `pending ${shown.pending}:${shown.index} ${bytesToHex(shown.hash)}\n`,
    )
  if (isCut) lines.push('the file is incomplete: the replay ends after its last complete section\n')
  lines.push(...requests.differences.map(differenceText))
  if (differs !== undefined) lines.push(`${differs}\n`)
  else if (requests.different === 0)
    lines.push('the replay has the same results as the recording\n')
  return lines.join('')
}

function differenceText({ method, endpoint, record, place, body, was, is }: Difference): string {
  const where = place === undefined ? `snapshot ${record}` : `snapshot ${record}, pending ${place}`
  return `${method} at ${endpoint}, ${where}: ${body}\n  was ${was}\n  is  ${is}\n`
}
