/** What a transaction should offer: the base fee of the head and a tip that gets it in. */
import type { Block, ChainView } from '../../../engine/chain/types.ts'
import { LATEST, resolveBlock } from '../../method/resolve.ts'

/** Wei. Where blocks are not full a sequencer takes any tip; this is the least that clients are told. */
const MIN_TIP = 1_000_000n

/** Wei per gas. Above the least only when the head has no room for another transaction as large as its largest. */
export function suggestTip(view: ChainView): bigint {
  const block = resolveBlock(view, LATEST)
  const { gasUsed, gasLimit } = block.header
  if (gasUsed * 2n < gasLimit) return MIN_TIP
  const receipts = block.receipts()
  const largest = receipts.reduce((most, one) => (one.gasUsed > most ? one.gasUsed : most), 0n)
  if (gasUsed + largest <= gasLimit) return MIN_TIP
  const tips = tipsOf(block).toSorted((a, b) => (a < b ? -1 : 1))
  const median = tips[tips.length >> 1] ?? 0n
  const raised = median + median / 10n
  return raised > MIN_TIP ? raised : MIN_TIP
}

/** Wei per gas: base fee of the head and the tip. */
export const suggestPrice = (view: ChainView): bigint =>
  (resolveBlock(view, LATEST).header.baseFeePerGas ?? 0n) + suggestTip(view)

/** What each transaction of a block paid above the base fee; deposits pay nothing. */
export function tipsOf(block: Block): readonly bigint[] {
  const baseFee = block.header.baseFeePerGas ?? 0n
  return block.receipts().map(({ effectiveGasPrice }) => {
    const tip = effectiveGasPrice - baseFee
    return tip > 0n ? tip : 0n
  })
}
