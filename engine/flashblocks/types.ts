/**
 * Decoded messages of the raw feed (rollup-boost: specs/flashblocks.md, FlashblocksPayloadV1).
 * A subblock (ethereum-optimism/specs: protocol/subblocks.md) is a flashblock without roots and
 * hash.
 */
import type { Bytes } from '../primitives/bytes.ts'

export type FlashblockBase = {
  readonly parentBeaconBlockRoot: Bytes
  readonly parentHash: Bytes
  readonly feeRecipient: Bytes
  readonly prevRandao: Bytes
  readonly blockNumber: bigint
  readonly gasLimit: bigint
  /** Timestamp in seconds. */
  readonly timestamp: bigint
  readonly extraData: Bytes
  readonly baseFeePerGas: bigint
}
export type FlashblockDelta = {
  /**
   * undefined for 32 zero bytes on the wire; the producer leaves the root or hash to its readers.
   */
  readonly stateRoot: Bytes | undefined
  readonly receiptsRoot: Bytes
  readonly logsBloom: Bytes
  readonly gasUsed: bigint
  readonly blockHash: Bytes | undefined
  /** Transactions of this flashblock only. */
  readonly transactions: readonly Bytes[]
  readonly withdrawalsRoot: Bytes | undefined
  readonly blobGasUsed: bigint | undefined
  /**
   * Current envelope of the block's post-exec transaction (Lagoon). Each flashblock has the whole
   * envelope.
   */
  readonly postExec?: Bytes | undefined
}
export type Flashblock = {
  readonly type: 'flashblock'
  /** 8 bytes as 0x and 16 hex digits. */
  readonly payloadId: string
  readonly index: number
  /** 0: unknown. */
  readonly targetIndex: number
  readonly base: FlashblockBase | undefined
  readonly delta: FlashblockDelta
  readonly blockNumber: bigint | undefined
}
export type FlashblockEnd = { readonly type: 'end'; readonly payloadId: string }
export type FeedMessage = Flashblock | FlashblockEnd

/** Identifies a message of a feed: a flashblock, or the End of its payload. */
export type FeedMessageId = {
  readonly number: number
  /** undefined: the End. */
  readonly index: number | undefined
  readonly payloadId: string
}
