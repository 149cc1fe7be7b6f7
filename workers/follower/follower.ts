/**
 * The follower's thread: fetches blocks and state from the upstreams, and sends blocks to the
 * writer. It also forwards calls to other nodes.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { openChainReader } from '../../engine/chain/reader.ts'
import type { ChainReader } from '../../engine/chain/types.ts'
import { chainSpec } from '../../engine/chainspec/registry.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { createDepths, type Depths } from '../../engine/sources/lazy/depth.ts'
import type { Fetcher } from '../../engine/sources/lazy/fetcher.ts'
import { paceOf } from '../../engine/sources/lazy/paced-upstream.ts'
import type { Resyncer } from '../../engine/sources/lazy/resync.ts'
import { upstreamBlockOf } from '../../engine/sources/upstream/blocks.ts'
import { createPace } from '../../engine/sources/upstream/call-rate.ts'
import type { Upstream } from '../../engine/sources/upstream/client.ts'
import {
  createDriver,
  type Driver,
  type DriverEffect,
  type FollowedBlock,
} from '../../engine/sources/upstream/driver.ts'
import { UpstreamError } from '../../engine/sources/upstream/error.ts'
import type { UpstreamLimits } from '../../engine/sources/upstream/limits.ts'
import { createTracker } from '../../engine/sources/upstream/tracker.ts'
import { trackerTimes } from '../../engine/sources/upstream/tracker-types.ts'
import { openStore } from '../../engine/storage/blocks/store.ts'
import { attachDatabase } from '../../engine/storage/database/rocksdb.ts'
import { storageFailure } from '../../engine/storage/persistence/failure.ts'
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
import { type CheckCount, differenceOf } from './checks.ts'
import { failureOf } from './fetcher.ts'
import { createForwarder, type Forwarder } from './forward.ts'
import { type LazyData, openBudget, openFetcher } from './lazy.ts'
import { finalizedOf, hashOf, headOf } from './own-chain.ts'
import { createLateProbes, openResyncer } from './resync.ts'
import { createTraced, type Traced } from './traced.ts'
import { CLOCK, openSequencer, openUpstreams } from './upstreams.ts'

export type FollowerData = SharedNode & {
  /** Port to the persistence thread, which stores fetched values of lazy state. */
  readonly persistence: MessagePort
  /**
   * Port to the writer for blocks and labelled heads; the writer reports published, refused and
   * missing blocks.
   */
  readonly writer: MessagePort
  /** URLs of upstreams, the most trusted first. */
  readonly upstreams: readonly string[]
  /** URL of the node that takes transactions; undefined for the upstreams. */
  readonly sequencer: string | undefined
  /** Number of canonical blocks that the writer can unwind. */
  readonly undoBlocks: number
  readonly limits: UpstreamLimits
  /** How state is fetched; undefined if the node has all of it. */
  readonly lazy: LazyData | undefined
  /** Fetched values go through the writer, which records them. */
  readonly isRecorded?: boolean
}

type FollowerRequest = ToFollower & { readonly type: 'fetch' | 'forward' | 'cancel' }
type Parts = {
  readonly data: FollowerData
  readonly chain: ChainSpec
  readonly store: StoreReader
  readonly reader: ChainReader
  readonly upstreams: readonly Upstream[]
  notify(message: FromFollower): void
}
type Running = {
  readonly driver: Driver
  readonly beginner: Resyncer | undefined
  readonly forward: Forwarder
  readonly sequencer: Upstream | undefined
  readonly fetcher: Fetcher | undefined
  readonly traced: Traced
  /** Open fetches of the main thread by request; its calls limit their number. */
  readonly openRequests: Map<number, AbortController>
}

/*
 * The call is not awaited, because V8 aborts the process if a thread is terminated during a
 * top-level await.
 */
if (parentPort) void run(parentPort, workerData as FollowerData)

