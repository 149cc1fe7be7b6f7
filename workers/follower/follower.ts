/** The follower's thread: asks the upstreams of a chain for its blocks, hands them to the writer, and forwards what others answer. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import type { ChainReader } from '../../engine/chain/types.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { Beginner } from '../../engine/sources/lazy/anew.ts'
import { createDepths } from '../../engine/sources/lazy/depth.ts'
import type { Fetcher } from '../../engine/sources/lazy/fetcher.ts'
import { paceOf } from '../../engine/sources/lazy/pace.ts'
import { sealedBlock } from '../../engine/sources/upstream/blocks.ts'
import type { Upstream } from '../../engine/sources/upstream/client.ts'
import {
  createDriver,
  type Driver,
  type FollowedBlock,
  type Told,
} from '../../engine/sources/upstream/driver.ts'
import { UpstreamError } from '../../engine/sources/upstream/error.ts'
import type { UpstreamLimits } from '../../engine/sources/upstream/limits.ts'
import { createPace } from '../../engine/sources/upstream/pace.ts'
import { createTracker } from '../../engine/sources/upstream/tracker.ts'
import { trackerTimes } from '../../engine/sources/upstream/tracker-types.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import { storageFailure } from '../../engine/storage/keeper/failure.ts'
import type { StoreReader } from '../../engine/storage/types.ts'
import { saveCompiledLater } from '../thread/compile-cache.ts'
import type {
  FollowerToWriter,
  FromFollower,
  ToFollower,
  WriterToFollower,
} from '../thread/follower-messages.ts'
import { createInbox, type Inbox } from '../thread/inbox.ts'
import type { SharedNode } from '../thread/messages.ts'
import { createLateProbes, openBeginner } from './begin.ts'
import { type CheckCount, differenceOf } from './checks.ts'
import { failureOf } from './fetcher.ts'
import { createForwarder, type Forwarder } from './forward.ts'
import { type LazyData, openBudget, openFetcher } from './lazy.ts'
import { finalizedOf, hashOf, headOf } from './own-chain.ts'
import { createTraced, type Traced } from './traced.ts'
import { CLOCK, openSequencer, openUpstreams } from './upstreams.ts'

/** What the follower's thread is started with. */
export type FollowerData = SharedNode & {
  /** To the keeper, which takes what is fetched of a state that is not whole. */
  readonly keeper: MessagePort
  /** To the writer: blocks and marks; it says what it has published, refused and missed. */
  readonly writer: MessagePort
  /** URLs, the most trusted first. */
  readonly upstreams: readonly string[]
  /** URL of who takes transactions; undefined: the upstreams. */
  readonly sequencer: string | undefined
  /** Canonical blocks that the writer can take back. */
  readonly undoBlocks: number
  readonly limits: UpstreamLimits
  /** How state is fetched; undefined: all of it is here. */
  readonly lazy: LazyData | undefined
  /** What is fetched goes by way of the writer. */
  readonly isRecorded?: boolean
}

type Asked = ToFollower & { readonly type: 'fetch' | 'forward' | 'cancel' }
type Parts = {
  readonly data: FollowerData
  readonly chain: ChainSpec
  readonly store: StoreReader
  readonly reader: ChainReader
  readonly upstreams: readonly Upstream[]
  tell(message: FromFollower): void
}
type Running = {
  readonly driver: Driver
  readonly beginner: Beginner | undefined
  readonly forward: Forwarder
  readonly sequencer: Upstream | undefined
  readonly fetcher: Fetcher | undefined
  readonly traced: Traced
  /** Fetches of main, by their request: as many as it has calls. */
  readonly asking: Map<number, AbortController>
}

// Not awaited: V8 aborts the process when a thread is terminated while its modules await.
if (parentPort) void run(parentPort, workerData as FollowerData)

async function run(main: MessagePort, data: FollowerData): Promise<void> {
  const tell = (message: FromFollower) => main.postMessage(message)
  const upstreams: Upstream[] = []
  try {
    const heard = hear(main)
    if ((await Promise.race([heard.started, heard.stopped])) === STOPPED) return
    const chain = chainSpec(data.chain)
    const store = openStore(attachDatabase(data.database))
    const reader = openChainReader({ ...data, store, chain, seesAll: true })
    upstreams.push(...openUpstreams(data.upstreams, data.limits, chain))
    const parts: Parts = { data, chain, store, reader, upstreams, tell }
    const foreign = await Promise.race([foreignAtStart(parts), heard.stopped])
    if (foreign === undefined) await follow(parts, heard)
    else if (foreign !== STOPPED) tell({ type: 'failed', message: foreign })
    tell({ type: 'stopped' })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    tell({
      type: 'failed',
      message: storageFailure(error) ?? `the follower cannot go on: ${reason}`,
    })
  } finally {
    for (const upstream of upstreams) upstream.close()
    main.close()
    data.keeper.close()
    data.writer.close()
  }
}

