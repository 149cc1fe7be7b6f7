/**
 * A running node asks its upstreams whether its state can continue, and otherwise with which start
 * it resyncs.
 */
import { decodeHeader } from '../../primitives/header.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { ViewError } from '../../state/reader.ts'
import { LazyStartError } from '../../storage/lazy/start.ts'
import type { Start, StoredHead } from '../../storage/types.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import type { LazyResync } from '../writer/types.ts'
import type { Depths, LazyMode } from './depth.ts'
import { namedIn, probeAll, sourcesIn } from './probe.ts'
import { type KnownChain, type PlanLimits, planLazy } from './start.ts'

export type ResyncerOptions = {
  /** Upstreams in the order of naming. */
  readonly upstreams: readonly Upstream[]
  readonly mode: LazyMode
  readonly depths: Depths
  /**
   * Returns our canonical chain.
   * @throws {ViewError} during a reorg
   */
  known(): KnownChain
  resync(resyncStart: LazyResync): void
  warn(message: string): void
} & PlanLimits

export interface Resyncer {
  /**
   * Checks whether our head has left the upstreams' state or chain. Checks do not overlap, and
   * reject only for a bug.
   * @param past a block that cannot be executed here, with the reason; the state restarts after it
   */
  check(past?: KnownChain['past']): Promise<void>
}

export function createResyncer(options: ResyncerOptions): Resyncer {
  let looking: Promise<void> | undefined

  async function check(past: KnownChain['past']): Promise<void> {
    const { upstreams, mode, depths, known, resync, warn } = options
    const { chain, undoBlocks, lagBlocks } = options
    try {
      const { probed } = await probeAll(upstreams, chain)
      // The follower reports silent upstreams itself.
      if (probed.length === 0) return
      depths.set(namedIn(probed))
      const unusableReason = depths.unusableReason()
      if (unusableReason !== undefined) return warn(unusableReason)
      const limits = { chain, undoBlocks, lagBlocks }
      const plan = await planLazy(sourcesIn(mode, probed), { ...known(), past }, limits)
      if (plan.status === 'on') return
      resync({ start: plan.start, head: newestOf(plan.start), why: plan.why! })
    } catch (error) {
      // A reorg is in progress, and the check will be repeated.
      if (error instanceof ViewError) return
      if (!(error instanceof UpstreamError || error instanceof LazyStartError)) throw error
      warn(`the state cannot begin anew now: ${error.message}`)
    }
  }

  return {
    check(past) {
      looking ??= check(past).finally(() => {
        looking = undefined
      })
      return looking
    },
  }
}

function newestOf({ blocks }: Start): StoredHead {
  const { header } = blocks.at(-1)!
  return { number: Number(decodeHeader(header).number), hash: keccak256(header) }
}
