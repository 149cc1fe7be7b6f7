/** Everything a node is made of, opened and not yet connected to its clients. */
import { randomBytes } from 'node:crypto'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { WaitingWriter } from '../../engine/txpool/shared/writer.ts'
import { createFeedHub, type FeedHub } from '../../rpc/feed/hub.ts'
import { type BootstrapService, openBootstrapService } from '../bootstrap/source.ts'
import type { Cells } from '../cells/cells.ts'
import type { OpenedData } from '../data/open.ts'
import { createDigester } from '../front/digester.ts'
import { feedGate } from '../front/feed-gate.ts'
import type { Front } from '../front/front.ts'
import { createProver } from '../front/prover.ts'
import type { SharedPlaces } from '../front/shared-places.ts'
import type { SharedTransactions } from '../front/shared-transactions.ts'
import { createTransactions, type Transactions } from '../front/transactions.ts'
import { createVerifier, mismatchFiles, type Verifier } from '../front/verifier.ts'
import { createWhitelist } from '../front/whitelist.ts'
import { createHealth, type Health, type SourceState } from '../observe/health.ts'
import { createLoad, type Load } from '../observe/load.ts'
import { createMetrics, type Metrics, type MetricsAbout } from '../observe/metrics.ts'
import type { OpenedPool } from '../pool/open.ts'
import { probePool } from '../pool/probe.ts'
import type { NodeContext } from '../process/context.ts'
import { createFailing, type Failing } from '../process/failing.ts'
import type { Heap } from '../thread/heaps.ts'
import { type Clock, machineNow } from '../thread/running-clock.ts'
import type { ChainThreads } from './chain-threads.ts'
import { onKeeper, onWriter } from './on-messages.ts'
import type { ConnectedSource, Role } from './role.ts'

/** What runs already while the main thread loads the rest. */
export type StartedNode = OpenedData &
  OpenedPool & {
    readonly threads: ChainThreads
    readonly reader: ChainReader
    readonly heaps: () => Promise<readonly Heap[]>
    /** Of the process: what calls may take is counted by it. */
    readonly now: Clock
  }
export type Parts = StartedNode & {
  readonly transactions: Transactions
  readonly feed: FeedHub
  readonly health: Health
  readonly metrics: Metrics
  readonly load: Load
  readonly failing: Failing
  /** The pool, for clients. */
  readonly executor: Verifier
  /** What is opened after the first messages may come. */
  /** undefined: nobody copies this node. */
  readonly bootstrap: BootstrapService | undefined
  readonly later: {
    front?: Front
    source?: ConnectedSource
    cells?: Cells
    shared?: SharedTransactions
    places?: SharedPlaces
  }
  /** A canonical block or an answer is not what the other engine makes of it. */
  readonly distrust: (reason: string) => void
}

/** Tells this run of the node from others. */
const runName = (): string => `0x${randomBytes(8).toString('hex')}`

