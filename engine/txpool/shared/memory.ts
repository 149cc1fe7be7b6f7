/** What other threads read of the txpool without a message, as memory: which hashes are expected, and nonces by sender. */
import { createRows, type RowsMemory } from './rows.ts'

export type WaitingLimits = {
  /**
   * Transactions that the txpool keeps, waiting and in blocks that may be taken back. Of those in settled blocks `includedBytes` are kept,
   * 671,000 of the shortest, and 20,000 wait (`TXPOOL_LIMITS`): the rest is for blocks that are not settled, which have no bound of the
   * txpool's. What has no room is expected all the same, with any other hash, and does not count for its sender's nonce.
   */
  readonly transactions: number
  /** Of the tables of hashes and of senders: a power of two. */
  readonly buckets: number
}
/** 80 MiB of addresses; of the machine's memory 8 MiB and what was in use at once. */
export const WAITING_LIMITS: WaitingLimits = { transactions: 1_048_576, buckets: 1_048_576 }

/** Plain data: crosses a thread. */
export type WaitingMemory = {
  readonly expected: RowsMemory
  readonly senders: RowsMemory
  readonly runs: RunsMemory
  /** One word: how many are expected that have no row. */
  readonly unlisted: SharedArrayBuffer
}
/** Runs of consecutive nonces: first and the one after the last of each; the number of the next run of its list. */
export type RunsMemory = {
  readonly bounds: SharedArrayBuffer
  readonly next: SharedArrayBuffer
  readonly most: number
}

/**
 * Bytes of a hash that are compared. Two that are the same in them take 2⁶⁴ tries to make, and are then its maker's own; one that is the
 * same as another's takes 2¹²⁸.
 */
const HASH_WORDS = 4
const ADDRESS_WORDS = 5
/** Of a sender: the first run of what is in blocks, and of what is not. */
export const [INCLUDED, OPEN] = [0, 1] as const
const SENDER_DATA = 2

export function createWaitingMemory({ transactions, buckets } = WAITING_LIMITS): WaitingMemory {
  const rows = { most: transactions, buckets }
  return {
    expected: createRows({ ...rows, keyWords: HASH_WORDS, dataWords: 0 }),
    senders: createRows({ ...rows, keyWords: ADDRESS_WORDS, dataWords: SENDER_DATA }),
    // Run 0 is none.
    runs: {
      bounds: new SharedArrayBuffer(16 * (transactions + 1)),
      next: new SharedArrayBuffer(4 * (transactions + 2)),
      most: transactions,
    },
    unlisted: new SharedArrayBuffer(4),
  }
}
