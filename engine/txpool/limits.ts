/** Every bound of the txpool in one place. */

export type TxpoolLimits = {
  /** Bytes of one raw transaction; of a blob transaction without its sidecar. */
  readonly transactionBytes: number
  /** Bytes of an envelope that the txpool hashes and walks itself: the digest of a longer one comes with it. */
  readonly ownDigestBytes: number
  /** Bytes of a blob transaction with its sidecar. */
  readonly blobTransactionBytes: number
  /** Transactions of one sender that are not in a block yet. */
  readonly perSender: number
  /** The same of one whose transactions carry blobs. */
  readonly blobsPerSender: number
  /** Of those, how many may wait behind a missing nonce. */
  readonly queuedPerSender: number
  /** Transactions of all senders that are not in a block yet. */
  readonly total: number
  /** Raw bytes of the same. */
  readonly totalBytes: number
  /** Least rise of both fee fields that replaces a transaction of the same nonce, in percent. */
  readonly priceBumpPercent: number
  /** The same of all three fee fields of a blob transaction. */
  readonly blobPriceBumpPercent: number
  /** Largest gas limit × fee cap in wei; 0n: no cap. */
  readonly feeCap: bigint
  /** Least priority fee in wei. */
  readonly minimumTip: bigint
  /** Milliseconds in the txpool without being included. */
  readonly expiryMs: number
  /** Milliseconds after which a transaction that was handed out is taken for lost. */
  readonly handedMs: number
  /** Senders that each canonical block looks at for a nonce that has risen without a transaction of theirs. */
  readonly gapSenders: number
  /** Transactions whose refusal by the sequencer is remembered, and for how many milliseconds. */
  readonly refused: number
  readonly refusedMs: number
  /** Transactions that left without a block, of which is remembered why. */
  readonly departed: number
  /** Transactions that a development chain has dropped and that do not come back with a block that is taken back. */
  readonly unwanted: number
  /** Blocks below the canonical head for which included transactions are kept, to come back after a reorg. */
  readonly keepBlocks: number
  /** Raw bytes of included transactions at or below the canonical head. */
  readonly includedBytes: number
  /** Journal entries beyond the live ones before the journal is written anew. */
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
  handedMs: 10_000,
  gapSenders: 1_000,
  refused: 1_000,
  refusedMs: 10 * 60_000,
  departed: 4_096,
  unwanted: 10_000,
  keepBlocks: 16,
  includedBytes: 64 * 1024 * 1024,
  journalSlack: 10_000,
}

/** Lowest fee that replaces `fee`: rounded down, as go-ethereum does. It must be above `fee` as well. */
export const bumpedFee = (fee: bigint, percent: number): bigint =>
  (fee * BigInt(100 + percent)) / 100n
