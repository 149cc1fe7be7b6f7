/** Which calls are about the chain before this one: by number, tag or hash. What a method is about says which, but for those that are this chain's alone. */
import type { BlockSelector, ChainView } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { quantity } from '../../engine/primitives/hex.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { Call } from '../dispatch/call.ts'
import type { LogQuery } from '../events/log-filter.ts'
import type { BlockNumber } from '../json/codecs.ts'
import { SchemaError } from '../json/schema.ts'
import type { MethodLimits } from '../method/method.ts'

/** Where the answer is; `both`: logs on both sides of the first block. */
export type Route =
  | { readonly to: 'here' }
  | {
      readonly to: 'legacy'
      readonly method: string
      readonly params: readonly unknown[]
      /** Nothing but a hash says so. */
      readonly isByHash: boolean
    }
  | { readonly to: 'both'; readonly fromBlock: bigint }

const HERE: Route = { to: 'here' }

/** What is known here; a hash that is not may be of the other chain. */
export type Known = {
  /** Asked for hashes alone, so that a call by number leases nothing for it. */
  readonly view: () => Pick<ChainView, 'block' | 'findTransaction'>
  /** Accepted here lately: in no block yet. */
  readonly isExpected: (transactionHash: Bytes) => boolean
}

/** @param of `cutoff`: number of this chain's first block */
export function routeOf(
  { found: { name, about, params: declared }, params }: Pick<Call, 'found' | 'params'>,
  { cutoff, limits }: { readonly cutoff: bigint; readonly limits: MethodLimits },
  known: Known,
): Route {
  const wire = about === undefined ? undefined : params[about.at]
  if (about === undefined || wire === undefined || wire === null) return HERE
  const { at, is, isHereOnly, elsewhere = name } = about
  if (isHereOnly || is === 'filter') return HERE
  const legacy = (value: unknown, isByHash = false): Route => ({
    to: 'legacy',
    method: elsewhere,
    params: params.with(at, value),
    isByHash,
  })
  try {
    const decoded = declared[at]!.codec.decode(wire, limits)
    if (is === 'query') return routeOfLogs(decoded as LogQuery, wire)
    if (is === 'transaction' || is === 'receipt')
      return isOurs(decoded as Bytes) ? HERE : legacy(wire, true)
    return routeOfBlock(
      is === 'block' || is === 'state'
        ? (decoded as BlockSelector)
        : { hash: decoded as Bytes, requireCanonical: false },
    )
  } catch (error) {
    // Wrong parameters and views that are gone are this node's to answer.
    if (error instanceof SchemaError || error instanceof ViewError) return HERE
    throw error
  }

  function routeOfBlock(block: BlockSelector): Route {
    if ('hash' in block) return hasBlock(block.hash) ? HERE : legacy(wire, true)
    // A flashblock is of a block that is not folded yet.
    if ('flashblock' in block) return HERE
    const number = heightOf(block)
    if (number === undefined || number >= cutoff) return HERE
    return legacy('tag' in block ? quantity(number) : wire)
  }

  function routeOfLogs({ blockHash, fromBlock, toBlock }: LogQuery, wire: unknown): Route {
    if (blockHash !== undefined) return hasBlock(blockHash) ? HERE : legacy(wire, true)
    const from = fromBlock && heightOf(fromBlock)
    const to = toBlock && heightOf(toBlock)
    if (from === undefined || from >= cutoff || (to !== undefined && to < from)) return HERE
    if (to === undefined || to >= cutoff) return { to: 'both', fromBlock: from }
    return legacy({
      ...(wire as object),
      fromBlock: quantity(from),
      toBlock: quantity(to),
    })
  }

  function hasBlock(hash: Bytes): boolean {
    return known.view().block({ hash, requireCanonical: false }) !== undefined
  }
  /** A transaction that waits for its block would be asked for in vain, again and again. */
  function isOurs(hash: Bytes): boolean {
    return known.isExpected(hash) || known.view().findTransaction(hash) !== undefined
  }
}

/** undefined: a tag or a flashblock of this chain. */
function heightOf(block: BlockNumber): bigint | undefined {
  if ('number' in block) return block.number
  return 'tag' in block && block.tag === 'earliest' ? 0n : undefined
}
