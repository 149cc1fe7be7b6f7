/** Serves a node whose threads run: opens its parts, connects them to each other and to clients, and says when it is ready. */
import { setTimeout as sleep } from 'node:timers/promises'
import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { createWaitingMemory } from '../../engine/txpool/shared/memory.ts'
import { openWaitingWriter } from '../../engine/txpool/shared/writer.ts'
import type { ShowPlace } from '../../engine/views/showing.ts'
import { createShownMemory } from '../../rpc/events/shared-shown.ts'
import { createLimiterMemory } from '../../rpc/limiter/memory.ts'
import type { Answerer } from '../../rpc/seam/exchange.ts'
import type { TransactionService } from '../../rpc/seam/ports.ts'
import { createCapsMemory } from '../../rpc/seam/shared-caps.ts'
import { threadOf } from '../../rpc/seam/shared-rows.ts'
import { filterHome } from '../cells/filters.ts'
import type { SharedCounts } from '../cells/messages.ts'
import type { NodeConfig } from '../config/serving.ts'
import { accountsOf, openKeys } from '../front/accounts.ts'
import { type Addresses, addressLines, readyLine } from '../front/banner.ts'
import { bringBack } from '../front/bring-back.ts'
import { bootstrapDoor } from '../front/feed-gate.ts'
import { createFront, type Front } from '../front/front.ts'
import { openPromises } from '../front/promises.ts'
import { startAdmin } from '../observe/admin.ts'
import { agentLine, startAgent } from '../observe/agent.ts'
import { HEALTH_PROBE_MS } from '../observe/health.ts'
import { modeOf } from '../observe/live.ts'
import { prepareLater } from '../pool/later.ts'
import { type NodeContext, StartError } from '../process/context.ts'
import { SERVER_MS } from '../process/lifecycle.ts'
import { saveCompiled } from '../thread/compile-cache.ts'
import { type CellParts, cellDoors, type Doors, FRONT_THREADS_MS, ownDoors } from './doors.ts'
import { openParts, type Parts, type StartedNode } from './parts.ts'
import type { ConnectedSource, Role } from './role.ts'

/** For the first answer of the pool. */
const START_MS = 30_000
/** For a cell that is busy. */
const STATS_MS = 2_000
const PAGE_TYPE = 'application/json'

/** A node as its own process asks it. */
export type Served = {
  /** Of its port; empty: it has none. */
  readonly url: string
  /** As for a client of the sockets. */
  readonly answer: Answerer
}

/** Ready when it resolves. @throws with one line that says what is wrong. */
export async function serve(
  context: NodeContext,
  started: StartedNode,
  role: Role,
): Promise<Served> {
  const { config, lifecycle, log } = context
  const keys = openKeys(config, role.keys)
  const counts = countsOf(config)
  const parts = openParts(context, started, role, counts && openWaitingWriter(counts.waiting))
  const { transactions, threads } = parts
  const source = await threads.source?.connect({ ...parts, writer: threads.writer })
  if (source !== undefined) parts.later.source = source
  const syncing = source?.syncing ?? role.syncing
  const service = await openService(context, parts, role)
  const front = await openFront(context, parts, { role, source, keys, counts, syncing, service })
  const doors =
    counts === undefined
      ? ownDoors(front)
      : await cellDoors(context, parts, { front, source, role, counts, keys, syncing, service })
  if (doors.reloadKeys !== undefined && role.isGuest !== true) onHangUp(log, doors.reloadKeys)
  doors.setPaused('starting')
  lifecycle.onStop('the server', doors.close, {
    leastMs: config.frontThreads > 1 ? FRONT_THREADS_MS : SERVER_MS,
  })
  const url = role.hasNoPort === true ? '' : (await listen(config, doors)).url
  await openAdmin(context, parts)
  await openAgent(context, parts)
  await parts.threads.ready
  const startHead = headsOf(parts.reader).canonical
  const found = transactions.restore(parts.journal.found)
  tellRestored(log, found.restored)
  await source?.start(front.answer)
  if (source?.lazy !== undefined)
    void bringBack(found, { transactions, lazy: source.lazy }).then(
      (restored) => tellRestored(log, restored),
      (error: Error) => context.fail(`journalled transactions: ${error.message}`),
    )
  const isQuiet = role.isQuiet === true
  await becomeReady(context, parts, { doors, url, source, startHead, isQuiet })
  return { url, answer: front.answer }
}

/** What several fronts count in; undefined: there is one. */
function countsOf({ frontThreads, limits }: NodeConfig): SharedCounts | undefined {
  if (frontThreads === 1) return undefined
  return {
    calls: createLimiterMemory(limits.limiterKeys),
    visits: createLimiterMemory(limits.limiterKeys),
    caps: createCapsMemory({ rows: placesOf(limits), cells: 1 + frontThreads }),
    waiting: createWaitingMemory(),
    shown: createShownMemory(limits),
  }
}

