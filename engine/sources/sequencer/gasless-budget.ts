/**
 * Gas that gasless transactions may use of a block. X Layer's builder has this bound
 * (`--builder.gasless-block-gas-limit`), the rules of the chain do not: no follower checks it.
 */

import type { BlockExecution, ExecutedTransaction } from '../../execution/transaction/types.ts'
import { feesOf } from '../../execution/transaction/validation.ts'
import { isSigned, type Transaction } from '../../primitives/transaction.ts'

/**
 * `waits`: this one and later ones are for the next block. `never`: it alone is above the bound.
 */
export type GaslessVerdict = 'fits' | 'waits' | 'never'

export class GaslessBudget {
  readonly #limit: bigint | undefined
  /** The block whose budget is spent. */
  #spentIn: BlockExecution | undefined
  #counted:
    | {
        readonly execution: BlockExecution
        readonly count: number
        readonly last: ExecutedTransaction | undefined
        readonly used: bigint
      }
    | undefined

  /** @param limit undefined: no bound */
  constructor(limit: bigint | undefined) {
    this.#limit = limit
  }

  /** Whether transactions without a fee wait for the next block. */
  isSpent(execution: BlockExecution): boolean {
    return this.#spentIn === execution
  }

  /** Judges the block's newest transaction, which is free. The caller reverts it unless it fits. */
  judge(execution: BlockExecution): GaslessVerdict {
    if (this.#limit === undefined || this.#usedIn(execution) <= this.#limit) return 'fits'
    if (gasOf(execution.executed.at(-1)!) > this.#limit) return 'never'
    this.#spentIn = execution
    return 'waits'
  }

  /**
   * Blocks grow and are cut at their end, so those before a known last transaction are known too.
   */
  #usedIn(execution: BlockExecution): bigint {
    const { executed } = execution
    const before = this.#counted
    const isOfBlock = before?.execution === execution && executed[before.count - 1] === before.last
    let used = isOfBlock ? before.used : 0n
    for (let at = isOfBlock ? before.count : 0; at < executed.length; at++)
      if (isFree(executed[at]!.transaction, execution)) used += gasOf(executed[at]!)
    this.#counted = { execution, count: executed.length, last: executed.at(-1), used }
    return used
  }
}

/** A signed transaction that offers no fee, on a chain that can let it pass. */
export const isFree = (
  transaction: Transaction,
  { rules }: Pick<BlockExecution, 'rules'>,
): boolean =>
  rules.gaslessContract !== undefined && isSigned(transaction) && feesOf(transaction).maxFee === 0n

const gasOf = ({ receipt }: ExecutedTransaction): bigint => receipt.gasUsed
