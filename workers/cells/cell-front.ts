/** The front of a cell: what it reads and runs is its own, what there is once it asks of the main thread. */
import { openChainReader } from '../../engine/chain/reader.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import { openWaitingReader } from '../../engine/txpool/shared/reader.ts'
import { openSharedShown } from '../../rpc/events/shared-shown.ts'
import { createFeedHub, type FeedHub } from '../../rpc/feed/hub.ts'
import { eth_sendTransaction } from '../../rpc/methods/account.ts'
import { openSharedCaps } from '../../rpc/seam/shared-caps.ts'
import { threadOf } from '../../rpc/seam/shared-rows.ts'
import { accountsOf } from '../front/accounts.ts'
import { bootstrapDoor, feedGate } from '../front/feed-gate.ts'
import { createFront, type Front, type FrontParts } from '../front/front.ts'
import { openPromises } from '../front/promises.ts'
import { createVerifier, mismatchFiles, type Verifier } from '../front/verifier.ts'
import { HEALTH_PROBE_MS, type ToldReadiness } from '../observe/health.ts'
import { SAMPLE_MS } from '../observe/load.ts'
import { createCellMetrics, type FrontMetrics } from '../observe/metrics.ts'
import { prepareLater } from '../pool/later.ts'
import { type OpenedPool, openPool } from '../pool/open.ts'
import { probePool } from '../pool/probe.ts'
import type { NodeContext } from '../process/context.ts'
import { SERVER_MS } from '../process/lifecycle.ts'
import { watchHeaps } from '../thread/heaps.ts'
import { type Clock, openClock } from '../thread/running-clock.ts'
import type { Asker } from './asking.ts'
import { carried, passedOn } from './carried.ts'
import { filterHome } from './filters.ts'
import type { CellData, CellQuestions, FromCell, ToCell } from './messages.ts'
import { remoteForward, remoteLazy, remoteTransactions } from './ports.ts'

/** How a cell speaks to the main thread. */
type Link = {
  readonly ask: Asker<keyof CellQuestions>
  readonly post: (message: FromCell) => void
}
type Told = Exclude<ToCell, { readonly type: 'ask' | 'answer' }>

export interface CellFront {
  readonly front: Front
  readonly metrics: FrontMetrics
  readonly pool: () => ReturnType<OpenedPool['pool']['stats']>
  hear(message: Told): void
}

/** A control of a development chain may wait for many blocks. */
const CALL_MS = 600_000
const UNHEARD: ToldReadiness = {
  status: 'unready',
  reasons: ['the main thread does not answer'],
  outside: ['the main thread does not answer'],
  details: {},
}

const SILENT = { status: 503, wrong: UNHEARD.reasons[0]! }

export async function openCellFront(
  context: NodeContext,
  data: CellData,
  link: Link,
): Promise<CellFront> {
  const { config, cell, node, path } = data
  const chain = chainSpec(node.chain)
  const now = openClock(node.clock)
  const database = attachDatabase(node.database)
  const row = { thread: node.thread, front: node.thread, latest: config.latest }
  const store = openStore(database)
  const reader = openChainReader({ ...row, views: node.views, store, chain })
  const opened = openPool(
    context,
    { database, shared: node },
    { ...data, front: node.thread, reader },
  )
  const executor = createVerifier({
    ...{ executor: opened.pool, limits: config.limits, now, random: Math.random },
    ...{ share: config.verifySample, report: context.reporter.report },
    keep: mismatchFiles(path, cell),
    distrust: (reason) => link.post({ type: 'distrust', reason }),
  })
  const gate = feedGate(config.enrichTokenFile)
  const feed =
    data.feed && createFeedHub(config.limits, { run: data.feed.run, gate, seed: data.feed })
  const later: { front?: Front } = {}
  const metrics = metricsOf({ cell, opened, executor, feed, later })
  let waitMs = 0
  opened.jobs.open((job) => {
    metrics.job(job)
    waitMs = Math.max(waitMs, job.queuedMs)
  })
  const tellLoad = () => {
    const { busy, threads } = opened.pool.stats()
    link.post({ type: 'load', busy, threads, waitMs })
    waitMs = 0
  }
  const remote = openRemote(data, link)
  const front = await createFront({
    ...remote.parts,
    ...{ config, chain, reader, executor, feed, now },
    ...{ log: context.log, report: context.reporter.report },
    bootstrap: bootstrapDoor(
      config.bootstrapTokenFile,
      async (url) => (await link.ask<'bootstrap'>({ what: 'bootstrap', url })) ?? SILENT,
    ),
    promises: openPromises(database, () => Date.now()),
    // What a page shows is of all.
    metrics: { ...metrics, read: remote.read },
  })
  later.front = front
  opened.spent.open(front.spent)
  front.server.setPaused('starting')
  context.lifecycle.onStop('the server', front.close, { leastMs: SERVER_MS })
  const probe = () => void tellProbe(opened, link, now)
  watchFromNowOn(context, { probe, tellLoad })
  prepareLater(context, opened.pool)
  return {
    ...{ front, metrics },
    pool: opened.pool.stats,
    hear: (message) => hear(message, { front, feed, remote, opened, probe }),
  }
}

