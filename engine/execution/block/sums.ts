/** What a header says of a block's transactions and receipts, as the block grows. */
import type { Bytes } from '../../primitives/bytes.ts'
import { orderedTrie } from '../../primitives/ordered-root.ts'
import { encodeReceipt, orBloom } from '../../primitives/receipt-codec.ts'
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
  let made: (BlockSums & { readonly count: number }) | undefined
  return {
    of(executed, { gasUsed, blobGasUsed }) {
      for (const { transaction, receipt } of executed.slice(hashed)) {
        transactions.append(transaction.raw)
        receipts.append(encodeReceipt(receipt))
      }
      hashed = executed.length
      if (made?.count !== hashed)
        made = {
          ...{ count: hashed, gasUsed, blobGasUsed },
          logsBloom: executed.reduce<Bytes>(
            (bloom, { receipt }) => orBloom(bloom, receipt.logsBloom),
            new Uint8Array(256),
          ),
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
      made = undefined
    },
  }
}
