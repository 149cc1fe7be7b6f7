/**
 * The node's follower: the real clients, tracker and driver over simulated transports, joined like
 * in its thread.
 */

import type { ChainReader } from '../../../engine/chain/types.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { createDepths } from '../../../engine/sources/lazy/depth.ts'
import { createResyncer, type Resyncer } from '../../../engine/sources/lazy/resync.ts'
import { upstreamBlockOf } from '../../../engine/sources/upstream/blocks.ts'
import { createPace } from '../../../engine/sources/upstream/call-rate.ts'
import type { Upstream } from '../../../engine/sources/upstream/client.ts'
import { createDriver, type FollowedBlock } from '../../../engine/sources/upstream/driver.ts'
import type { UpstreamLimits } from '../../../engine/sources/upstream/limits.ts'
import { createTracker, type Tracker } from '../../../engine/sources/upstream/tracker.ts'
import type { TrackerStatus, TrackerTimes } from '../../../engine/sources/upstream/tracker-types.ts'
import type { WriterEffect, WriterEvent } from '../../../engine/sources/writer/types.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import type { StoreReader } from '../../../engine/storage/types.ts'
import { differenceOf } from '../../../workers/follower/checks.ts'
import { failureOf } from '../../../workers/follower/fetcher.ts'
import { finalizedOf, hashOf, headOf } from '../../../workers/follower/own-chain.ts'
import { createLateProbes, knownNow } from '../../../workers/follower/resync.ts'
import { createTraced } from '../../../workers/follower/traced.ts'
import type { VirtualClock } from './clock.ts'
import { openFetcher, type Started } from './lazy.ts'

export type FollowerOptions = {
  readonly upstreams: readonly Upstream[]
  /** The fetching of missing state; undefined: the state is complete. */
  readonly lazy: Started | undefined
  readonly store: StoreReader
  readonly fill: Parameters<typeof openFetcher>[0]['fill']
  readonly clock: VirtualClock
  readonly chain: ChainSpec
  readonly reader: ChainReader
  readonly undoBlocks: number
  readonly times: TrackerTimes
  readonly limits: UpstreamLimits
  readonly toWriter: (event: WriterEvent) => void
  /** Reports the start and the end of a search for a new start of the state. */
  readonly onCheck: (isLooking: boolean) => void
  /** Reports the end of a tracker request with its outcome. */
  readonly onEnding: (what: string) => void
}

/** The writer's effects for the follower. */
export type FollowerEvent = 'published' | 'refused' | 'need' | 'check' | 'begun' | 'notBegun'

export interface Follower {
  onEffect(effect: WriterEffect & { readonly type: FollowerEvent }): void
  readonly counts: ReadonlyMap<string, number>
  /** The halt reason of the chain. */
  readonly halted: { readonly why: string; readonly message: string } | undefined
  status(): TrackerStatus
  stop(): void
}

/**
 * Wraps the real tracker.
 * @param record takes the outcome of each request
 */
function recording(
  record: (what: string) => void,
  options: Parameters<typeof createTracker>[0],
): Tracker<FollowedBlock> {
  const tracker = createTracker<FollowedBlock>(options)
  const requested = new Map<number, string>()
  return {
    ...tracker,
    apply(event) {
      if ('request' in event && event.request !== undefined) {
        record(`${requested.get(event.request)} ${event.type}`)
        requested.delete(event.request)
      }
      const effects = tracker.apply(event)
      for (const effect of effects)
        if ('request' in effect) requested.set(effect.request, effect.type)
      return effects
    },
  }
}

