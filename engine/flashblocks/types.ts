/**
 * The raw feed's messages, decoded (rollup-boost: specs/flashblocks.md, FlashblocksPayloadV1). A subblock (ethereum-optimism/specs:
 * protocol/subblocks.md) is a flashblock whose producer states no root and no hash.
 */
import type { Bytes } from '../primitives/bytes.ts'

export type FlashblockBase = {
  readonly parentBeaconBlockRoot: Bytes
  readonly parentHash: Bytes
  readonly feeRecipient: Bytes
  readonly prevRandao: Bytes
  readonly blockNumber: bigint
  readonly gasLimit: bigint
  /** Seconds. */
  readonly timestamp: bigint
  readonly extraData: Bytes
  readonly baseFeePerGas: bigint
}
export type FlashblockDelta = {
  /** A root or hash that the producer leaves to its readers is 32 zero bytes on the wire, and undefined here. */
  readonly stateRoot: Bytes | undefined
  readonly receiptsRoot: Bytes
  readonly logsBloom: Bytes
  readonly gasUsed: bigint
  readonly blockHash: Bytes | undefined
  /** Of this flashblock only. */
  readonly transactions: readonly Bytes[]
  readonly withdrawalsRoot: Bytes | undefined
  readonly blobGasUsed: bigint | undefined
  /** The envelope of the block's post-exec transaction as it would be now (Lagoon); each flashblock states it anew. */
  readonly postExec?: Bytes | undefined
}
export type Flashblock = {
  readonly type: 'flashblock'
  /** 8 bytes as 0x + 16 hex digits. */
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

/** Which message of a feed: a flashblock, or the End of its payload. */
export type FeedPlace = {
  readonly number: number
  /** undefined: the End. */
  readonly index: number | undefined
  readonly payloadId: string
}
