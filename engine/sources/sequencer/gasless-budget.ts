/**
 * Gas limit of gasless transactions in a block. X Layer's builder has this limit
 * (`--builder.gasless-block-gas-limit`). The chain's rules do not have the limit, so followers do
 * not check it.
 */

import type { BlockExecution, ExecutedTransaction } from '../../execution/transaction/types.ts'
import { feesOf } from '../../execution/transaction/validation.ts'
import { isSigned, type Transaction } from '../../primitives/transaction.ts'

/**
 * `waits`: this transaction and later gasless ones wait for the next block. `never`: the
 * transaction alone exceeds the limit.
 */
export type GaslessVerdict = 'fits' | 'waits' | 'never'

export class GaslessBudget {
  readonly #limit: bigint | undefined
  #spentIn: BlockExecution | undefined
  #counted:
    | {
        readonly execution: BlockExecution
        readonly count: number
        readonly last: ExecutedTransaction | undefined
        readonly used: bigint
      }
    | undefined

  /** @param limit undefined: no limit */
  constructor(limit: bigint | undefined) {
    this.#limit = limit
  }

  /** Whether gasless transactions wait for the next block. */
  isSpent(execution: BlockExecution): boolean {
    return this.#spentIn === execution
  }

  /**
   * Judges the block's newest transaction, which is gasless. The caller reverts it unless it fits.
   */
  judge(execution: BlockExecution): GaslessVerdict {
    if (this.#limit === undefined || this.#usedIn(execution) <= this.#limit) return 'fits'
    if (gasOf(execution.executed.at(-1)!) > this.#limit) return 'never'
    this.#spentIn = execution
    return 'waits'
  }

  /**
   * A block grows and shrinks at its end only. If the last counted transaction is unchanged, so are
   * all before it.
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

/** Whether a signed transaction offers no fee, on a chain that can allow it. */
export const isFree = (
  transaction: Transaction,
  { rules }: Pick<BlockExecution, 'rules'>,
): boolean =>
  rules.gaslessContract !== undefined && isSigned(transaction) && feesOf(transaction).maxFee === 0n

const gasOf = ({ receipt }: ExecutedTransaction): bigint => receipt.gasUsed
