/** Which calls the upstream answers for a node that has fetched its state from a block on: what is older, and what takes a trie. */
import type { BlockSelector, ChainView } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { quantity } from '../../engine/primitives/hex.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { Call } from '../dispatch/call.ts'
import type { LogQuery } from '../events/log-filter.ts'
import type { BlockNumber } from '../json/codecs.ts'
import { SchemaError } from '../json/schema.ts'
import type { MethodLimits } from '../method/method.ts'
import type { About } from '../seam/about.ts'
import type { Runs } from '../seam/lane.ts'

/** `isHereFirst`: the block may be here, only its state is not; `both`: logs on both sides of the first block. */
export type UpstreamRoute =
  | { readonly to: 'here' }
  | {
      readonly to: 'upstream'
      readonly params: readonly unknown[]
      readonly isHereFirst: boolean
    }
  | { readonly to: 'both'; readonly fromBlock: bigint }

const HERE: UpstreamRoute = { to: 'here' }

export type UpstreamKnown = {
  readonly view: Pick<
    ChainView,
    'block' | 'findTransaction' | 'oldestState' | 'earliest' | 'canonical'
  >
  /** Accepted here lately: in no block yet. */
  readonly isExpected: (transactionHash: Bytes) => boolean
}
type Asked = {
  readonly about: About
  readonly runs: Runs
  readonly params: readonly unknown[]
  readonly decoded: unknown
}

/** The first block whose state is here is `oldestState` of the view. */
export function upstreamRoute(
  { found: { about, runs, params: declared }, params }: Pick<Call, 'found' | 'params'>,
  limits: MethodLimits,
  known: UpstreamKnown,
): UpstreamRoute {
  if (about === undefined || about.is === 'filter') return HERE
  const { codec, fallback } = declared[about.at]!
  const wire = params[about.at]
  try {
    const isGiven = wire !== undefined && wire !== null
    const decoded = isGiven ? codec.decode(wire, limits) : fallback
    return decoded === undefined ? HERE : routeOf({ about, runs, params, decoded }, known)
  } catch (error) {
    // Wrong parameters and views that are gone are this node's to answer.
    if (error instanceof SchemaError || error instanceof ViewError) return HERE
    throw error
  }
}

function routeOf(asked: Asked, known: UpstreamKnown): UpstreamRoute {
  const { about, decoded } = asked
  switch (about.is) {
    case 'query':
      return routeOfLogs(asked, decoded as LogQuery, known)
    case 'transaction':
    case 'receipt':
      return routeOfTransaction(asked, decoded as Bytes, known)
    case 'blockHash':
      return routeOfBlock(asked, { hash: decoded as Bytes, requireCanonical: false }, known)
    default:
      return routeOfBlock(asked, decoded as BlockSelector, known)
  }
}

function routeOfBlock(asked: Asked, block: BlockSelector, known: UpstreamKnown): UpstreamRoute {
  const { view } = known
  const { about } = asked
  // A flashblock is of a block that is not folded yet.
  if ('flashblock' in block) return HERE
  if (about.needsTrie) return there(asked, { wire: provenBlock(block, view) })
  const number = numberOf(block, view)
  // A hash that is not known here may be known there, and a tag may name a block that is too old to be here.
  if (number === undefined) return isHeadOf(block) ? HERE : there(asked)
  const wire = 'tag' in block ? quantity(number) : undefined
  if (about.is === 'state') return number < view.oldestState ? there(asked, { wire }) : HERE
  return number <= view.oldestState ? there(asked, { wire, isHereFirst: true }) : HERE
}

function routeOfTransaction(asked: Asked, hash: Bytes, known: UpstreamKnown): UpstreamRoute {
  if (known.isExpected(hash)) return HERE
  const place = known.view.findTransaction(hash)
  if (place === undefined) return there(asked)
  const isOld = place.block.number <= known.view.oldestState
  return isOld ? there(asked, { isHereFirst: true }) : HERE
}

function routeOfLogs(
  asked: Asked,
  { blockHash, fromBlock, toBlock }: LogQuery,
  { view }: UpstreamKnown,
): UpstreamRoute {
  if (blockHash !== undefined)
    return routeOfBlock(
      { ...asked, about: { ...asked.about, is: 'blockHash' } },
      { hash: blockHash, requireCanonical: false },
      { view, isExpected: () => false },
    )
  const cutoff = view.oldestState
  const from = fromBlock && heightOf(fromBlock, view)
  const to = toBlock && heightOf(toBlock, view)
  if (from === undefined || from >= cutoff || (to !== undefined && to < from)) return HERE
  if (to === undefined || to >= cutoff) return { to: 'both', fromBlock: from }
  const range = { fromBlock: quantity(from), toBlock: quantity(to) }
  return there(asked, { wire: { ...(asked.params[asked.about.at] as object), ...range } })
}

function there(
  { about: { at }, runs, params }: Asked,
  { wire, isHereFirst = false }: { readonly wire?: unknown; readonly isHereFirst?: boolean } = {},
): UpstreamRoute {
  const all = Array.from({ length: Math.max(params.length, at + 1) }, (_, index) => params[index])
  return {
    to: 'upstream',
    params: wire === undefined ? params : all.with(at, wire),
    // What a worker does with a block starts on the state before it.
    isHereFirst: isHereFirst && runs === 'front',
  }
}

type Blocks = UpstreamKnown['view']
/** undefined: a hash that is not known, or a height that nothing is known of yet. */
function numberOf(block: BlockSelector, view: Blocks): bigint | undefined {
  if ('number' in block) return block.number
  if ('tag' in block) return heightOf(block, view)
  return view.block(block)?.number
}

const isHeadOf = (block: BlockSelector): boolean =>
  'tag' in block && (block.tag === 'latest' || block.tag === 'pending')

/** undefined: at or above the newest block that is canonical, one that is not folded, or a block that is not here. */
function heightOf(block: BlockNumber, view: Blocks): bigint | undefined {
  if ('number' in block) return block.number
  if ('flashblock' in block || isHeadOf(block)) return undefined
  return block.tag === 'earliest' ? view.earliest : view.block(block)?.number
}

/** By its number, for the upstream's tags may be ahead. What is not canonical yet has no root: the canonical head stands for it. */
function provenBlock(block: BlockSelector, view: Blocks): unknown {
  const { canonical } = view
  const number = 'number' in block ? block.number : view.block(block)?.number
  if (number === undefined) return undefined
  return quantity('number' in block || number < canonical.number ? number : canonical.number)
}
