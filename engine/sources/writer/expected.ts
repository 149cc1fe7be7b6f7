/**
 * Transactions from the node's txpool that are likely in the next flashblock. The writer executes
 * them speculatively while it is idle. A flashblock that starts with them in this order saves their
 * execution. Otherwise the speculative execution is undone.
 */
import type { SpeculativeExecution } from '../../execution/block/speculative.ts'
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
  /**
   * Notes a transaction. Transactions beyond the limit, and those that cannot be decoded, are
   * ignored.
   */
  add(envelope: SignedEnvelope): void
  /** Returns the sender of an added transaction. */
  readonly senderOf: SenderOf
  canRun(execution: SpeculativeExecution): boolean
  /**
   * Executes one transaction. Returns the keys of missing state, and then drops the transaction.
   */
  run(execution: SpeculativeExecution): Promise<readonly MissingKey[] | undefined>
  /**
   * Takes the first transactions of a flashblock that were executed speculatively, and returns
   * their number.
   */
  take(execution: SpeculativeExecution, transactions: readonly Bytes[]): number
  /** Takes the hashes of an executed flashblock's transactions. */
  settle(hashes: readonly Bytes[]): void
}

export const MAX_EXPECTED = 64
/**
 * Limit of remembered senders whose transactions are in no flashblock yet; the oldest are dropped.
 */
const MAX_SENDERS = 4_096
/** Flashblocks after which a transaction that is in none of them is dropped. */
export const MAX_PASSED = 2
/**
 * Limit of flashblocks without speculative execution; each wrong guess doubles the pause up to
 * this.
 */
const MAX_PAUSE = 64
/**
 * Milliseconds for one speculative execution. A longer one would delay the next flashblock, so it
 * is stopped.
 */
const SPECULATION_MS = 5

/** @param now returns monotonic milliseconds */
export function createExpectations(now: () => number): Expectations {
  /**
   * Transactions by hash, in the order of acceptance. `passed`: flashblocks that came without the
   * transaction.
   */
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
    canRun: ({ speculated }) => pause === 0 && speculated < expected.size,
    async run(execution) {
      const [hash, next] = [...expected][execution.speculated] ?? []
      if (hash === undefined || next === undefined) return undefined
      const until = now() + SPECULATION_MS
      const limits = { isExpired: () => now() >= until }
      try {
        if (!(await execution.trySpeculatively(next.transaction, limits))) expected.delete(hash)
      } catch (error) {
        if (error instanceof MissingError) {
          expected.delete(hash)
          return error.missing
        }
        if (!(error instanceof ViewError)) throw error
        // The flashblock will meet the same error and handle it.
        expected.clear()
      }
      return undefined
    },
    take(execution, transactions) {
      const { speculated } = execution
      let taken = 0
      while (taken < transactions.length && execution.take(transactions[taken]!)) taken++
      if (speculated > 0 && transactions.length > 0) {
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
