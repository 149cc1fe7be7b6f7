/** Which blocks a log query covers, and when it is too wide. */
import { onChain } from '../../../engine/chain/reader.ts'
import type { ChainView } from '../../../engine/chain/types.ts'
import type { LogQuery } from '../../events/log-filter.ts'
import type { BlockNumber } from '../../json/codecs.ts'
import { invalidParams, tooManyLogs } from '../../seam/errors.ts'
import type { Limits } from '../../seam/limits.ts'

export type LogRange = { readonly fromBlock: bigint; readonly toBlock: bigint }

/**
 * Left out, the range is latest to pending (on the standard endpoint the same block).
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
    const isBelow = 'number' in to ? to.number < head : to.tag !== 'pending'
    if (isBelow && head !== view.latest.number) return undefined
  }
  const range = { fromBlock: heightOf(view, from), toBlock: heightOf(view, to) }
  for (const height of [range.fromBlock, range.toBlock])
    if (height > head)
      throw invalidParams(
        `block range extends beyond current head block: requested ${height}, head ${head}`,
      )
  if (range.fromBlock > range.toBlock) throw invalidParams('invalid block range params')
  onChain(range.fromBlock, { genesisNumber: view.earliest })
  checkWidth(range, query, limits)
  return range
}

function checkWidth(
  { fromBlock, toBlock }: LogRange,
  { addresses }: LogQuery,
  limits: Pick<Limits, 'logsBlocks' | 'logsBlocksFiltered'>,
): void {
  const most = addresses.length === 0 ? limits.logsBlocks : limits.logsBlocksFiltered
  if (toBlock - fromBlock < BigInt(most)) return
  throw tooManyLogs({
    message: `query exceeds max block range ${most}${addresses.length === 0 ? ' without an address' : ''}`,
    limit: most,
    suggested: rangeText({ fromBlock, toBlock: fromBlock + BigInt(most) - 1n }),
  })
}

/**
 * Data of a deadline's error: half of the blocks that there was time for, because that time is all there is; half of the range where there
 * was none. undefined: one block is no range to be made smaller.
 */
export function lateData(
  { fromBlock, toBlock }: LogRange,
  firstLeftOut = fromBlock,
): { readonly suggestedRange: ReturnType<typeof rangeText> } | undefined {
  if (fromBlock === toBlock) return undefined
  const blocks = firstLeftOut > fromBlock ? firstLeftOut - fromBlock : toBlock - fromBlock + 1n
  const half = blocks > 1n ? blocks / 2n : 1n
  return { suggestedRange: rangeText({ fromBlock, toBlock: fromBlock + half - 1n }) }
}

export const rangeText = ({
  fromBlock,
  toBlock,
}: LogRange): { fromBlock: string; toBlock: string } => ({
  fromBlock: `0x${fromBlock.toString(16)}`,
  toBlock: `0x${toBlock.toString(16)}`,
})

const isPending = (at: BlockNumber): boolean => 'tag' in at && at.tag === 'pending'

/** A tag that names no block yet (safe, finalized on a fresh chain) is the first block. */
function heightOf(view: ChainView, at: BlockNumber): bigint {
  if ('number' in at) return at.number
  if (at.tag === 'latest') return view.latest.number
  if (at.tag === 'pending') return view.pending.number
  if (at.tag === 'earliest') return view.earliest
  return view.block(at)?.number ?? view.earliest
}
