/**
 * Transactions that will probably be in the next flashblock, as the node's own txpool has accepted them: the writer executes them while it
 * has nothing else to do. A flashblock that begins with them, in this order, is executed when it arrives; where it differs, what was
 * executed ahead is undone, and the flashblock decides.
 */
import type { AheadExecution } from '../../execution/block/ahead.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import type { SignedEnvelope, Transaction } from '../../primitives/transaction.ts'
import {
  decodeTransaction,
  type SenderOf,
  TransactionError,
  transactionHash,
} from '../../primitives/transaction-codec.ts'
import { MissingError, type MissingKey, ViewError } from '../../state/reader.ts'

export interface Expectations {
  /** Beyond the limit, and what does not decode, is not remembered. */
  add(envelope: SignedEnvelope): void
  /** Of one that was added. */
  readonly senderOf: SenderOf
  /** Whether `run` has something to execute. */
  canRun(execution: AheadExecution): boolean
  /** Executes one. Gives what it misses, where it does: it is not expected any more then. */
  run(execution: AheadExecution): Promise<readonly MissingKey[] | undefined>
  /** Takes the first transactions of a flashblock as far as they were executed ahead; gives their number. */
  take(execution: AheadExecution, transactions: readonly Bytes[]): number
  /** A flashblock of the transactions with these hashes was executed. */
  settle(hashes: readonly Bytes[]): void
}

export const MAX_EXPECTED = 64
/** Senders that are remembered, of transactions that are in no flashblock yet: the oldest make room. */
const MAX_SENDERS = 4_096
/** What was not in so many flashblocks is not expected any more. */
export const MAX_PASSED = 2
/** Flashblocks for which nothing is executed ahead: doubled with each wrong guess up to this. */
const MAX_PAUSE = 64
/** One that takes longer is executed when its flashblock comes: until then that flashblock would wait for it. */
const AHEAD_MS = 5

/** `now`: monotonic milliseconds. */
export function createExpectations(now: () => number): Expectations {
  /** By hash, in the order of acceptance. `passed`: flashblocks that came without it. */
  const expected = new Map<string, { readonly transaction: Transaction; passed: number }>()
  const senders = new Map<string, Bytes>()
  let pause = 0
  let lastPause = 0

  function remember(hash: string, from: Bytes): void {
    senders.set(hash, from)
    if (senders.size > MAX_SENDERS) senders.delete(senders.keys().next().value!)
  }

  return {
    senderOf: (hash) => senders.get(bytesToHex(hash)),
    add({ raw, from }) {
      if (from !== undefined) remember(bytesToHex(transactionHash(raw)), from)
      if (expected.size >= MAX_EXPECTED) return
      try {
        const transaction = decodeTransaction(raw, from)
        expected.set(bytesToHex(transaction.hash), { transaction, passed: 0 })
      } catch (error) {
        if (!(error instanceof TransactionError)) throw error
      }
    },
    canRun: ({ ahead }) => pause === 0 && ahead < expected.size,
    async run(execution) {
      const [hash, next] = [...expected][execution.ahead] ?? []
      if (hash === undefined || next === undefined) return undefined
      const until = now() + AHEAD_MS
      const limits = { isExpired: () => now() >= until }
      try {
        if (!(await execution.tryAhead(next.transaction, limits))) expected.delete(hash)
      } catch (error) {
        if (error instanceof MissingError) {
          expected.delete(hash)
          return error.missing
        }
        if (!(error instanceof ViewError)) throw error
        // The flashblock will find the same, and what has to be done about it.
        expected.clear()
      }
      return undefined
    },
    take(execution, transactions) {
      const { ahead } = execution
      let taken = 0
      while (taken < transactions.length && execution.take(transactions[taken]!)) taken++
      if (ahead > 0 && transactions.length > 0) {
        lastPause = taken > 0 ? 0 : Math.min(MAX_PAUSE, Math.max(1, 2 * lastPause))
        pause = lastPause
      }
      return taken
    },
    settle(hashes) {
      if (pause > 0) pause--
      for (const hash of hashes.map(bytesToHex)) {
        expected.delete(hash)
        senders.delete(hash)
      }
      for (const [hash, one] of expected) if (++one.passed >= MAX_PASSED) expected.delete(hash)
    },
  }
}
