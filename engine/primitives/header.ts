/** Block headers of every fork. */
import type { Bytes } from './bytes.ts'

export type Header = {
  readonly parentHash: Bytes
  readonly ommersHash: Bytes
  readonly coinbase: Bytes
  readonly stateRoot: Bytes
  readonly transactionsRoot: Bytes
  readonly receiptsRoot: Bytes
  readonly logsBloom: Bytes
  readonly difficulty: bigint
  readonly number: bigint
  readonly gasLimit: bigint
  readonly gasUsed: bigint
  /** Seconds. */
  readonly timestamp: bigint
  readonly extraData: Bytes
  readonly mixHash: Bytes
  /** 8 bytes. */
  readonly nonce: Bytes
  readonly baseFeePerGas?: bigint
  readonly withdrawalsRoot?: Bytes
  readonly blobGasUsed?: bigint
  readonly excessBlobGas?: bigint
  readonly parentBeaconBlockRoot?: Bytes
  readonly requestsHash?: Bytes
  /** Hash of what the block reads and writes (EIP-7928, Amsterdam). */
  readonly blockAccessListHash?: Bytes
  /** Slot of the consensus layer (EIP-7843, Amsterdam). */
  readonly slotNumber?: bigint
}
