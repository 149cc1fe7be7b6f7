/** The follower of the node: the real clients, tracker and driver over simulated transports, joined as its thread joins them. */

import type { ChainReader } from '../../../engine/chain/types.ts'
import type { ChainSpec } from '../../../engine/chainspec/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { type Beginner, createBeginner } from '../../../engine/sources/lazy/anew.ts'
import { createDepths } from '../../../engine/sources/lazy/depth.ts'
import { sealedBlock } from '../../../engine/sources/upstream/blocks.ts'
import type { Upstream } from '../../../engine/sources/upstream/client.ts'
import { createDriver, type FollowedBlock } from '../../../engine/sources/upstream/driver.ts'
import type { UpstreamLimits } from '../../../engine/sources/upstream/limits.ts'
import { createPace } from '../../../engine/sources/upstream/pace.ts'
import { createTracker, type Tracker } from '../../../engine/sources/upstream/tracker.ts'
import type { TrackerStatus, TrackerTimes } from '../../../engine/sources/upstream/tracker-types.ts'
import type { WriterEffect, WriterEvent } from '../../../engine/sources/writer/types.ts'
import type { StoreReader } from '../../../engine/storage/types.ts'
import { createLateProbes, knownNow } from '../../../workers/follower/begin.ts'
import { differenceOf } from '../../../workers/follower/checks.ts'
import { failureOf } from '../../../workers/follower/fetcher.ts'
import { finalizedOf, hashOf, headOf } from '../../../workers/follower/own-chain.ts'
import { createTraced } from '../../../workers/follower/traced.ts'
import type { VirtualClock } from './clock.ts'
import { type Begun, openFetcher } from './lazy.ts'

export type FollowerOptions = {
  readonly upstreams: readonly Upstream[]
  /** How missing state is fetched; undefined: all of it is there. */
  readonly lazy: Begun | undefined
  readonly store: StoreReader
  readonly fill: Parameters<typeof openFetcher>[0]['fill']
  readonly clock: VirtualClock
  readonly chain: ChainSpec
  readonly reader: ChainReader
  readonly undoBlocks: number
  readonly times: TrackerTimes
  readonly limits: UpstreamLimits
  readonly toWriter: (event: WriterEvent) => void
  /** It looks for another beginning of its state, or has looked. */
  readonly onLook: (isLooking: boolean) => void
  /** A question of the tracker has ended, and how. */
  readonly onEnding: (what: string) => void
}

/** Effects of the writer that are for the follower. */
export type Heard = 'published' | 'refused' | 'need' | 'check' | 'begun' | 'notBegun'

export interface Follower {
  hear(effect: WriterEffect & { readonly type: Heard }): void
  readonly counts: ReadonlyMap<string, number>
  /** Why the chain stands still. */
  readonly halted: { readonly why: string; readonly message: string } | undefined
  status(): TrackerStatus
  stop(): void
}

/** The real tracker. @param note hears of each ending: the question and what it brought */
function noting(
  note: (what: string) => void,
  options: Parameters<typeof createTracker>[0],
): Tracker<FollowedBlock> {
  const tracker = createTracker<FollowedBlock>(options)
  const asked = new Map<number, string>()
  return {
    ...tracker,
    apply(event) {
      if ('request' in event && event.request !== undefined) {
        note(`${asked.get(event.request)} ${event.type}`)
        asked.delete(event.request)
      }
      const effects = tracker.apply(event)
      for (const effect of effects) if ('request' in effect) asked.set(effect.request, effect.type)
      return effects
    },
  }
}

export function createFollower(options: FollowerOptions): Follower {
  const { clock, chain, reader, limits, toWriter, upstreams, lazy } = options
  const counts = new Map<string, number>()
  const count = (what: string, by: number) => counts.set(what, (counts.get(what) ?? 0) + by)
  let halted: Follower['halted']
  const depths = lazy && createDepths(lazy.mode, lazy.probed)
  const tracker = noting(options.onEnding, {
    ...{ upstreams, now: clock.now, undoBlocks: options.undoBlocks, times: options.times, limits },
    lazyStart: options.store.lazyStart()?.block.number,
    stateDepth: depths?.deepest,
    doubted: lazy && new Map(lazy.begun.doubts.map(({ name, message }) => [name, message])),
    hashOf: (number) => hashOf(reader, chain, number),
    head: headOf(reader),
    finalized: finalizedOf(reader),
  })
  const best = () => tracker.order().map((at) => upstreams[at]!)
  const told = () =>
    tracker.order().map((at) => ({ upstream: upstreams[at]!, head: tracker.headOf(at) }))
  const traced = createTraced(best)
  const fetcher =
    lazy &&
    openFetcher({
      ...{ ...options, lazy, depths: depths!, count },
      ...{ upstreams: told, shared: tracker.shared },
    })
  const onBug = (error: unknown) =>
    void clock.after(0, () => {
      throw error
    })
  const beginner =
    lazy &&
    createBeginner({
      ...{ upstreams, chain, mode: lazy.mode, depths: depths!, undoBlocks: options.undoBlocks },
      lagBlocks: limits.upstreamLagBlocks,
      known: () => knownNow(reader, options.store),
      warn() {},
      begin(beginning) {
        driver.tell({ type: 'beginning' })
        toWriter({ type: 'begin', ...beginning })
      },
    })
  const look: Beginner = {
    async look() {
      options.onLook(true)
      await beginner?.look()
      options.onLook(false)
    },
  }
  const late = depths && createLateProbes({ beginner: look, depths, told, clock })
  const driver = createDriver({
    ...{ tracker, upstreams, clock },
    paces: upstreams.map(() => createPace(0, clock)),
    tell(effect) {
      if (effect.type === 'sealed') {
        traced.sent(effect.block.number, effect.block.hash)
        toWriter({ type: 'sealed', block: sealedBlock(effect.block.fetched) })
      } else if (effect.type === 'marks') toWriter(effect)
      else if (effect.type === 'left') look.look().catch(onBug)
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
  driver.tell({ type: 'tick' })
  return {
    counts,
    get halted() {
      return halted
    },
    status: () => tracker.status(),
    hear(effect) {
      if (effect.type === 'published') driver.tell({ type: 'published', head: headOf(reader) })
      else if (effect.type === 'refused') driver.tell({ ...effect, hash: bytesToHex(effect.hash) })
      else if (effect.type === 'begun') {
        const { number, hash, safe, finalized } = effect
        driver.tell({ type: 'begun', head: { number, hash: bytesToHex(hash) }, safe, finalized })
      } else if (effect.type === 'notBegun') driver.tell({ type: 'notBegun' })
      else if (effect.type === 'need') fetchNeeded(effect).catch(onBug)
      else compare(effect).catch(onBug)
    },
    stop() {
      driver.stop()
      fetcher?.close()
    },
  }
}