type Heard = {
  readonly front: Front
  readonly feed: FeedHub | undefined
  readonly remote: ReturnType<typeof openRemote>
  readonly opened: Pick<OpenedPool, 'pool'>
  readonly probe: () => void
}

function hear(message: Told, { front, feed, remote, opened, probe }: Heard): void {
  switch (message.type) {
    case 'heard':
      front.hear(message.message)
      if (message.message.type === 'published') front.published()
      return
    case 'arrived':
      front.arrived()
      return
    case 'packet':
      feed?.broadcast(message.packet, message.place)
      return
    case 'changes':
      feed?.changed(message.changes)
      return
    case 'pending':
      remote.transactions.pending(message.hash, message.transaction)
      return
    case 'departed':
      remote.transactions.departed(message.hashes)
      return
    case 'cancel':
      opened.pool.cancel(message.record)
      return
    case 'paused':
      front.server.setPaused(message.reason)
      if (message.reason === undefined) probe()
      return
    case 'syncing':
      remote.told.syncing = message.syncing
  }
}

/** What the main thread has, as a front asks for it. */
function openRemote(data: CellData, { ask, post }: Link) {
  const { cell, shared, keys, mode, legacyUrl, pageMode, hasControls } = data
  const transactions = remoteTransactions(ask, openWaitingReader(shared.waiting), post)
  const pass = (method: Parameters<typeof passedOn>[0]) =>
    passedOn(method, ({ client, ...call }) =>
      ask<'call'>(
        { what: 'call', ...call, address: client.address },
        { signal: client.signal, withinMs: CALL_MS },
      ),
    )
  const told = { syncing: data.syncing }
  return {
    transactions,
    told,
    read: async (name: string) => (await ask<'metric'>({ what: 'metric', name }))?.values ?? [],
    parts: {
      ...{ transactions, mode, legacyUrl, pageMode, hasControls },
      accounts: accountsOf(keys),
      methods: data.methods.map(pass),
      // Accounts that are sent for without their keys are known there, and nonces of the others are given one by one.
      instead: [pass(carried(eth_sendTransaction))],
      syncing: () => told.syncing,
      lazy: data.isLazy ? remoteLazy(ask) : undefined,
      forward: data.hasForward ? remoteForward(ask) : undefined,
      readiness: async (maxLagMs?: number) =>
        (await ask<'readiness'>({ what: 'readiness', maxLagMs })) ?? UNHEARD,
      purses: {
        ...{ calls: shared.calls, visits: shared.visits },
        ...{ thread: threadOf(cell), mayWait: true },
      },
      caps: openSharedCaps(shared.caps, cell),
      shownNotes: openSharedShown(shared.shown, threadOf(cell)),
      filterHome: filterHome(cell, (of, asked) =>
        ask<'filter'>({ what: 'filter', cell: of, ...asked }),
      ),
    } satisfies Partial<FrontParts>,
  }
}

function metricsOf(parts: {
  readonly cell: number
  readonly opened: OpenedPool
  readonly executor: Verifier
  readonly feed: FeedHub | undefined
  readonly later: { readonly front?: Front }
}): FrontMetrics {
  const { opened, executor, feed, later } = parts
  const sources = {
    ...{ pool: opened.pool.stats, keptLogs: opened.keptLogs },
    holds: () => later.front?.holds() ?? {},
    feed: () => (feed === undefined ? {} : { subscribers: feed.subscribers, ...feed.counts }),
    front: () => later.front?.stats() ?? {},
    heaps: watchHeaps().heaps,
    verified: executor.counts,
  }
  return createCellMetrics(sources, parts.cell)
}

const tellProbe = (opened: Pick<OpenedPool, 'pool'>, { post }: Link, now: Clock): Promise<void> =>
  probePool(opened.pool, now).then(
    () => post({ type: 'probed', problem: undefined }),
    (error: Error) => post({ type: 'probed', problem: error.message }),
  )

/** What the main thread is told without asking. */
function watchFromNowOn(
  { config, lifecycle }: NodeContext,
  { probe, tellLoad }: { readonly probe: () => void; readonly tellLoad: () => void },
): void {
  const probes = setInterval(probe, HEALTH_PROBE_MS).unref()
  const loads = config.agentPort > 0 ? setInterval(tellLoad, SAMPLE_MS).unref() : undefined
  lifecycle.onStop('what a cell tells of itself', () => {
    clearInterval(probes)
    clearInterval(loads)
  })
}
