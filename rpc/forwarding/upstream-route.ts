/**
 * Routes calls of a node with lazy state to its upstream: older blocks, and whatever needs a trie.
 */
import type { BlockSelector, ChainView } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { quantity } from '../../engine/primitives/hex.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { About } from '../core/about.ts'
import type { Runs } from '../core/queue-class.ts'
import type { Call } from '../dispatch/call.ts'
import type { LogQuery } from '../events/log-filter.ts'
import type { BlockNumber } from '../json/codecs.ts'
import { SchemaError } from '../json/schema.ts'
import type { MethodLimits } from '../method/method.ts'

/**
 * `isLocalFirst` means that the block may be local, without its state. `both` is a log query on
 * both sides of the first block.
 */
export type UpstreamRoute =
  | { readonly to: 'here' }
  | {
      readonly to: 'upstream'
      readonly params: readonly unknown[]
      readonly isLocalFirst: boolean
    }
  | { readonly to: 'both'; readonly fromBlock: bigint }

const LOCAL: UpstreamRoute = { to: 'here' }

export type UpstreamKnown = {
  readonly view: Pick<
    ChainView,
    'block' | 'findTransaction' | 'oldestState' | 'earliest' | 'canonical'
  >
  /** Tells whether a transaction was accepted here recently and is in no block yet. */
  readonly isExpected: (transactionHash: Bytes) => boolean
}
type RoutedRequest = {
  readonly about: About
  readonly runs: Runs
  readonly params: readonly unknown[]
  readonly decoded: unknown
}

/** Returns the route of a call; `oldestState` of the view is the first block with local state. */
export function upstreamRoute(
  { found: { about, runs, params: declared }, params }: Pick<Call, 'found' | 'params'>,
  limits: MethodLimits,
  known: UpstreamKnown,
): UpstreamRoute {
  if (about === undefined || about.is === 'filter') return LOCAL
  const { codec, fallback } = declared[about.at]!
  const wire = params[about.at]
  try {
    const isGiven = wire !== undefined && wire !== null
    const decoded = isGiven ? codec.decode(wire, limits) : fallback
    return decoded === undefined ? LOCAL : routeOf({ about, runs, params, decoded }, known)
  } catch (error) {
    // This node answers calls with invalid parameters or expired views.
    if (error instanceof SchemaError || error instanceof ViewError) return LOCAL
    throw error
  }
}

function routeOf(request: RoutedRequest, known: UpstreamKnown): UpstreamRoute {
  const { about, decoded } = request
  switch (about.is) {
    case 'query':
      return routeOfLogs(request, decoded as LogQuery, known)
    case 'transaction':
    case 'receipt':
      return routeOfTransaction(request, decoded as Bytes, known)
    case 'blockHash':
      return routeOfBlock(request, { hash: decoded as Bytes, requireCanonical: false }, known)
    default:
      return routeOfBlock(request, decoded as BlockSelector, known)
  }
}

function routeOfBlock(
  request: RoutedRequest,
  block: BlockSelector,
  known: UpstreamKnown,
): UpstreamRoute {
  const { view } = known
  const { about } = request
  // A flashblock always belongs to a block that is not persisted yet.
  if ('flashblock' in block) return LOCAL
  if (about.needsTrie) return there(request, { wire: provenBlock(block, view) })
  const number = numberOf(block, view)
  /*
   * The upstream may know a hash that is unknown here. A tag may mean a block that is too old for
   * this node.
   */
  if (number === undefined) return isHeadOf(block) ? LOCAL : there(request)
  const wire = 'tag' in block ? quantity(number) : undefined
  if (about.is === 'state') return number < view.oldestState ? there(request, { wire }) : LOCAL
  return number <= view.oldestState ? there(request, { wire, isLocalFirst: true }) : LOCAL
}

function routeOfTransaction(
  request: RoutedRequest,
  hash: Bytes,
  known: UpstreamKnown,
): UpstreamRoute {
  if (known.isExpected(hash)) return LOCAL
  const location = known.view.findTransaction(hash)
  if (location === undefined) return there(request)
  const isOld = location.block.number <= known.view.oldestState
  return isOld ? there(request, { isLocalFirst: true }) : LOCAL
}

function routeOfLogs(
  request: RoutedRequest,
  { blockHash, fromBlock, toBlock }: LogQuery,
  { view }: UpstreamKnown,
): UpstreamRoute {
  if (blockHash !== undefined)
    return routeOfBlock(
      { ...request, about: { ...request.about, is: 'blockHash' } },
      { hash: blockHash, requireCanonical: false },
      { view, isExpected: () => false },
    )
  const cutoff = view.oldestState
  const from = fromBlock && heightOf(fromBlock, view)
  const to = toBlock && heightOf(toBlock, view)
  if (from === undefined || from >= cutoff || (to !== undefined && to < from)) return LOCAL
  if (to === undefined || to >= cutoff) return { to: 'both', fromBlock: from }
  const range = { fromBlock: quantity(from), toBlock: quantity(to) }
  return there(request, { wire: { ...(request.params[request.about.at] as object), ...range } })
}

function there(
  { about: { at }, runs, params }: RoutedRequest,
  { wire, isLocalFirst = false }: { readonly wire?: unknown; readonly isLocalFirst?: boolean } = {},
): UpstreamRoute {
  const all = Array.from({ length: Math.max(params.length, at + 1) }, (_, index) => params[index])
  return {
    to: 'upstream',
    params: wire === undefined ? params : all.with(at, wire),
    /*
     * A worker's replay of a block starts from the state before it, so only front methods may try
     * locally.
     */
    isLocalFirst: isLocalFirst && runs === 'front',
  }
}

type Blocks = UpstreamKnown['view']
/** Returns a block's number; undefined for an unknown hash, or for a tag without a block. */
function numberOf(block: BlockSelector, view: Blocks): bigint | undefined {
  if ('number' in block) return block.number
  if ('tag' in block) return heightOf(block, view)
  return view.block(block)?.number
}

const isHeadOf = (block: BlockSelector): boolean =>
  'tag' in block && (block.tag === 'latest' || block.tag === 'pending')

/**
 * Returns a height; undefined for the heads, for a flashblock, and for a block that is not local.
 */
function heightOf(block: BlockNumber, view: Blocks): bigint | undefined {
  if ('number' in block) return block.number
  if ('flashblock' in block || isHeadOf(block)) return undefined
  return block.tag === 'earliest' ? view.earliest : view.block(block)?.number
}

/**
 * Returns the block to prove by number, because the upstream's tags may be ahead. A block above
 * canonical has no root yet, so the canonical head replaces it.
 */
function provenBlock(block: BlockSelector, view: Blocks): unknown {
  const { canonical } = view
  const number = 'number' in block ? block.number : view.block(block)?.number
  if (number === undefined) return undefined
  return quantity('number' in block || number < canonical.number ? number : canonical.number)
}
