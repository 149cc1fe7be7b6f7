/** What an upstream can be asked of the state, and how far below its head: looked at once, at the start. */
import type { Hex } from '../../primitives/bytes.ts'
import { quantity } from '../../primitives/hex.ts'
import type { Upstream } from '../upstream/client.ts'
import type { Call, CallOptions, Settled } from '../upstream/transport.ts'

export type Depth = {
  /** Blocks below its head whose state was given; undefined: not even the head's. */
  readonly state: number | undefined
  /** The same of proofs. */
  readonly proofs: number | undefined
  /** It takes a block by its hash (EIP-1898). */
  readonly takesHash: boolean
}

/** Below the head; further back than a node is ever behind without beginning anew. */
const DEPTHS: readonly number[] = [0, 1, 4, 16, 64, 128, 256, 1_024, 8_192]
/**
 * A follower reads at its own head, which is some blocks behind the upstream's; what it reads there is a while under way. Less than
 * this much and it would begin anew again and again.
 */
export const LEAST_DEPTH = 16

/**
 * @param head its newest block; `first`: the number of the chain's first. Where all down to that is given, it is as deep as can be.
 * @throws {UpstreamError} when it does not answer
 */
export async function probeDepth(
  upstream: Pick<Upstream, 'batch'>,
  head: { readonly number: number; readonly hash: Hex; readonly first: number },
  options: CallOptions = {},
): Promise<Depth> {
  const whole = head.number - head.first
  const depths = DEPTHS.filter((depth) => depth < whole)
  if (whole <= DEPTHS.at(-1)!) depths.push(whole)
  const at = (depth: number) => quantity(head.number - depth)
  const calls: readonly Call[] = [
    { method: 'eth_getBalance', params: [ANYBODY, { blockHash: head.hash }] },
    ...depths.map((depth) => ({ method: 'eth_getBalance', params: [ANYBODY, at(depth)] })),
    ...depths.map((depth) => ({ method: 'eth_getProof', params: [ANYBODY, [], at(depth)] })),
  ]
  const [byHash, ...answers] = await upstream.batch(calls, options)
  const state = answers.slice(0, depths.length).map(isGiven)
  const proofs = answers.slice(depths.length).map(isGiven)
  return {
    state: deepest(depths, state),
    proofs: deepest(depths, proofs),
    takesHash: byHash !== undefined && isGiven(byHash),
  }
}

/** The zero address: it has a balance on every chain, and where it has none that is an answer too. */
const ANYBODY: Hex = `0x${'00'.repeat(20)}`

/** @throws {UpstreamError} an upstream that is silent has refused nothing */
function isGiven(answer: Settled): boolean {
  if ('result' in answer) return answer.result !== null && answer.result !== undefined
  if (answer.error.kind !== 'refused') throw answer.error
  return false
}

/** Up to the first that was not given. */
function deepest(depths: readonly number[], isGiven: readonly boolean[]): number | undefined {
  const gap = isGiven.indexOf(false)
  return gap < 0 ? DEPTHS.at(-1) : depths[gap - 1]
}

/** How the state is fetched: each value proven under the header of its block, or taken as it is. */
export type LazyMode = 'proven' | 'trusted'

export type Probed = { readonly name: string; readonly depth: Depth }

/**
 * What the node does with what its upstreams give, in one line for the log; `refused`: why there is no start. Where one upstream has
 * proofs, those alone are asked.
 */
export function lazyMode(
  probed: readonly Probed[],
  isTrusted: boolean,
): { readonly mode: LazyMode; readonly says: string } | { readonly refused: string } {
  const names = (list: readonly Probed[]) => list.map(({ name }) => name).join(' and ')
  const proving = probed.filter(({ depth }) => reaches(depth, 'proven'))
  if (proving.length > 0)
    return {
      mode: 'proven',
      says: `state is fetched from ${names(proving)} with proofs, ${deepestOf(proving, 'proofs')} blocks back: each value is proven under the header of its block`,
    }
  const giving = probed.filter(({ depth }) => reaches(depth, 'trusted'))
  if (giving.length === 0)
    return {
      refused: `${names(probed)} gives no state ${LEAST_DEPTH} blocks below its head: give an --upstream that does, or --state whole`,
    }
  if (!isTrusted)
    return {
      refused: `${names(giving)} gives no proofs of its state (${proofsText(probed)}), so that what is fetched is as right as the upstream where no receipt shows it: say --trust-upstream to follow all the same, or give an --upstream with proofs`,
    }
  return {
    mode: 'trusted',
    says: `state is fetched from ${names(giving)} without proofs, ${deepestOf(giving, 'state')} blocks back: it is as right as the upstream where no receipt shows it`,
  }
}

/** Whether an upstream can be asked in this mode. */
export const reaches = ({ state, proofs }: Depth, mode: LazyMode): boolean =>
  ((mode === 'proven' ? proofs : state) ?? -1) >= LEAST_DEPTH

/** How far below an upstream's head ours may be; the best of them counts. */
export const deepestOf = (probed: readonly Probed[], what: 'state' | 'proofs'): number =>
  Math.max(...probed.map(({ depth }) => depth[what] ?? -1))

const proofsText = (probed: readonly Probed[]): string =>
  deepestOf(probed, 'proofs') < 0
    ? 'eth_getProof is refused'
    : `eth_getProof reaches ${deepestOf(probed, 'proofs')} blocks back, ${LEAST_DEPTH} are needed`

/** What each upstream can be asked, as it was last found out. */
export interface Depths {
  /** undefined: it cannot be asked. */
  of(name: string): Depth | undefined
  /** How far below its upstreams' head a node can be; undefined: none gives state. */
  deepest(): number | undefined
  /** Whether an upstream has said how deep it is. */
  isProbed(name: string): boolean
  /** Why none of the upstreams that have answered can be asked; undefined: one can, or none has answered. */
  lack(): string | undefined
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
    lack() {
      if (all.size === 0 || reaching().length > 0) return undefined
      return lackIn(mode, [...all.values()])
    },
    set(newest) {
      all = byName(newest)
    },
  }
}

function lackIn(mode: LazyMode, probed: readonly Probed[]): string {
  const names = probed.map(({ name }) => name).join(' and ')
  if (mode === 'proven' && probed.some(({ depth }) => reaches(depth, 'trusted')))
    return `${names} gives no proofs of its state (${proofsText(probed)}), and nothing is taken without: start again with --trust-upstream, or give an --upstream with proofs`
  return `${names} gives no state ${LEAST_DEPTH} blocks below its head: give an --upstream that does`
}

/** undefined: it cannot be asked in this mode. */
export const depthIn = (mode: LazyMode, depth: Depth): number | undefined =>
  reaches(depth, mode) ? (mode === 'proven' ? depth.proofs : depth.state) : undefined