/** The txpool's, for whoever sends. The stream is loaded where it is asked for: most nodes have none. */
async function openService(
  { lifecycle, reporter }: NodeContext,
  { transactions, chain, later, threads }: Parts,
  { shareTransactions: url, behind }: Role,
): Promise<TransactionService> {
  const { service } = transactions
  if (url === undefined) return service
  const { shareTransactions } = await import('../front/shared-transactions.ts')
  const { chainId } = chain
  const lazy = later.source?.lazy
  const { report } = reporter
  const shared = shareTransactions({ url, chainId, transactions: service, lazy, report })
  lifecycle.onStop('the stream of transactions', shared.close)
  later.shared = shared
  if (behind !== undefined) {
    const { sharePlaces } = await import('../front/shared-places.ts')
    const onHeard = (place: ShowPlace) => threads.writer.post({ type: 'heard', place })
    const places = sharePlaces({ url, chainId, onHeard, report })
    lifecycle.onStop('the channel of places', places.close)
    later.places = places
  }
  return shared.telling(service)
}

/** As many as all clients together may have of what is counted by client. */
const placesOf = (limits: NodeConfig['limits']): number =>
  limits.filtersTotal +
  2 * limits.holdsTotal +
  limits.placeWaitsTotal +
  limits.syncSendsTotal +
  limits.legacyCallsTotal +
  limits.forwardsTotal +
  limits.connectionsTotal +
  limits.sockets +
  limits.refusedSocketsTotal

/** Of the main thread: with cells it answers what runs on it alone. */
async function openFront(
  { config, log, reporter }: NodeContext,
  parts: Parts,
  {
    role,
    source,
    keys,
    counts,
    syncing,
    service,
  }: Omit<CellParts, 'front' | 'counts'> & {
    readonly counts: SharedCounts | undefined
  },
): Promise<Front> {
  const { chain, reader, health, executor, metrics, later, now } = parts
  const front = await createFront({
    ...{ config, chain, reader, metrics, now, executor, syncing },
    accounts: { ...accountsOf(keys), impersonated: source?.impersonated },
    ...{ log, report: reporter.report },
    feed: source && parts.feed,
    bootstrap: bootstrapDoor(config.bootstrapTokenFile, parts.bootstrap?.answer),
    methods: source?.methods ?? [],
    legacyUrl: role.legacyUrl,
    ...{ lazy: source?.lazy, forward: source?.forward, mode: role.mode },
    pageMode: config.page === 'on' ? modeOf(role) : undefined,
    transactions: service,
    promises: openPromises(parts.database, () => Date.now()),
    readiness: (maxLagMs) => health.readiness(maxLagMs),
    courses: role.tape?.courses,
    requests: role.tape?.type === 'record' ? role.tape.courses : undefined,
    ...(counts && {
      // What the clients of the admin port hold is counted here alone: this thread must not wait for the lock of another.
      purses: {
        ...{ calls: counts.calls, visits: counts.visits },
        ...{ thread: threadOf(0), mayWait: false },
      },
      filterHome: filterHome(0, async (cell, asked) => later.cells?.filter(cell, asked)),
    }),
  })
  later.front = front
  parts.spent.open(front.spent)
  return front
}

/** What an operator has changed while the node runs. */
function onHangUp(log: NodeContext['log'], reload: () => Promise<number | undefined>): void {
  process.on('SIGHUP', async () => {
    const keys = await reload()
    if (keys !== undefined) log.info({ keys }, 'the API keys were read again')
  })
}

function tellRestored(log: NodeContext['log'], restored: number): void {
  if (restored > 0) log.info({ restored }, 'accepted transactions are in the txpool again')
}

type Opened = {
  readonly doors: Doors
  readonly url: string
  readonly source: ConnectedSource | undefined
  /** Canonical height when the directory was opened. */
  readonly startHead: number
  readonly isQuiet: boolean
}

