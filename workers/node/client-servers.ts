/** Servers for clients: the main thread's front, or front threads of their own. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { clearThread } from '../../engine/views/arena.ts'
import type { Syncing, TransactionService } from '../../rpc/core/ports.ts'
import type { Front, ListenAddress } from '../front/front.ts'
import { carried } from '../front-threads/carried.ts'
import { requestFilter } from '../front-threads/filters.ts'
import { type FrontThreads, startFrontThreads } from '../front-threads/front-threads.ts'
import type { FrontThreadData, SharedCounts } from '../front-threads/messages.ts'
import { requestHandlers } from '../front-threads/request-handlers.ts'
import { shareOf } from '../front-threads/shares.ts'
import { modeOf } from '../observe/live.ts'
import type { NodeContext } from '../process/context.ts'
import { allThreads, createClaims, divide, frontThreadRow, releaseEnded } from '../thread/rows.ts'
import type { Parts } from './parts.ts'
import type { ConnectedSource, Role } from './role.ts'

export interface ClientServers {
  listen(port: number): Promise<ListenAddress>
  setPaused(reason: 'starting' | 'draining' | undefined): void
  drain(withinMs: number): Promise<void>
  close(withinMs: number): Promise<void>
  /** Says what a drain is waiting for. */
  waitsFor(): string
  /**
   * Reads the API keys again and returns their number; undefined if their file has a problem.
   * Omitted if there are no keys.
   */
  readonly reloadKeys?: (() => Promise<number | undefined>) | undefined
}

export function mainThreadServers({ server, listen, close, reloadKeys }: Front): ClientServers {
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
  `${inFlight} requests and messages, ${webSockets} WebSockets, ${unsent.responses} answers that clients have not read`

export type FrontThreadParts = {
  readonly front: Front
  readonly source: ConnectedSource | undefined
  readonly role: Role
  readonly counts: SharedCounts
  readonly keys: readonly Bytes[]
  readonly syncing: () => Syncing
  /** Service of the main thread's txpool. */
  readonly service: TransactionService
}

/**
 * Time that is reserved for closing connections and ending front threads, however long requests
 * take.
 */
export const FRONT_THREADS_MS = 1_300
/** Time for the messages to front threads and back. */
const DRAIN_SPARE_MS = 300
const drainedMs = (withinMs: number) => Math.max(0, withinMs - DRAIN_SPARE_MS)
const SYNCING_MS = 250

/** Resolves when the front threads can listen. @throws the system's error */
export async function frontThreadServers(
  context: NodeContext,
  parts: Parts,
  own: FrontThreadParts,
): Promise<ClientServers> {
  const { config, lifecycle, reporter, fail } = context
  const { front, counts } = own
  const later: { frontThreads?: FrontThreads } = {}
  const filter = async (frontThread: number, request: Parameters<typeof requestFilter>[1]) =>
    frontThread === 0
      ? requestFilter(front.filters, request)
      : later.frontThreads?.filter(frontThread, request)
  const frontThreads = await startFrontThreads({
    count: config.frontThreads,
    dataOf: (frontThread) => dataOf(frontThread, { context, parts, own }),
    counts,
    handlers: requestHandlers({
      health: parts.health,
      metrics: parts.metrics,
      respond: front.respond,
      filter,
      transactions: own.service,
      bootstrap: parts.bootstrap,
      lazy: own.source?.lazy,
      forward: own.source?.forward,
    }),
    onPending: own.service.onPending,
    release: (data, thread) => release(parts, data, thread),
    haltWriter: parts.haltWriter,
    onQueued: parts.load.queued,
    report: reporter.report,
    fail,
    onStarted: (started) => {
      later.frontThreads = started
      parts.later.frontThreads = started
    },
  })
  own.service.onDeparted((hashes) => frontThreads.notify({ type: 'departed', hashes }))
  lifecycle.onStop('the sync status of front threads', notifySyncing(own.syncing, frontThreads))
  return serversOf(frontThreads, own, config)
}

function serversOf(
  frontThreads: FrontThreads,
  { front }: FrontThreadParts,
  { host, apiKeys }: NodeContext['config'],
): ClientServers {
  return {
    async listen(port) {
      if (port !== 0) await tryAlone(host, port)
      return frontThreads.listen(port)
    },
    setPaused(reason) {
      front.server.setPaused(reason)
      frontThreads.notify({ type: 'paused', reason })
    },
    async drain(withinMs) {
      await Promise.all([
        front.server.drain(withinMs),
        frontThreads.requestAll<'drain'>(
          { what: 'drain', withinMs: drainedMs(withinMs) },
          withinMs,
        ),
      ])
    },
    async close(withinMs) {
      await Promise.all([front.close(), frontThreads.close(withinMs)])
    },
    waitsFor: () => `${frontThreads.count} front threads`,
    reloadKeys:
      apiKeys === undefined
        ? undefined
        : async () => {
            const count = front.reloadKeys?.()
            const counts = await frontThreads.requestAll<'reloadKeys'>({ what: 'reloadKeys' })
            return counts.every((one) => one.count === count) ? count : undefined
          },
  }
}

/**
 * Pushes the syncing status to front threads, which have to answer at once.
 * @returns a function that stops it
 */
function notifySyncing(syncing: () => Syncing, frontThreads: FrontThreads): () => void {
  let notified = syncing()
  const timer = setInterval(() => {
    const now = syncing()
    if (isDeepStrictEqual(now, notified)) return
    notified = now
    frontThreads.notify({ type: 'syncing', syncing: now })
  }, SYNCING_MS).unref()
  return () => clearInterval(timer)
}

/**
 * Checks that the port is free, because a shared port would be shared with another process without
 * an error.
 * @throws the system's error
 */
async function tryAlone(host: string, port: number): Promise<void> {
  const server = createServer().listen({ host, port })
  await once(server, 'listening')
  server.close()
  await once(server, 'close')
}

type Around = {
  readonly context: NodeContext
  readonly parts: Parts
  readonly own: FrontThreadParts
}

function dataOf(frontThread: number, { context, parts, own }: Around): FrontThreadData {
  const { config, logOptions, reporter } = context
  const { role, source, counts, keys } = own
  const division = divide(config.poolThreads, config.frontThreads)
  const row = frontThreadRow(division, frontThread - 1)
  return {
    frontThread,
    node: { ...parts.shared, thread: row },
    claims: createClaims(division.each, row + 1),
    threads: division.each,
    allThreads: allThreads(division),
    config: shareOf(config, division.frontThreads),
    shared: counts,
    keys,
    methods: (source?.methods ?? []).map(carried),
    forwardingUrl: role.forwardingUrl,
    mode: role.mode,
    isLazy: source?.lazy !== undefined,
    hasForward: source?.forward !== undefined,
    feed: source && parts.feed.seed(),
    pageMode: config.page === 'on' ? modeOf(role) : undefined,
    hasControls: config.methods === 'all' && (source?.methods.length ?? 0) > 0,
    syncing: own.syncing(),
    path: parts.directory.path,
    log: logOptions,
    incidents: reporter.shared,
  }
}

/** Releases the leases of a front thread; its workers have ended before. */
function release(
  { database, shared }: Parts,
  { claims, node }: FrontThreadData,
  thread: number,
): void {
  for (const worker of claims.words)
    if (worker !== 0) releaseEnded({ database, views: shared.views, claims }, worker)
  database.threadEnded(thread)
  clearThread(shared.views, node.thread)
}
