/** Suggested prices of a transaction: the base fee of the head, and a tip that gets it included. */
import type { Block, ChainView } from '../../../engine/chain/types.ts'
import { LATEST, resolveBlock } from '../../method/resolve.ts'

/** Minimum suggested tip in wei; while blocks are not full, a sequencer accepts any tip. */
const MIN_TIP = 1_000_000n

/**
 * Suggests a tip in wei per gas. It exceeds the minimum only when the head is too full for another
 * copy of its largest transaction.
 */
export function suggestTip(view: ChainView): bigint {
  const block = resolveBlock(view, LATEST)
  const { gasUsed, gasLimit } = block.header
  if (gasUsed * 2n < gasLimit) return MIN_TIP
  const receipts = block.receipts()
  const largest = receipts.reduce((max, one) => (one.gasUsed > max ? one.gasUsed : max), 0n)
  if (gasUsed + largest <= gasLimit) return MIN_TIP
  const tips = tipsOf(block).toSorted((a, b) => (a < b ? -1 : 1))
  const median = tips[tips.length >> 1] ?? 0n
  const raised = median + median / 10n
  return raised > MIN_TIP ? raised : MIN_TIP
}

/** Suggests a price in wei per gas: base fee of the head plus tip. */
export const suggestPrice = (view: ChainView): bigint =>
  (resolveBlock(view, LATEST).header.baseFeePerGas ?? 0n) + suggestTip(view)

/** Returns the tips that the transactions of a block paid; deposits pay none. */
export function tipsOf(block: Block): readonly bigint[] {
  const baseFee = block.header.baseFeePerGas ?? 0n
  return block.receipts().map(({ effectiveGasPrice }) => {
    const tip = effectiveGasPrice - baseFee
    return tip > 0n ? tip : 0n
  })
}
