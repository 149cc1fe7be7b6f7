/**
 * Routes calls about the chain before this one, by number, tag or hash. `about` of a method
 * decides, except for methods of this chain alone.
 */
import type { BlockSelector, ChainView } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { quantity } from '../../engine/primitives/hex.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { Call } from '../dispatch/call.ts'
import type { LogQuery } from '../events/log-filter.ts'
import type { BlockNumber } from '../json/codecs.ts'
import { SchemaError } from '../json/schema.ts'
import type { MethodLimits } from '../method/method.ts'

/** Destination of a call; `both` is a log query on both sides of the first block. */
export type Route =
  | { readonly to: 'here' }
  | {
      readonly to: 'forwarding'
      readonly method: string
      readonly params: readonly unknown[]
      /** The call is routed only because its hash is unknown here. */
      readonly isByHash: boolean
    }
  | { readonly to: 'both'; readonly fromBlock: bigint }

const LOCAL: Route = { to: 'here' }

/** Local knowledge; a hash that is unknown here may belong to the other chain. */
export type Known = {
  /** Called for hashes alone, so that a call by number leases no view. */
  readonly view: () => Pick<ChainView, 'block' | 'findTransaction'>
  /** Tells whether a transaction was accepted here recently and is in no block yet. */
  readonly isExpected: (transactionHash: Bytes) => boolean
}

/**
 * Returns the route of a call.
 * @param of `cutoff` is the number of this chain's first block
 */
export function routeOf(
  { found: { name, about, params: declared }, params }: Pick<Call, 'found' | 'params'>,
  { cutoff, limits }: { readonly cutoff: bigint; readonly limits: MethodLimits },
  known: Known,
): Route {
  const wire = about === undefined ? undefined : params[about.at]
  if (about === undefined || wire === undefined || wire === null) return LOCAL
  const { at, is, isLocalOnly, elsewhere = name } = about
  if (isLocalOnly || is === 'filter') return LOCAL
  const forwarded = (value: unknown, isByHash = false): Route => ({
    to: 'forwarding',
    method: elsewhere,
    params: params.with(at, value),
    isByHash,
  })
  try {
    const decoded = declared[at]!.codec.decode(wire, limits)
    if (is === 'query') return routeOfLogs(decoded as LogQuery, wire)
    if (is === 'transaction' || is === 'receipt')
      return isOurs(decoded as Bytes) ? LOCAL : forwarded(wire, true)
    return routeOfBlock(
      is === 'block' || is === 'state'
        ? (decoded as BlockSelector)
        : { hash: decoded as Bytes, requireCanonical: false },
    )
  } catch (error) {
    // This node answers calls with invalid parameters or expired views.
    if (error instanceof SchemaError || error instanceof ViewError) return LOCAL
    throw error
  }

  function routeOfBlock(block: BlockSelector): Route {
    if ('hash' in block) return hasBlock(block.hash) ? LOCAL : forwarded(wire, true)
    // A flashblock always belongs to a block that is not persisted yet.
    if ('flashblock' in block) return LOCAL
    const number = heightOf(block)
    if (number === undefined || number >= cutoff) return LOCAL
    return forwarded('tag' in block ? quantity(number) : wire)
  }

  function routeOfLogs({ blockHash, fromBlock, toBlock }: LogQuery, wire: unknown): Route {
    if (blockHash !== undefined) return hasBlock(blockHash) ? LOCAL : forwarded(wire, true)
    const from = fromBlock && heightOf(fromBlock)
    const to = toBlock && heightOf(toBlock)
    if (from === undefined || from >= cutoff || (to !== undefined && to < from)) return LOCAL
    if (to === undefined || to >= cutoff) return { to: 'both', fromBlock: from }
    return forwarded({
      ...(wire as object),
      fromBlock: quantity(from),
      toBlock: quantity(to),
    })
  }

  function hasBlock(hash: Bytes): boolean {
    return known.view().block({ hash, requireCanonical: false }) !== undefined
  }
  /**
   * A waiting transaction stays local, because the other chain cannot have it and clients poll for
   * it.
   */
  function isOurs(hash: Bytes): boolean {
    return known.isExpected(hash) || known.view().findTransaction(hash) !== undefined
  }
}

/** Returns a height; undefined for a tag or flashblock of this chain. */
function heightOf(block: BlockNumber): bigint | undefined {
  if ('number' in block) return block.number
  return 'tag' in block && block.tag === 'earliest' ? 0n : undefined
}