export function createFollower(options: FollowerOptions): Follower {
  const { clock, chain, reader, limits, toWriter, upstreams, lazy } = options
  const counts = new Map<string, number>()
  const count = (what: string, by: number) => counts.set(what, (counts.get(what) ?? 0) + by)
  let halted: Follower['halted']
  /** A stopped follower reads and reports nothing, like an ended process. */
  let isStopped = false
  const depths = lazy && createDepths(lazy.mode, lazy.probed)
  const tracker = recording(options.onEnding, {
    upstreams,
    now: clock.now,
    undoBlocks: options.undoBlocks,
    times: options.times,
    limits,
    lazyStart: options.store.lazyStart()?.block.number,
    stateDepth: depths?.deepest,
    suspected:
      lazy && new Map(lazy.lazyStart.suspicions.map(({ name, message }) => [name, message])),
    hashOf: (number) => hashOf(reader, chain, number),
    head: headOf(reader),
    finalized: finalizedOf(reader),
  })
  const best = () => tracker.order().map((at) => upstreams[at]!)
  const askable = () =>
    tracker.order().map((at) => ({ upstream: upstreams[at]!, head: tracker.headOf(at) }))
  const traced = createTraced(best)
  const fetcher =
    lazy &&
    openFetcher({
      ...options,
      lazy,
      depths: depths!,
      count,
      upstreams: askable,
      shared: tracker.shared,
    })
  const onBug = (error: unknown) =>
    void clock.after(0, () => {
      throw error
    })
  const beginner =
    lazy &&
    createResyncer({
      upstreams,
      chain,
      mode: lazy.mode,
      depths: depths!,
      undoBlocks: options.undoBlocks,
      lagBlocks: limits.upstreamLagBlocks,
      known() {
        if (isStopped) throw new ViewError('gone', 'the process has ended')
        return knownNow(reader, options.store)
      },
      warn() {},
      resync(resyncStart) {
        driver.notify({ type: 'beginning' })
        toWriter({ type: 'begin', ...resyncStart })
      },
    })
  const check: Resyncer = {
    async check() {
      options.onCheck(true)
      await beginner?.check()
      if (!isStopped) options.onCheck(false)
    },
  }
  const late = depths && createLateProbes({ beginner: check, depths, askable, clock })
  const driver = createDriver({
    tracker,
    upstreams,
    clock,
    paces: upstreams.map(() => createPace(0, clock)),
    notify(effect) {
      if (effect.type === 'sealed') {
        traced.sent(effect.block.number, effect.block.hash)
        toWriter({ type: 'sealed', block: upstreamBlockOf(effect.block.fetched) })
      } else if (effect.type === 'marks') toWriter(effect)
      else if (effect.type === 'left') check.check().catch(onBug)
      else if (effect.type === 'status') late?.probe(onBug)
      else if (effect.type === 'halted') halted = effect
      else if (effect.type === 'resumed') halted = undefined
      else if (effect.type === 'count') count(effect.what, effect.by)
    },
    onBug,
  })
  async function fetchNeeded(effect: WriterEffect & { readonly type: 'need' }): Promise<void> {
    const { request, keys, for: what } = effect
    const all =
      what === 'canonical' && fetcher !== undefined
        ? await traced.with(keys, headOf(reader).number + 1)
        : keys
    const failed = await failureOf(fetcher, all, { what, client: '' })
    toWriter({ type: 'fetched', request, failed })
  }
  async function compare(effect: WriterEffect & { readonly type: 'check' }): Promise<void> {
    const reason = fetcher && (await differenceOf(effect, { fetcher, reader, count }))
    if (reason !== undefined) toWriter({ type: 'distrust', reason })
  }
  driver.notify({ type: 'tick' })
  return {
    counts,
    get halted() {
      return halted
    },
    status: () => tracker.status(),
    onEffect(effect) {
      if (effect.type === 'published') driver.notify({ type: 'published', head: headOf(reader) })
      else if (effect.type === 'refused')
        driver.notify({ ...effect, hash: bytesToHex(effect.hash) })
      else if (effect.type === 'begun') {
        const { number, hash, safe, finalized } = effect
        driver.notify({ type: 'begun', head: { number, hash: bytesToHex(hash) }, safe, finalized })
      } else if (effect.type === 'notBegun') driver.notify({ type: 'notBegun' })
      else if (effect.type === 'need') fetchNeeded(effect).catch(onBug)
      else compare(effect).catch(onBug)
    },
    stop() {
      isStopped = true
      driver.stop()
      fetcher?.close()
    },
  }
}