/** Requests are answered from here on, from the head that is here; it is ready once it is where the chain is that it follows. */
async function becomeReady(
  context: NodeContext,
  parts: Parts,
  { doors, url, source, startHead, isQuiet }: Opened,
): Promise<void> {
  const { config, lifecycle, log } = context
  const { reader, health, chain, pool } = parts
  const { canonical, pending } = headsOf(reader)
  health.published(canonical, pending, false)
  const problem = await firstProbe(context, parts)
  const probes = setInterval(() => void health.probe(), HEALTH_PROBE_MS).unref()
  lifecycle.onStop(
    'the requests in flight',
    async (withinMs) => {
      clearInterval(probes)
      health.stopping()
      // Who asks for readiness or weight has to ask once more before nobody is answered.
      if (config.drainMs > 0) await sleep(config.drainMs)
      await doors.drain(withinMs - config.drainMs)
    },
    { extraMs: config.drainMs, about: doors.waitsFor },
  )
  if (lifecycle.isStopping) return
  if (problem !== undefined) throw new StartError(`cannot answer requests: ${problem}`)
  health.started()
  doors.setPaused(undefined)
  if (source?.caughtUp !== undefined) {
    log.info({ url, head: canonical }, 'answers from its own head, and looks for that of the chain')
    await source.caughtUp
    if (lifecycle.isStopping) return
  }
  if (!isQuiet) {
    if (source !== undefined) process.stdout.write(source.banner(chain))
    if (url !== '') {
      const makesChain = source !== undefined && source.caughtUp === undefined
      const continued = continuedChain(config, chain, { startHead, makesChain })
      const { page, rateLimit } = config
      const [hasFeed, hasPage] = [source !== undefined, page === 'on']
      process.stdout.write(addressLines({ url, hasFeed, hasPage, rateLimit, continued }))
    }
    process.stdout.write(readyLine(url, chain.chainId, BigInt(headsOf(reader).canonical)))
  }
  pool.saveCompiled()
  saveCompiled()
  prepareLater({ config, lifecycle }, pool)
}

/** undefined: the chain starts with this start, or its directory ends with it. */
function continuedChain(
  { datadir }: Pick<NodeConfig, 'datadir'>,
  { genesisHeader }: Pick<ChainSpec, 'genesisHeader'>,
  { startHead, makesChain }: { readonly startHead: number; readonly makesChain: boolean },
): Addresses['continued'] {
  if (datadir === undefined || BigInt(startHead) === genesisHeader.number) return undefined
  const hint = makesChain ? '; --ephemeral starts a new one' : ''
  return { path: datadir, block: startHead, hint }
}

const headsOf = (reader: ChainReader) =>
  readNewest(reader, 'standard', ({ canonical, pending }) => ({
    canonical: Number(canonical.number),
    pending: Number(pending.number),
  }))

/** A machine that is busy with other things may need more time than one question has. Gives what went wrong. */
async function firstProbe(
  { lifecycle }: NodeContext,
  { health, now }: Parts,
): Promise<string | undefined> {
  const until = now() + START_MS
  for (;;) {
    const problem = await health.probe()
    if (problem === undefined || now() >= until || lifecycle.isStopping) return problem
  }
}

async function listen({ host, port }: NodeConfig, doors: Doors) {
  try {
    return await doors.listen(port)
  } catch (error) {
    throw cannotListen(error, { host, port, flag: '--port' })
  }
}

async function openAdmin({ config, lifecycle }: NodeContext, parts: Parts): Promise<void> {
  const { adminPort } = config
  if (adminPort === 0) return
  const { metrics, health, pool, transactions, later } = parts
  const readiness = () => {
    const { outside: _, ...told } = health.readiness()
    return told
  }
  const details = async () => ({
    ...readiness(),
    pool: pool.stats(),
    transactions: transactions.stats(),
    front: later.front?.stats(),
    cells: await later.cells?.askAll<'stats'>({ what: 'stats' }, STATS_MS),
  })
  try {
    const pages = {
      '/metrics': async () => ({ type: metrics.contentType, text: await metrics.text() }),
      '/': async () => ({ type: PAGE_TYPE, text: JSON.stringify(await details(), null, 2) }),
    }
    const { status, server } = later.front ?? {}
    const admin = await startAdmin(adminPort, pages, status && { status, adopt: server!.adopt })
    lifecycle.onStop('the admin server', admin.close)
  } catch (error) {
    throw cannotListen(error, { host: '127.0.0.1', port: adminPort, flag: '--admin-port' })
  }
}

async function openAgent({ config, lifecycle }: NodeContext, parts: Parts): Promise<void> {
  const { agentPort: port, agentHost: host } = config
  if (port === 0) return
  const { health, load } = parts
  const weighing = load.start()
  try {
    const agent = await startAgent({ host, port }, () => agentLine(health, weighing))
    lifecycle.onStop('the agent', async () => {
      weighing.close()
      await agent.close()
    })
  } catch (error) {
    throw cannotListen(error, { host, port, flag: '--agent-port' })
  }
}

function cannotListen(
  error: unknown,
  { host, port, flag }: { readonly host: string; readonly port: number; readonly flag: string },
): StartError {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE')
    return new StartError(
      `port ${port} of ${host} is taken: stop the program that has it, or give another ${flag}`,
    )
  if (code === 'EACCES')
    return new StartError(
      `port ${port} of ${host} is not allowed for this user: give another ${flag}`,
    )
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return new StartError(`${host} is no address of this machine: give another --host`)
  return new StartError(`cannot listen on ${host}:${port}: ${message}`)
}
