/**
 * Shared memory of the txpool that other threads read without a message: expected hashes, and
 * nonces by sender.
 */
import { createRows, type RowsMemory } from './rows.ts'

export type WaitingLimits = {
  /**
   * Maximum number of transactions, waiting or in blocks that may be taken back.
   * `TXPOOL_LIMITS` allows 20,000 waiting ones and 671,000 of the shortest in settled blocks. The
   * rest is for unsettled blocks, which have no limit.
   * While a transaction has no row, every hash is expected. That transaction does not count for its
   * sender's nonce.
   */
  readonly transactions: number
  /** Size of the tables of hashes and of senders: a power of two. */
  readonly buckets: number
}
/** These limits reserve 80 MiB of addresses. Resident are 8 MiB and the rows in use. */
export const WAITING_LIMITS: WaitingLimits = { transactions: 1_048_576, buckets: 1_048_576 }

/** Plain data that crosses threads. */
export type WaitingMemory = {
  readonly expected: RowsMemory
  readonly senders: RowsMemory
  readonly runs: RunsMemory
  /** One word: the number of expected transactions without a row. */
  readonly unlisted: SharedArrayBuffer
}
/**
 * Runs of consecutive nonces. `bounds` has the first nonce and the end of each run, `next` the
 * number of the list's next run.
 */
export type RunsMemory = {
  readonly bounds: SharedArrayBuffer
  readonly next: SharedArrayBuffer
  readonly max: number
}

/**
 * Number of words of a hash that are compared.
 * A collision takes 2⁶⁴ tries and concerns only hashes of its maker. A collision with another's
 * hash takes 2¹²⁸.
 */
const HASH_WORDS = 4
const ADDRESS_WORDS = 5
/** Data words of a sender: first run of the nonces in blocks, and first run of the others. */
export const [INCLUDED, OPEN] = [0, 1] as const
const SENDER_DATA = 2

export function createWaitingMemory({ transactions, buckets } = WAITING_LIMITS): WaitingMemory {
  const rows = { max: transactions, buckets }
  return {
    expected: createRows({ ...rows, keyWords: HASH_WORDS, dataWords: 0 }),
    senders: createRows({ ...rows, keyWords: ADDRESS_WORDS, dataWords: SENDER_DATA }),
    // Run 0 means none.
    runs: {
      bounds: new SharedArrayBuffer(16 * (transactions + 1)),
      next: new SharedArrayBuffer(4 * (transactions + 2)),
      max: transactions,
    },
    unlisted: new SharedArrayBuffer(4),
  }
}