async function run(main: MessagePort, data: FollowerData): Promise<void> {
  const notify = (message: FromFollower) => main.postMessage(message)
  const upstreams: Upstream[] = []
  try {
    const inboxes = openInboxes(main)
    if ((await Promise.race([inboxes.started, inboxes.stopped])) === STOPPED) return
    const chain = chainSpec(data.chain)
    const store = openStore(attachDatabase(data.database))
    const reader = openChainReader({ ...data, store, chain, seesAll: true })
    upstreams.push(...openUpstreams(data.upstreams, data.limits, chain))
    const parts: Parts = { data, chain, store, reader, upstreams, notify }
    const foreign = await Promise.race([foreignAtStart(parts), inboxes.stopped])
    if (foreign === undefined) await follow(parts, inboxes)
    else if (foreign !== STOPPED) notify({ type: 'failed', message: foreign })
    notify({ type: 'stopped' })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    notify({
      type: 'failed',
      message: storageFailure(error) ?? `the follower failed: ${reason}`,
    })
  } finally {
    for (const upstream of upstreams) upstream.close()
    main.close()
    data.persistence.close()
    data.writer.close()
  }
}

const STOPPED = Symbol('stopped')
type Inboxes = {
  readonly started: Promise<void>
  readonly stopped: Promise<typeof STOPPED>
  /** Requests of the main thread; early ones are buffered. */
  readonly requested: Inbox<FollowerRequest>
}

/**
 * Handles the main thread's messages from the start, because a stop may arrive while upstreams are
 * checked.
 */
function openInboxes(main: MessagePort): Inboxes {
  const started = Promise.withResolvers<void>()
  const stopped = Promise.withResolvers<typeof STOPPED>()
  const requested = createInbox<FollowerRequest>()
  main.on('message', (message: ToFollower) => {
    if (message.type === 'start') started.resolve()
    else if (message.type === 'stop') stopped.resolve(STOPPED)
    else requested.push(message)
  })
  return { started: started.promise, stopped: stopped.promise, requested }
}

/** Extra time for the other upstreams after the first response. */
const OTHERS_MS = 2_000

/**
 * Checks at the start of a node with all state that no responding upstream has another chain. A
 * lazy start has checked this before.
 * @returns the problem; undefined if none is known
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
      // An unreachable upstream is checked again before use.
      if (!(error instanceof UpstreamError)) throw error
      if (error.kind === 'foreign') foreign.resolve(error.message)
    }
  })
  const wrong = await Promise.race([foreign.promise, enough.promise, Promise.all(checks)])
  return typeof wrong === 'string' ? wrong : undefined
}

/** Runs until the main thread sends a stop. @throws {Error} after a bug */
async function follow(parts: Parts, { stopped, requested }: Inboxes): Promise<void> {
  const { notify } = parts
  const failed = Promise.withResolvers<never>()
  const running = start(parts, failed.reject)
  const { driver, sequencer, fetcher } = running
  listen(parts, running)
  requested.open((message) => onRequest(message, running, notify))
  notify({ type: 'ready' })
  saveCompiledLater()
  driver.notify({ type: 'tick' })
  try {
    await Promise.race([stopped, failed.promise])
  } finally {
    driver.stop()
    sequencer?.close()
    fetcher?.close()
  }
}

function start(parts: Parts, onBug: (error: unknown) => void): Running {
  const { data, chain, store, reader, upstreams, notify } = parts
  const { limits, undoBlocks, lazy, persistence } = data
  const depths = lazy && createDepths(lazy.mode, lazy.probed)
  const tracker = trackerOf(parts, depths)
  const best = () => tracker.order().map((at) => upstreams[at]!)
  const askable = () =>
    tracker.order().map((at) => ({ upstream: upstreams[at]!, head: tracker.headOf(at) }))
  const traced = createTraced(best)
  const budget = lazy && openBudget(lazy)
  const limited = { limits, warn: (message: string) => notify({ type: 'warning', message }) }
  const beginner =
    lazy &&
    openResyncer({
      ...parts,
      ...limited,
      mode: lazy.mode,
      depths: depths!,
      budget: budget!,
      undoBlocks,
      resync(resyncStart) {
        driver.notify({ type: 'beginning' })
        toWriter(data, { type: 'begin', ...resyncStart })
      },
    })
  const late = beginner && depths && createLateProbes({ beginner, depths, askable, clock: CLOCK })
  const driver = createDriver({
    tracker,
    upstreams,
    clock: CLOCK,
    onBug,
    paces: upstreams.map(() => (budget ? paceOf(budget) : createPace(limits.upstreamRate, CLOCK))),
    notify(effect) {
      if (effect.type === 'sealed') traced.sent(effect.block.number, effect.block.hash)
      if (effect.type === 'left') beginner?.check(pastOf(effect)).catch(onBug)
      else if (effect.type === 'status' && late !== undefined) {
        late.probe(onBug)
        notify({ type: 'status', status: late.statusWith(effect.status) })
      } else carryOut(effect, data, notify)
    },
  })
  const sequencer =
    data.sequencer === undefined ? undefined : openSequencer(data.sequencer, limits, chain)
  const forward = createForwarder({ limits, sequencer, budget, upstreams: best })
  const fetcher =
    lazy &&
    openFetcher({
      mode: lazy.mode,
      depths: depths!,
      budget: budget!,
      ...limited,
      persistence,
      reader,
      store,
      recorder: data.isRecorded === true ? data.writer : undefined,
      upstreams: askable,
      shared: tracker.shared,
      count: (what, by) => notify({ type: 'count', what, by }),
    })
  return { driver, beginner, forward, sequencer, fetcher, traced, openRequests: new Map() }
}

