/** What a header says of a block's transactions and receipts, as the block grows. */
import { orderedTrie } from '../../primitives/ordered-root.ts'
import { addBloom, encodeReceipt } from '../../primitives/receipt-codec.ts'
import type { BlockSums, ExecutedTransaction } from '../transaction/types.ts'

export interface Sums {
  /** `executed`: the block's from its first on; those that were summed before have not changed. */
  of(
    executed: readonly ExecutedTransaction[],
    gas: Pick<BlockSums, 'gasUsed' | 'blobGasUsed'>,
  ): BlockSums
  /** Forgets what comes after so many transactions. */
  truncate(transactions: number): void
}

/** Tries grow when sums are asked for: a flashblock's hash only what came with it, what is undone before is never hashed. */
export function createSums(): Sums {
  const [transactions, receipts] = [orderedTrie(), orderedTrie()]
  let hashed = 0
  /** Of the first so many: what is in it does not come out again. */
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
          ...{ count: hashed, gasUsed, blobGasUsed },
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