/** Opens the rest, and hears what the threads have said and say. */
export function openParts(
  context: NodeContext,
  started: StartedNode,
  role: Pick<Role, 'readiness' | 'mode' | 'isGuest' | 'isQuiet' | 'hidesBlocks'>,
  waiting?: WaitingWriter,
): Parts {
  const { config, reporter } = context
  const { limits } = config
  const { mode, isGuest, isQuiet, hidesBlocks } = role
  const { chain, reader, pool, jobs, journal, threads, now } = started
  const later: Parts['later'] = {}
  const about = { run: runName(), gate: feedGate(config.enrichTokenFile) }
  const feed = feedOfAll(createFeedHub(limits, about), later)
  const health = createHealth({
    now: machineNow,
    ...role.readiness,
    mode,
    probe: () => probePool(pool, now),
    source: () => stateOf(later),
  })
  const failing = createFailing({ report: reporter.report, fail: context.fail }, health)
  const transactions = createTransactions({
    ...{ reader, chain, journal, limits, waiting, now },
    prove: createProver({ executor: pool, limits, now }),
    makeDigest: createDigester({ executor: pool, limits, now }),
    isListed: createWhitelist(chain, { executor: pool, limits, now }),
    onFailure: failing,
  })
  const distrust = (reason: string) => {
    health.failed({ text: reason, outside: 'its own answers differ from one another' })
    threads.writer.post({ type: 'distrust', reason })
  }
  const verifier = createVerifier({
    ...{ executor: pool, limits, now, share: config.verifySample, random: Math.random },
    report: reporter.report,
    keep: mismatchFiles(started.directory.path),
    distrust,
  })
  const bootstrap = bootstrapOf(context, started)
  const metrics = createMetrics(
    {
      ...{ pool: pool.stats, keptLogs: started.keptLogs },
      holds: () => later.front?.holds() ?? {},
      feed: () => ({ subscribers: feed.subscribers, ...feed.counts }),
      txpool: () => ({ ...transactions.stats(), ...toldStats(later) }),
      front: () => later.front?.stats() ?? {},
      heaps: started.heaps,
      bootstrap: () => bootstrap?.stats() ?? {},
      mishaps: reporter.counts,
      verified: verifier.counts,
    },
    machineNow,
    { mode, isGuest, others: othersOf(later) },
  )
  const load = createLoad(() => later.cells?.load() ?? pool.stats(), machineNow)
  const parts: Parts = {
    ...started,
    ...{ load, feed, transactions, health, metrics, failing, later, bootstrap, executor: verifier },
    distrust,
  }
  jobs.open((job) => {
    metrics.job(job)
    load.queued(job.queuedMs)
  })
  threads.fromKeeper.open((message) => onKeeper(message, parts, context))
  const isTold = isQuiet !== true && hidesBlocks !== true && process.stdout.isTTY
  const shown = { hashes: [], isFollowed: false }
  threads.fromWriter.open((message) => onWriter(message, { ...parts, isTold, shown }, context))
  return parts
}

/** undefined: nobody may copy this node. */
function bootstrapOf(
  { config, reporter, lifecycle }: NodeContext,
  { database, directory }: StartedNode,
): BootstrapService | undefined {
  if (config.bootstrapTokenFile === undefined) return undefined
  const { report } = reporter
  const service = openBootstrapService({
    ...{ config, limits: config.limits, database, path: directory.path, report, now: machineNow },
  })
  lifecycle.onStop('the reader of new replicas', service.close)
  return service
}

/** Of what replicas tell each other. */
const toldStats = ({ shared, places }: Parts['later']) => ({
  ...shared?.stats(),
  ...places?.stats(),
})

/** Of this thread, and of the cells that it tells. */
function feedOfAll(hub: FeedHub, later: Pick<Parts['later'], 'cells'>): FeedHub {
  return {
    ...hub,
    get subscribers() {
      return hub.subscribers
    },
    broadcast(packet, place) {
      hub.broadcast(packet, place)
      later.cells?.tell({ type: 'packet', packet, place })
    },
    changed(changes) {
      hub.changed(changes)
      later.cells?.tell({ type: 'changes', changes })
    },
  }
}

const NOTHING_SAID: SourceState = { degraded: [], unready: [], details: {} }
/** Of where blocks come from, and of the cells. */
function stateOf({ source, cells }: Parts['later']): SourceState | undefined {
  const said = source?.state?.()
  const doubts = cells?.doubts() ?? []
  if (doubts.length === 0) return said
  const { degraded, ...rest } = said ?? NOTHING_SAID
  return { ...rest, degraded: [...degraded, ...doubts] }
}

/** Who asks for metrics waits no longer for a cell that is busy. */
const METRICS_MS = 2_000
const othersOf = (later: Pick<Parts['later'], 'cells'>): MetricsAbout['others'] & object => ({
  async texts() {
    const asked = later.cells?.askAll<'metrics'>({ what: 'metrics' }, METRICS_MS)
    return ((await asked) ?? []).map(({ text }) => text)
  },
  async read(name) {
    const asked = later.cells?.askAll<'metric'>({ what: 'metric', name }, METRICS_MS)
    return ((await asked) ?? []).flatMap(({ values }) => values)
  },
})