const trackerOf = ({ data, chain, store, reader, upstreams }: Parts, depths?: Depths) =>
  createTracker<FollowedBlock>({
    upstreams,
    now: CLOCK.now,
    hashOf: (number) => hashOf(reader, chain, number),
    head: headOf(reader),
    finalized: finalizedOf(reader),
    undoBlocks: data.undoBlocks,
    lazyStart: store.lazyStart()?.block.number,
    stateDepth: depths?.deepest,
    suspected:
      data.lazy && new Map(data.lazy.suspicions.map(({ name, message }) => [name, message])),
    times: trackerTimes(chain.blockTime * 1_000),
    limits: data.limits,
  })

const pastOf = ({ past, why }: DriverEffect & { readonly type: 'left' }) =>
  past === undefined ? undefined : { number: past, why }

const toWriter = ({ writer }: FollowerData, message: FollowerToWriter): void =>
  writer.postMessage(message)

function carryOut(
  effect: Exclude<DriverEffect, { readonly type: 'left' }>,
  data: FollowerData,
  notify: (message: FromFollower) => void,
): void {
  if (effect.type === 'sealed')
    toWriter(data, { type: 'sealed', block: upstreamBlockOf(effect.block.fetched) })
  else if (effect.type === 'marks') toWriter(data, effect)
  else notify(effect)
}

function listen({ data, reader, notify }: Parts, { driver, fetcher, traced }: Running): void {
  const { writer } = data
  const count = (what: CheckCount, by: number) => notify({ type: 'count', what, by })
  writer.on('message', (message: WriterToFollower) => {
    switch (message.type) {
      case 'published':
        driver.notify({ type: 'published', head: headOf(reader) })
        return
      case 'refused':
        driver.notify({ ...message, hash: bytesToHex(message.hash) })
        return
      case 'begun': {
        const { number, hash, safe, finalized } = message
        driver.notify({ type: 'begun', head: { number, hash: bytesToHex(hash) }, safe, finalized })
        return
      }
      case 'notBegun':
        driver.notify({ type: 'notBegun' })
        notify({
          type: 'warning',
          message: `the lazy state cannot be resynced now: ${message.reason}`,
        })
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

function onRequest(
  message: FollowerRequest,
  { forward, fetcher, openRequests }: Running,
  notify: (message: FromFollower) => void,
): void {
  const { request } = message
  if (message.type === 'cancel') openRequests.get(request)?.abort()
  else if (message.type === 'forward')
    void forward(message).then((response) => notify({ type: 'forwarded', request, response }))
  else {
    const { keys, for: what, client } = message
    const gone = new AbortController()
    openRequests.set(request, gone)
    void failureOf(fetcher, keys, { what, client, signal: gone.signal }).then((failed) => {
      openRequests.delete(request)
      notify(fetched(request, failed))
    })
  }
}

const fetched = (request: number, failed: string | undefined) =>
  ({ type: 'fetched', request, ...(failed === undefined ? {} : { failed }) }) as const
