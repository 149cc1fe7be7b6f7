/** A node that runs asks its upstreams, as its start did, whether its state can be gone on with, and what it begins anew with if not. */
import { decodeHeader } from '../../primitives/header-codec.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { ViewError } from '../../state/reader.ts'
import { LazyStartError } from '../../storage/lazy/start.ts'
import type { Start, StoredHead } from '../../storage/types.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import type { LazyBeginning } from '../writer/types.ts'
import type { Depths, LazyMode } from './depth.ts'
import { namedIn, probeAll, sourcesIn } from './probe.ts'
import { type KnownChain, type PlanLimits, planLazy } from './start.ts'

export type BeginnerOptions = {
  /** In the order of naming. */
  readonly upstreams: readonly Upstream[]
  readonly mode: LazyMode
  readonly depths: Depths
  /** What is canonical here now. @throws {ViewError} while blocks are taken back */
  known(): KnownChain
  begin(beginning: LazyBeginning): void
  warn(message: string): void
} & PlanLimits

export interface Beginner {
  /**
   * Our head seems to have left what upstreams have. One look at a time; it rejects for a bug
   * alone.
   * @param past a block that cannot be executed here, and why: the state begins after it
   */
  look(past?: KnownChain['past']): Promise<void>
}

export function createBeginner(options: BeginnerOptions): Beginner {
  let looking: Promise<void> | undefined

  async function look(past: KnownChain['past']): Promise<void> {
    const { upstreams, mode, depths, known, begin, warn } = options
    const { chain, undoBlocks, lagBlocks } = options
    try {
      const { probed } = await probeAll(upstreams, chain)
      // Who follows them says that they are silent.
      if (probed.length === 0) return
      depths.set(namedIn(probed))
      const lack = depths.lack()
      if (lack !== undefined) return warn(lack)
      const limits = { chain, undoBlocks, lagBlocks }
      const plan = await planLazy(sourcesIn(mode, probed), { ...known(), past }, limits)
      if (plan.status === 'on') return
      begin({ start: plan.start, head: newestOf(plan.start), why: plan.why! })
    } catch (error) {
      // The chain is on its way to another branch: it is looked at again.
      if (error instanceof ViewError) return
      if (!(error instanceof UpstreamError || error instanceof LazyStartError)) throw error
      warn(`the state cannot begin anew now: ${error.message}`)
    }
  }

  return {
    look(past) {
      looking ??= look(past).finally(() => {
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
