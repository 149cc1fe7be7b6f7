/** A block execution that may execute transactions before they are known to be in the block. */
import type { Limits } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Transaction } from '../../primitives/transaction.ts'
import { equalBytes } from '../../primitives/words.ts'
import type {
  BlockAttributes,
  BlockCheckpoint,
  BlockExecution,
  ExecutedTransaction,
} from '../transaction/types.ts'

/**
 * Only transactions that were executed or taken are visible. Sums, changes and the block's end undo
 * speculative transactions first.
 */
export interface SpeculativeExecution extends BlockExecution {
  /** Number of transactions executed speculatively. */
  readonly speculated: number
  /**
   * Executes a transaction after the speculative ones.
   * @returns false if the transaction does not execute there or exceeds the limits; nothing is
   * changed
   * @throws {ViewError} {MissingError}
   */
  trySpeculatively(transaction: Transaction, limits: Limits): Promise<boolean>
  /**
   * Takes the next transaction `raw` if it was executed speculatively, or undoes the speculative
   * ones.
   */
  take(raw: Bytes): ExecutedTransaction | undefined
}

export function allowSpeculation(block: BlockExecution): SpeculativeExecution {
  /** Checkpoints before each speculative transaction. */
  let checkpoints: BlockCheckpoint[] = []
  const undo = () => {
    if (checkpoints[0] !== undefined) block.revert(checkpoints[0])
    checkpoints = []
    return block
  }
  return {
    get attributes() {
      return block.attributes
    },
    env: block.env,
    rules: block.rules,
    start: () => block.start(),
    get executed() {
      return checkpoints[0] === undefined
        ? block.executed
        : block.executed.slice(0, checkpoints[0].transactions)
    },
    get gasUsed() {
      return checkpoints[0] === undefined ? block.gasUsed : checkpoints[0].gasUsed
    },
    get logCount() {
      return checkpoints[0] === undefined ? block.logCount : checkpoints[0].logCount
    },
    get speculated() {
      return checkpoints.length
    },
    checkpoint: () => checkpoints[0] ?? block.checkpoint(),
    execute: (transaction, limits) => undo().execute(transaction, limits),
    refund: (postExec) => isSame(block.attributes.postExec, postExec) || undo().refund(postExec),
    finish: (tail) => undo().finish(tail),
    sums: () => undo().sums(),
    revert: (to) => undo().revert(to),
    diff: (since) => undo().diff(since),
    close: () => block.close(),
    async trySpeculatively(transaction, limits) {
      const mark = block.checkpoint()
      const done = await block.execute(transaction, limits)
      if (done.status === 'executed') checkpoints.push(mark)
      return done.status === 'executed'
    },
    take(raw) {
      const next = checkpoints[0] && block.executed[checkpoints[0].transactions]
      if (next !== undefined && equalBytes(next.transaction.raw, raw)) {
        checkpoints.shift()
        return next
      }
      undo()
      return undefined
    },
  }
}

const isSame = (a: BlockAttributes['postExec'], b: BlockAttributes['postExec']): boolean =>
  a === undefined || b === undefined ? a === b : equalBytes(a.raw, b.raw)
