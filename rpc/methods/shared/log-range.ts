/** Block range of a log query, and its maximum width. */
import { onChain } from '../../../engine/chain/reader.ts'
import type { ChainView, FlashblockId, LogFilter } from '../../../engine/chain/types.ts'
import { invalidParams, tooManyLogs } from '../../core/errors.ts'
import type { Limits } from '../../core/limits.ts'
import type { LogQuery } from '../../events/log-filter.ts'
import { type BlockNumber, blockNumber } from '../../json/codecs.ts'

export type LogRange = Pick<
  LogFilter,
  'fromBlock' | 'toBlock' | 'firstTransaction' | 'toFlashblock'
> & {
  /** Flashblock at whose own transactions the range starts; undefined when it starts at a block. */
  readonly fromFlashblock?: FlashblockId | undefined
}

/**
 * Resolves the range of a query, which is latest to pending by default (one block on the standard
 * endpoint). A flashblock as a bound is included, as a block is.
 * @returns undefined for an empty range, which is no error when it starts at pending
 * @throws {RpcError} {ViewError} when the range starts before the chain
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
    ...('flashblock' in from ? startAt(view, from.flashblock) : {}),
    ...('flashblock' in to ? { toFlashblock: existing(view, to.flashblock) } : {}),
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

function isBackwards({ fromBlock, toBlock, fromFlashblock, toFlashblock }: LogRange): boolean {
  if (fromBlock !== toBlock || fromFlashblock === undefined || toFlashblock === undefined)
    return fromBlock > toBlock
  return fromFlashblock.index > toFlashblock.index
}

/**
 * Checks that a flashblock exists.
 * @throws {RpcError} {FlashblockUnavailableError} when it does not
 */
function existing(view: ChainView, flashblockId: FlashblockId): FlashblockId {
  if (view.block({ flashblock: flashblockId }) !== undefined) return flashblockId
  throw invalidParams(
    `block range extends beyond current head block: requested flashblock ${flashblockId.index} of block ${flashblockId.number}, head ${view.pending.index} of ${view.pending.number}`,
  )
}

/** The range starts at the flashblock's own transactions, after those of earlier flashblocks. */
function startAt(
  view: ChainView,
  fromFlashblock: FlashblockId,
): Pick<LogRange, 'fromFlashblock' | 'firstTransaction'> {
  const { index } = existing(view, fromFlashblock)
  if (index === 0) return { fromFlashblock, firstTransaction: 0 }
  const before = view.block({ flashblock: { ...fromFlashblock, index: index - 1 } })
  return { fromFlashblock, firstTransaction: before!.transactionCount }
}

function checkWidth(
  { fromBlock, toBlock, fromFlashblock }: LogRange,
  { addresses }: LogQuery,
  limits: Pick<Limits, 'logsBlocks' | 'logsBlocksFiltered'>,
): void {
  const max = addresses.length === 0 ? limits.logsBlocks : limits.logsBlocksFiltered
  if (toBlock - fromBlock < BigInt(max)) return
  throw tooManyLogs({
    message: `query exceeds max block range ${max}${addresses.length === 0 ? ' without an address' : ''}`,
    limit: max,
    suggested: rangeText({ fromBlock, toBlock: fromBlock + BigInt(max) - 1n, fromFlashblock }),
  })
}

/**
 * Suggests a smaller range after a timeout: half of the blocks that were searched, or half of the
 * range without any.
 * @returns undefined for a single block, which cannot be split
 */
export function lateData(
  { fromBlock, toBlock, fromFlashblock }: LogRange,
  firstLeftOut = fromBlock,
): { readonly suggestedRange: ReturnType<typeof rangeText> } | undefined {
  if (fromBlock === toBlock) return undefined
  const blocks = firstLeftOut > fromBlock ? firstLeftOut - fromBlock : toBlock - fromBlock + 1n
  const half = blocks > 1n ? blocks / 2n : 1n
  return {
    suggestedRange: rangeText({ fromBlock, toBlock: fromBlock + half - 1n, fromFlashblock }),
  }
}

export const rangeText = ({
  fromBlock,
  toBlock,
  fromFlashblock,
}: LogRange): { readonly fromBlock: unknown; readonly toBlock: unknown } => ({
  fromBlock: blockNumber.encode(
    fromFlashblock === undefined ? { number: fromBlock } : { flashblock: fromFlashblock },
  ),
  toBlock: blockNumber.encode({ number: toBlock }),
})

const isPending = (at: BlockNumber): boolean => 'tag' in at && at.tag === 'pending'

/** A tag without a block (safe or finalized on a fresh chain) means the first block. */
function heightOf(view: ChainView, at: BlockNumber): bigint {
  if ('number' in at) return at.number
  if ('flashblock' in at) return at.flashblock.number
  if (at.tag === 'latest') return view.latest.number
  if (at.tag === 'pending') return view.pending.number
  if (at.tag === 'earliest') return view.earliest
  return view.block(at)?.number ?? view.earliest
}
