/** Depth to which an upstream gives state below its head, probed once at the start. */
import type { Hex } from '../../primitives/bytes.ts'
import { quantity } from '../../primitives/hex.ts'
import type { Upstream } from '../upstream/client.ts'
import type { Call, CallOptions, Settled } from '../upstream/messages.ts'

export type Depth = {
  /** Blocks below its head whose state was given; undefined: not even the head's. */
  readonly state: number | undefined
  /** Blocks below its head whose proofs were given; undefined: none. */
  readonly proofs: number | undefined
  /** The upstream takes a block by its hash (EIP-1898). */
  readonly takesHash: boolean
}

/** Probed depths below the head. The last exceeds any lag of a node without a resync. */
const DEPTHS: readonly number[] = [0, 1, 4, 16, 64, 128, 256, 1_024, 8_192]
/**
 * Minimum depth. A follower reads at its own head, some blocks behind the upstream's, and its
 * requests take time. With less depth it would resync again and again.
 */
export const MIN_DEPTH = 16

/**
 * Probes how far back an upstream gives state and proofs.
 * @param head the newest block; `first` is the number of the chain's first block. If everything
 * down to it is given, the depth is the maximum.
 * @throws {UpstreamError} when it does not answer
 */
export async function probeDepth(
  upstream: Pick<Upstream, 'batch'>,
  head: { readonly number: number; readonly hash: Hex; readonly first: number },
  options: CallOptions = {},
): Promise<Depth> {
  const chainLength = head.number - head.first
  const depths = DEPTHS.filter((depth) => depth < chainLength)
  if (chainLength <= DEPTHS.at(-1)!) depths.push(chainLength)
  const at = (depth: number) => quantity(head.number - depth)
  const calls: readonly Call[] = [
    { method: 'eth_getBalance', params: [ANYBODY, { blockHash: head.hash }] },
    ...depths.map((depth) => ({ method: 'eth_getBalance', params: [ANYBODY, at(depth)] })),
    ...depths.map((depth) => ({ method: 'eth_getProof', params: [ANYBODY, [], at(depth)] })),
  ]
  const [byHash, ...responses] = await upstream.batch(calls, options)
  const state = responses.slice(0, depths.length).map(isGiven)
  const proofs = responses.slice(depths.length).map(isGiven)
  return {
    state: deepest(depths, state),
    proofs: deepest(depths, proofs),
    takesHash: byHash !== undefined && isGiven(byHash),
  }
}

/** The zero address. A balance of zero is a response too. */
const ANYBODY: Hex = `0x${'00'.repeat(20)}`

/** @throws {UpstreamError} for a failure that is no refusal */
function isGiven(response: Settled): boolean {
  if ('result' in response) return response.result !== null && response.result !== undefined
  if (response.error.kind !== 'refused') throw response.error
  return false
}

/** Returns the depth before the first that was not given. */
function deepest(depths: readonly number[], isGiven: readonly boolean[]): number | undefined {
  const gap = isGiven.indexOf(false)
  return gap < 0 ? DEPTHS.at(-1) : depths[gap - 1]
}

/** Mode of fetched state: `proven` under the header of its block, or `trusted` without a proof. */
export type LazyMode = 'proven' | 'trusted'

export type Probed = { readonly name: string; readonly depth: Depth }

/**
 * Chooses the mode, with one line for the log. `refused`: why the node cannot start. If any
 * upstream gives proofs, only such upstreams are asked.
 */
export function lazyMode(
  probed: readonly Probed[],
  isTrusted: boolean,
): { readonly mode: LazyMode; readonly summary: string } | { readonly refused: string } {
  const names = (list: readonly Probed[]) => list.map(({ name }) => name).join(' and ')
  const proving = probed.filter(({ depth }) => reaches(depth, 'proven'))
  if (proving.length > 0)
    return {
      mode: 'proven',
      summary: `state is fetched from ${names(proving)} with proofs, ${deepestOf(proving, 'proofs')} blocks back: each value is proven under the header of its block`,
    }
  const giving = probed.filter(({ depth }) => reaches(depth, 'trusted'))
  if (giving.length === 0)
    return {
      refused: `${names(probed)} gives no state ${MIN_DEPTH} blocks below its head: give an --upstream that does, or --state whole`,
    }
  if (!isTrusted)
    return {
      refused: `${names(giving)} gives no proofs of its state (${proofsText(probed)}), so that what is fetched is as right as the upstream where no receipt shows it: say --trust-upstream to follow all the same, or give an --upstream with proofs`,
    }
  return {
    mode: 'trusted',
    summary: `state is fetched from ${names(giving)} without proofs, ${deepestOf(giving, 'state')} blocks back: it is as right as the upstream where no receipt shows it`,
  }
}

/** Whether an upstream can be asked in this mode. */
export const reaches = ({ state, proofs }: Depth, mode: LazyMode): boolean =>
  ((mode === 'proven' ? proofs : state) ?? -1) >= MIN_DEPTH

/** Returns how far our head may lag behind the deepest upstream's. */
export const deepestOf = (probed: readonly Probed[], what: 'state' | 'proofs'): number =>
  Math.max(...probed.map(({ depth }) => depth[what] ?? -1))

const proofsText = (probed: readonly Probed[]): string =>
  deepestOf(probed, 'proofs') < 0
    ? 'eth_getProof is refused'
    : `eth_getProof reaches ${deepestOf(probed, 'proofs')} blocks back, ${MIN_DEPTH} are needed`

/** Depths of the upstreams at the last probe. */
export interface Depths {
  /** undefined: the upstream cannot be asked. */
  of(name: string): Depth | undefined
  /** Returns how far a node may lag behind its upstreams; undefined: none gives state. */
  deepest(): number | undefined
  /** Whether the upstream was probed. */
  isProbed(name: string): boolean
  /** Returns why no probed upstream can be asked; undefined: one can, or none was probed. */
  unusableReason(): string | undefined
  set(probed: readonly Probed[]): void
}

export function createDepths(mode: LazyMode, probed: readonly Probed[]): Depths {
  const byName = (list: readonly Probed[]) => new Map(list.map((one) => [one.name, one]))
  let all = byName(probed)
  const depthOf = (name: string) => {
    const depth = all.get(name)?.depth
    return depth !== undefined && reaches(depth, mode) ? depth : undefined
  }
  const reaching = () => [...all.keys()].flatMap((name) => depthOf(name) ?? [])
  return {
    of: depthOf,
    deepest() {
      const depths = reaching()
      if (depths.length === 0) return undefined
      return Math.max(...depths.map((depth) => depthIn(mode, depth)!))
    },
    isProbed: (name) => all.has(name),
    unusableReason() {
      if (all.size === 0 || reaching().length > 0) return undefined
      return unusableReasonIn(mode, [...all.values()])
    },
    set(newest) {
      all = byName(newest)
    },
  }
}

function unusableReasonIn(mode: LazyMode, probed: readonly Probed[]): string {
  const names = probed.map(({ name }) => name).join(' and ')
  if (mode === 'proven' && probed.some(({ depth }) => reaches(depth, 'trusted')))
    return `${names} gives no proofs of its state (${proofsText(probed)}), and nothing is taken without: start again with --trust-upstream, or give an --upstream with proofs`
  return `${names} gives no state ${MIN_DEPTH} blocks below its head: give an --upstream that does`
}

/** undefined: the upstream cannot be asked in this mode. */
export const depthIn = (mode: LazyMode, depth: Depth): number | undefined =>
  reaches(depth, mode) ? (mode === 'proven' ? depth.proofs : depth.state) : undefined