const STOPPED = Symbol('stopped')
type Heard = {
  readonly started: Promise<void>
  readonly stopped: Promise<typeof STOPPED>
  /** Requests of main, with those that came before anybody took them. */
  readonly asked: Inbox<Asked>
}

/** Main is heard from the first message on: it may say stop while the upstreams are looked at. */
function hear(main: MessagePort): Heard {
  const started = Promise.withResolvers<void>()
  const stopped = Promise.withResolvers<typeof STOPPED>()
  const asked = createInbox<Asked>()
  main.on('message', (message: ToFollower) => {
    if (message.type === 'start') started.resolve()
    else if (message.type === 'stop') stopped.resolve(STOPPED)
    else asked.push(message)
  })
  return { started: started.promise, stopped: stopped.promise, asked }
}

/** Once one upstream has answered, the others have this much longer. */
const OTHERS_MS = 2_000

/**
 * A whole state is refused where an upstream that answers at the start has another chain. The start of a lazy one has looked before.
 * @returns what is wrong, or undefined where nothing is known to be
 */
async function foreignAtStart({ upstreams, data }: Parts): Promise<string | undefined> {
  if (data.lazy !== undefined) return undefined
  const foreign = Promise.withResolvers<string>()
  const enough = Promise.withResolvers<void>()
  const checks = upstreams.map(async (upstream) => {
    try {
      await upstream.call('eth_blockNumber', [])
      setTimeout(enough.resolve, OTHERS_MS).unref()
    } catch (error) {
      // An upstream that is away is asked again before it is used.
      if (!(error instanceof UpstreamError)) throw error
      if (error.kind === 'foreign') foreign.resolve(error.message)
    }
  })
  const wrong = await Promise.race([foreign.promise, enough.promise, Promise.all(checks)])
  return typeof wrong === 'string' ? wrong : undefined
}

/** Until main says stop. @throws what a bug throws */
async function follow(parts: Parts, { stopped, asked }: Heard): Promise<void> {
  const { tell } = parts
  const failed = Promise.withResolvers<never>()
  const running = start(parts, failed.reject)
  const { driver, sequencer, fetcher } = running
  listen(parts, running)
  asked.open((message) => onAsked(message, running, tell))
  tell({ type: 'ready' })
  saveCompiledLater()
  driver.tell({ type: 'tick' })
  try {
    await Promise.race([stopped, failed.promise])
  } finally {
    driver.stop()
    sequencer?.close()
    fetcher?.close()
  }
}

