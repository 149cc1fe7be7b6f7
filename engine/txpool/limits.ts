/** All limits of the txpool. */

export type TxpoolLimits = {
  /** Bytes of one raw transaction; for a blob transaction, without the sidecar. */
  readonly transactionBytes: number
  /**
   * Bytes of an envelope that the txpool itself hashes and reads. A longer one comes with its
   * digest.
   */
  readonly ownDigestBytes: number
  /** Bytes of a blob transaction with its sidecar. */
  readonly blobTransactionBytes: number
  /** Transactions of one sender that are not in a block yet. */
  readonly perSender: number
  /** Transactions not in a block yet, of one sender of blob transactions. */
  readonly blobsPerSender: number
  /** Transactions of one sender that may wait behind a missing nonce. */
  readonly queuedPerSender: number
  /** Transactions of all senders that are not in a block yet. */
  readonly total: number
  /** Raw bytes of all transactions that are not in a block yet. */
  readonly totalBytes: number
  /** Minimum rise of both fee fields for a replacement, in percent. */
  readonly priceBumpPercent: number
  /** Minimum rise of all three fee fields for a replacement of a blob transaction, in percent. */
  readonly blobPriceBumpPercent: number
  /** Maximum gas limit × fee cap in wei; 0n: no cap. */
  readonly feeCap: bigint
  readonly minimumTip: bigint
  /** Milliseconds in the txpool without a block. */
  readonly expiryMs: number
  /** Milliseconds after which a selected transaction counts as lost. */
  readonly selectedMs: number
  /** Senders that are checked, with each canonical block, for a nonce that others have raised. */
  readonly gapSenders: number
  /** Number of remembered refusals by the sequencer, and their lifetime in milliseconds. */
  readonly refused: number
  readonly refusedMs: number
  /** Number of remembered departures without a block. */
  readonly departed: number
  /**
   * Number of remembered transactions that a development chain has dropped. They do not return with
   * a block that is taken back.
   */
  readonly unwanted: number
  /** Blocks below the canonical head whose transactions are retained, for a reorg. */
  readonly retentionBlocks: number
  /** Raw bytes of retained transactions in blocks at or below the canonical head. */
  readonly includedBytes: number
  /** Journal entries beyond the live ones before a rewrite. */
  readonly journalSlack: number
}

export const TXPOOL_LIMITS: TxpoolLimits = {
  transactionBytes: 131_072,
  ownDigestBytes: 65_536,
  blobTransactionBytes: 1_048_576,
  perSender: 1_024,
  blobsPerSender: 16,
  queuedPerSender: 64,
  total: 20_000,
  totalBytes: 128 * 1024 * 1024,
  priceBumpPercent: 10,
  blobPriceBumpPercent: 100,
  feeCap: 10n ** 18n,
  minimumTip: 0n,
  expiryMs: 3 * 60 * 60 * 1000,
  selectedMs: 10_000,
  gapSenders: 1_000,
  refused: 1_000,
  refusedMs: 10 * 60_000,
  departed: 4_096,
  unwanted: 10_000,
  retentionBlocks: 16,
  includedBytes: 64 * 1024 * 1024,
  journalSlack: 10_000,
}

/**
 * Returns the lowest fee that replaces `fee`, rounded down as in go-ethereum. The new fee must also
 * be above `fee`.
 */
export const bumpedFee = (fee: bigint, percent: number): bigint =>
  (fee * BigInt(100 + percent)) / 100n
