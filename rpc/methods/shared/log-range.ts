/** Which blocks a log query covers, and when it is too wide. */
import { onChain } from '../../../engine/chain/reader.ts'
import type { ChainView, FlashblockPlace, LogFilter } from '../../../engine/chain/types.ts'
import type { LogQuery } from '../../events/log-filter.ts'
import { type BlockNumber, blockNumber } from '../../json/codecs.ts'
import { invalidParams, tooManyLogs } from '../../seam/errors.ts'
import type { Limits } from '../../seam/limits.ts'

export type LogRange = Pick<LogFilter, 'fromBlock' | 'toBlock' | 'firstTransaction' | 'toPlace'> & {
  /** The flashblock with whose own transactions the range begins; undefined: a block. */
  readonly fromPlace?: FlashblockPlace | undefined
}

/**
 * Left out, the range is latest to pending (on the standard endpoint the same block). A flashblock as a bound is within the range, as a block is.
 * @returns undefined: no block at all, which is no error when the range begins at pending.
 * @throws {RpcError} {ViewError} when it begins before the chain
 */
export function resolveRange(
  view: ChainView,
  query: LogQuery,
  limits: Pick<Limits, 'logsBlocks' | 'logsBlocksFiltered'>,
): LogRange | undefined {
  const from = query.fromBlock ?? { tag: 'latest' }
  const to = query.toBlock ?? { tag: 'pending' }
  const head = view.pending.number
  if (isPending(from)) {
    const isBelow = 'tag' in to ? to.tag !== 'pending' : heightOf(view, to) < head
    if (isBelow && head !== view.latest.number) return undefined
  }
  const range = {
    fromBlock: heightOf(view, from),
    toBlock: heightOf(view, to),
    ...('flashblock' in from ? beginningAt(view, from.flashblock) : {}),
    ...('flashblock' in to ? { toPlace: held(view, to.flashblock) } : {}),
  }
  for (const height of [range.fromBlock, range.toBlock])
    if (height > head)
      throw invalidParams(
        `block range extends beyond current head block: requested ${height}, head ${head}`,
      )
  if (isBackwards(range)) throw invalidParams('invalid block range params')
  onChain(range.fromBlock, { genesisNumber: view.earliest })
  checkWidth(range, query, limits)
  return range
}

function isBackwards({ fromBlock, toBlock, fromPlace, toPlace }: LogRange): boolean {
  if (fromBlock !== toBlock || fromPlace === undefined || toPlace === undefined)
    return fromBlock > toBlock
  return fromPlace.index > toPlace.index
}

/** @throws {RpcError} {PlaceError} where nobody has it */
function held(view: ChainView, place: FlashblockPlace): FlashblockPlace {
  if (view.block({ flashblock: place }) !== undefined) return place
  throw invalidParams(
    `block range extends beyond current head block: requested flashblock ${place.index} of block ${place.number}, head ${view.pending.index} of ${view.pending.number}`,
  )
}

/** What came before its own transactions is left out. */
function beginningAt(
  view: ChainView,
  fromPlace: FlashblockPlace,
): Pick<LogRange, 'fromPlace' | 'firstTransaction'> {
  const { index } = held(view, fromPlace)
  if (index === 0) return { fromPlace, firstTransaction: 0 }
  const before = view.block({ flashblock: { ...fromPlace, index: index - 1 } })
  return { fromPlace, firstTransaction: before!.transactionCount }
}

function checkWidth(
  { fromBlock, toBlock, fromPlace }: LogRange,
  { addresses }: LogQuery,
  limits: Pick<Limits, 'logsBlocks' | 'logsBlocksFiltered'>,
): void {
  const most = addresses.length === 0 ? limits.logsBlocks : limits.logsBlocksFiltered
  if (toBlock - fromBlock < BigInt(most)) return
  throw tooManyLogs({
    message: `query exceeds max block range ${most}${addresses.length === 0 ? ' without an address' : ''}`,
    limit: most,
    suggested: rangeText({ fromBlock, toBlock: fromBlock + BigInt(most) - 1n, fromPlace }),
  })
}

/**
 * Data of a deadline's error: half of the blocks that there was time for, because that time is all there is; half of the range where there
 * was none. undefined: one block is no range to be made smaller.
 */
export function lateData(
  { fromBlock, toBlock, fromPlace }: LogRange,
  firstLeftOut = fromBlock,
): { readonly suggestedRange: ReturnType<typeof rangeText> } | undefined {
  if (fromBlock === toBlock) return undefined
  const blocks = firstLeftOut > fromBlock ? firstLeftOut - fromBlock : toBlock - fromBlock + 1n
  const half = blocks > 1n ? blocks / 2n : 1n
  return { suggestedRange: rangeText({ fromBlock, toBlock: fromBlock + half - 1n, fromPlace }) }
}

export const rangeText = ({
  fromBlock,
  toBlock,
  fromPlace,
}: LogRange): { readonly fromBlock: unknown; readonly toBlock: unknown } => ({
  fromBlock: blockNumber.encode(
    fromPlace === undefined ? { number: fromBlock } : { flashblock: fromPlace },
  ),
  toBlock: blockNumber.encode({ number: toBlock }),
})

const isPending = (at: BlockNumber): boolean => 'tag' in at && at.tag === 'pending'

/** A tag that names no block yet (safe, finalized on a fresh chain) is the first block. */
function heightOf(view: ChainView, at: BlockNumber): bigint {
  if ('number' in at) return at.number
  if ('flashblock' in at) return at.flashblock.number
  if (at.tag === 'latest') return view.latest.number
  if (at.tag === 'pending') return view.pending.number
  if (at.tag === 'earliest') return view.earliest
  return view.block(at)?.number ?? view.earliest
}
