/** A block execution that may run ahead of what is known to be in the block. */
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

/** To everybody who asks, the block has only what was executed or taken; asking for sums or changes, and ending it, undoes what is ahead of that. */
export interface AheadExecution extends BlockExecution {
  /** Transactions executed ahead. */
  readonly ahead: number
  /**
   * Executes what may come next, after what is ahead already. False: it does not execute there, or not within the limits; nothing is
   * changed. @throws {ViewError} {MissingError}
   */
  tryAhead(transaction: Transaction, limits: Limits): Promise<boolean>
  /** The next transaction is `raw`: gives it when it was executed ahead, else undoes what is ahead. */
  take(raw: Bytes): ExecutedTransaction | undefined
}

export function allowAhead(block: BlockExecution): AheadExecution {
  /** Before each transaction that is ahead. */
  let marks: BlockCheckpoint[] = []
  const undo = () => {
    if (marks[0] !== undefined) block.revert(marks[0])
    marks = []
    return block
  }
  return {
    get attributes() {
      return block.attributes
    },
    env: block.env,
    rules: block.rules,
    begin: () => block.begin(),
    get executed() {
      return marks[0] === undefined
        ? block.executed
        : block.executed.slice(0, marks[0].transactions)
    },
    get gasUsed() {
      return marks[0] === undefined ? block.gasUsed : marks[0].gasUsed
    },
    get logCount() {
      return marks[0] === undefined ? block.logCount : marks[0].logCount
    },
    get ahead() {
      return marks.length
    },
    checkpoint: () => marks[0] ?? block.checkpoint(),
    execute: (transaction, limits) => undo().execute(transaction, limits),
    refund: (postExec) => isSame(block.attributes.postExec, postExec) || undo().refund(postExec),
    finish: (tail) => undo().finish(tail),
    sums: () => undo().sums(),
    revert: (to) => undo().revert(to),
    diff: (since) => undo().diff(since),
    close: () => block.close(),
    async tryAhead(transaction, limits) {
      const mark = block.checkpoint()
      const done = await block.execute(transaction, limits)
      if (done.status === 'executed') marks.push(mark)
      return done.status === 'executed'
    },
    take(raw) {
      const next = marks[0] && block.executed[marks[0].transactions]
      if (next !== undefined && equalBytes(next.transaction.raw, raw)) {
        marks.shift()
        return next
      }
      undo()
      return undefined
    },
  }
}

const isSame = (a: BlockAttributes['postExec'], b: BlockAttributes['postExec']): boolean =>
  a === undefined || b === undefined ? a === b : equalBytes(a.raw, b.raw)