function start(parts: Parts, onBug: (error: unknown) => void): Running {
  const { data, chain, store, reader, upstreams, tell } = parts
  const { limits, undoBlocks, lazy, keeper } = data
  const depths = lazy && createDepths(lazy.mode, lazy.probed)
  const tracker = createTracker<FollowedBlock>({
    upstreams,
    now: CLOCK.now,
    hashOf: (number) => hashOf(reader, chain, number),
    head: headOf(reader),
    finalized: finalizedOf(reader),
    undoBlocks,
    lazyStart: store.lazyStart()?.block.number,
    stateDepth: depths?.deepest,
    doubted: lazy && new Map(lazy.doubts.map(({ name, message }) => [name, message])),
    times: trackerTimes(chain.blockTime * 1_000),
    limits,
  })
  const best = () => tracker.order().map((at) => upstreams[at]!)
  const told = () =>
    tracker.order().map((at) => ({ upstream: upstreams[at]!, head: tracker.headOf(at) }))
  const traced = createTraced(best)
  const budget = lazy && openBudget(lazy)
  const warn = (message: string) => tell({ type: 'warning', message })
  const beginner =
    lazy &&
    openBeginner({
      ...{ mode: lazy.mode, depths: depths!, budget: budget!, warn },
      ...{ chain, store, reader, upstreams, undoBlocks, limits },
      begin(beginning) {
        driver.tell({ type: 'beginning' })
        toWriter(data, { type: 'begin', ...beginning })
      },
    })
  const late = beginner && depths && createLateProbes({ beginner, depths, told, clock: CLOCK })
  const driver = createDriver({
    ...{ tracker, upstreams, clock: CLOCK, onBug },
    paces: upstreams.map(() => (budget ? paceOf(budget) : createPace(limits.upstreamRate, CLOCK))),
    tell(effect) {
      if (effect.type === 'sealed') traced.sent(effect.block.number, effect.block.hash)
      if (effect.type === 'left') beginner?.look(pastOf(effect)).catch(onBug)
      else if (effect.type === 'status' && late !== undefined) {
        late.probe(onBug)
        tell({ type: 'status', status: late.statusWith(effect.status) })
      } else carryOut(effect, data, tell)
    },
  })
  const sequencer =
    data.sequencer === undefined ? undefined : openSequencer(data.sequencer, limits, chain)
  const forward = createForwarder({ ...{ limits, sequencer, budget }, upstreams: best })
  const fetcher =
    lazy &&
    openFetcher({
      ...{ mode: lazy.mode, depths: depths!, budget: budget!, limits, keeper, reader, store },
      recorder: data.isRecorded === true ? data.writer : undefined,
      ...{ upstreams: told, shared: tracker.shared, warn },
      count: (what, by) => tell({ type: 'count', what, by }),
    })
  return { driver, beginner, forward, sequencer, fetcher, traced, asking: new Map() }
}

const pastOf = ({ past, why }: Told & { readonly type: 'left' }) =>
  past === undefined ? undefined : { number: past, why }

const toWriter = ({ writer }: FollowerData, message: FollowerToWriter): void =>
  writer.postMessage(message)

function carryOut(
  effect: Exclude<Told, { readonly type: 'left' }>,
  data: FollowerData,
  tell: (message: FromFollower) => void,
): void {
  if (effect.type === 'sealed')
    toWriter(data, { type: 'sealed', block: sealedBlock(effect.block.fetched) })
  else if (effect.type === 'marks') toWriter(data, effect)
  else tell(effect)
}

/** Hears the writer. */
function listen({ data, reader, tell }: Parts, { driver, fetcher, traced }: Running): void {
  const { writer } = data
  const count = (what: CheckCount, by: number) => tell({ type: 'count', what, by })
  writer.on('message', (message: WriterToFollower) => {
    switch (message.type) {
      case 'published':
        driver.tell({ type: 'published', head: headOf(reader) })
        return
      case 'refused':
        driver.tell({ ...message, hash: bytesToHex(message.hash) })
        return
      case 'begun': {
        const { number, hash, safe, finalized } = message
        driver.tell({ type: 'begun', head: { number, hash: bytesToHex(hash) }, safe, finalized })
        return
      }
      case 'notBegun':
        driver.tell({ type: 'notBegun' })
        tell({ type: 'warning', message: `the state cannot begin anew now: ${message.reason}` })
        return
      case 'need': {
        const { request, keys, for: what } = message
        const wanted =
          what === 'canonical' && fetcher !== undefined
            ? traced.with(keys, headOf(reader).number + 1)
            : Promise.resolve(keys)
        void wanted
          .then((all) => failureOf(fetcher, all, { what, client: '' }))
          .then((failed) => writer.postMessage(fetched(request, failed)))
        return
      }
      case 'check':
        if (fetcher === undefined) return
        void differenceOf(message, { fetcher, reader, count }).then((reason) => {
          if (reason !== undefined)
            writer.postMessage({ type: 'distrust', reason } satisfies FollowerToWriter)
        })
    }
  })
}

function onAsked(
  message: Asked,
  { forward, fetcher, asking }: Running,
  tell: (message: FromFollower) => void,
): void {
  const { request } = message
  if (message.type === 'cancel') asking.get(request)?.abort()
  else if (message.type === 'forward')
    void forward(message).then((answer) => tell({ type: 'forwarded', request, answer }))
  else {
    const { keys, for: what, client } = message
    const gone = new AbortController()
    asking.set(request, gone)
    void failureOf(fetcher, keys, { what, client, signal: gone.signal }).then((failed) => {
      asking.delete(request)
      tell(fetched(request, failed))
    })
  }
}

const fetched = (request: number, failed: string | undefined) =>
  ({ type: 'fetched', request, ...(failed === undefined ? {} : { failed }) }) as const
