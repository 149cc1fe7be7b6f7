/** How clients reach a node: by the front of the main thread, or by cells that are threads. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { clearThread } from '../../engine/views/arena.ts'
import type { Syncing, TransactionService } from '../../rpc/seam/ports.ts'
import { answersOf } from '../cells/answering.ts'
import { carried } from '../cells/carried.ts'
import { type Cells, startCells } from '../cells/cells.ts'
import { askFilter } from '../cells/filters.ts'
import type { CellData, SharedCounts } from '../cells/messages.ts'
import { shareOf } from '../cells/shares.ts'
import type { Front, Place } from '../front/front.ts'
import { modeOf } from '../observe/live.ts'
import type { NodeContext } from '../process/context.ts'
import { allThreads, cellRow, createClaims, divide, releaseEnded } from '../thread/rows.ts'
import type { Parts } from './parts.ts'
import type { ConnectedSource, Role } from './role.ts'

export interface Doors {
  listen(port: number): Promise<Place>
  setPaused(reason: 'starting' | 'draining' | undefined): void
  drain(withinMs: number): Promise<void>
  close(withinMs: number): Promise<void>
  /** What a drain waits for at the moment. */
  waitsFor(): string
  /** Reads the API keys again, and gives their number; undefined: their file has a problem. Left out: there are none. */
  readonly reloadKeys?: (() => Promise<number | undefined>) | undefined
}

export function ownDoors({ server, listen, close, reloadKeys }: Front): Doors {
  return {
    listen: (port) => listen(port),
    setPaused: (reason) => server.setPaused(reason),
    drain: (withinMs) => server.drain(withinMs),
    close,
    waitsFor: () => unfinished(server),
    reloadKeys: reloadKeys && (async () => reloadKeys()),
  }
}

const unfinished = ({ inFlight, webSockets, unsent }: Front['server']): string =>
  `${inFlight} requests and messages, ${webSockets} WebSockets, ${unsent.answers} answers that are not read`

export type CellParts = {
  readonly front: Front
  readonly source: ConnectedSource | undefined
  readonly role: Role
  readonly counts: SharedCounts
  readonly keys: readonly Bytes[]
  readonly syncing: () => Syncing
  /** Of the main thread's txpool. */
  readonly service: TransactionService
}

/** Kept for closing their connections and ending them, whatever the requests in flight take. */
export const FRONT_THREADS_MS = 1_300
/** For the way there and back. */
const DRAIN_SPARE_MS = 300
const drainedMs = (withinMs: number) => Math.max(0, withinMs - DRAIN_SPARE_MS)
const SYNCING_MS = 250

/** Resolves when the cells can listen. @throws the system's error */
export async function cellDoors(
  context: NodeContext,
  parts: Parts,
  own: CellParts,
): Promise<Doors> {
  const { config, lifecycle, reporter, fail } = context
  const { front, counts } = own
  const later: { cells?: Cells } = {}
  const filter = async (cell: number, asked: Parameters<typeof askFilter>[1]) =>
    cell === 0 ? askFilter(front.filters, asked) : later.cells?.filter(cell, asked)
  const cells = await startCells({
    count: config.frontThreads,
    dataOf: (cell) => dataOf(cell, { context, parts, own }),
    counts,
    answers: answersOf({
      ...{ health: parts.health, metrics: parts.metrics, answer: front.answer, filter },
      transactions: own.service,
      bootstrap: parts.bootstrap,
      ...{ lazy: own.source?.lazy, forward: own.source?.forward },
    }),
    onPending: own.service.onPending,
    release: (data, thread) => release(parts, data, thread),
    distrust: parts.distrust,
    onQueued: parts.load.queued,
    ...{ report: reporter.report, fail },
    onStarted: (started) => {
      later.cells = started
      parts.later.cells = started
    },
  })
  own.service.onDeparted((hashes) => cells.tell({ type: 'departed', hashes }))
  lifecycle.onStop('what cells are told of syncing', tellSyncing(own.syncing, cells))
  return doorsOf(cells, own, config)
}

function doorsOf(
  cells: Cells,
  { front }: CellParts,
  { host, apiKeys }: NodeContext['config'],
): Doors {
  return {
    async listen(port) {
      if (port !== 0) await tryAlone(host, port)
      return cells.listen(port)
    },
    setPaused(reason) {
      front.server.setPaused(reason)
      cells.tell({ type: 'paused', reason })
    },
    async drain(withinMs) {
      await Promise.all([
        front.server.drain(withinMs),
        cells.askAll<'drain'>({ what: 'drain', withinMs: drainedMs(withinMs) }, withinMs),
      ])
    },
    async close(withinMs) {
      await Promise.all([front.close(), cells.close(withinMs)])
    },
    waitsFor: () => `${cells.count} front threads`,
    reloadKeys:
      apiKeys === undefined
        ? undefined
        : async () => {
            const count = front.reloadKeys?.()
            const counts = await cells.askAll<'reloadKeys'>({ what: 'reloadKeys' })
            return counts.every((one) => one.count === count) ? count : undefined
          },
  }
}

/** They are asked for it at any time, and cannot wait for an answer. @returns stops it */
function tellSyncing(syncing: () => Syncing, cells: Cells): () => void {
  let told = syncing()
  const timer = setInterval(() => {
    const now = syncing()
    if (isDeepStrictEqual(now, told)) return
    told = now
    cells.tell({ type: 'syncing', syncing: now })
  }, SYNCING_MS).unref()
  return () => clearInterval(timer)
}

/** Whoever shares a port shares it with whoever has it already, in silence. @throws the system's error */
async function tryAlone(host: string, port: number): Promise<void> {
  const server = createServer().listen({ host, port })
  await once(server, 'listening')
  server.close()
  await once(server, 'close')
}

type Around = {
  readonly context: NodeContext
  readonly parts: Parts
  readonly own: CellParts
}

function dataOf(cell: number, { context, parts, own }: Around): CellData {
  const { config, logOptions, reporter } = context
  const { role, source, counts, keys } = own
  const division = divide(config.poolThreads, config.frontThreads)
  const row = cellRow(division, cell - 1)
  return {
    cell,
    node: { ...parts.shared, thread: row },
    claims: createClaims(division.each, row + 1),
    threads: division.each,
    allThreads: allThreads(division),
    config: shareOf(config, division.cells),
    shared: counts,
    keys,
    methods: (source?.methods ?? []).map(carried),
    legacyUrl: role.legacyUrl,
    mode: role.mode,
    isLazy: source?.lazy !== undefined,
    hasForward: source?.forward !== undefined,
    feed: source && parts.feed.seed(),
    pageMode: config.page === 'on' ? modeOf(role) : undefined,
    hasControls: config.methods === 'all' && (source?.methods.length ?? 0) > 0,
    syncing: own.syncing(),
    path: parts.directory.path,
    log: logOptions,
    mishaps: reporter.shared,
  }
}

/** Its workers have ended before it. */
function release({ database, shared }: Parts, { claims, node }: CellData, thread: number): void {
  for (const worker of claims.words)
    if (worker !== 0) releaseEnded({ database, views: shared.views, claims }, worker)
  database.threadEnded(thread)
  clearThread(shared.views, node.thread)
}
