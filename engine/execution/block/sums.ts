/** Sums of a header over a growing block's transactions and receipts. */
import { orderedTrie } from '../../primitives/ordered-root.ts'
import { addBloom, encodeReceipt } from '../../primitives/receipt-codec.ts'
import type { BlockSums, ExecutedTransaction } from '../transaction/types.ts'

export interface Sums {
  /**
   * @param executed the block's transactions from the first; those summed before must be unchanged
   */
  of(
    executed: readonly ExecutedTransaction[],
    gas: Pick<BlockSums, 'gasUsed' | 'blobGasUsed'>,
  ): BlockSums
  /** Drops all transactions after the given number. */
  truncate(transactions: number): void
}

/**
 * Tries grow only when sums are requested. A flashblock hashes only its own transactions, and
 * reverted ones are never hashed.
 */
export function createSums(): Sums {
  const [transactions, receipts] = [orderedTrie(), orderedTrie()]
  let hashed = 0
  /**
   * Bloom of the first `of` receipts. Bits cannot be removed, so a truncation restarts the bloom.
   */
  let bloom = { of: 0, bits: new Uint8Array(256) }
  let made: (BlockSums & { readonly count: number }) | undefined
  return {
    of(executed, { gasUsed, blobGasUsed }) {
      for (const { transaction, receipt } of executed.slice(hashed)) {
        transactions.append(transaction.raw)
        receipts.append(encodeReceipt(receipt))
      }
      for (; bloom.of < executed.length; bloom.of++)
        addBloom(bloom.bits, executed[bloom.of]!.receipt.logsBloom)
      hashed = executed.length
      if (made?.count !== hashed)
        made = {
          count: hashed,
          gasUsed,
          blobGasUsed,
          logsBloom: bloom.bits.slice(),
          receiptsRoot: receipts.root(),
          transactionsRoot: transactions.root(),
        }
      const { count: _, ...sums } = made
      return sums
    },
    truncate(count) {
      transactions.truncate(count)
      receipts.truncate(count)
      hashed = Math.min(hashed, count)
      if (bloom.of > count) bloom = { of: 0, bits: new Uint8Array(256) }
      made = undefined
    },
  }
}
