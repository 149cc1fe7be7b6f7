/**
 * The JSON object of a flashblock on the wire (rollup-boost: specs/flashblocks.md,
 * FlashblocksPayloadV1).
 */
import { bytesToHex, quantity } from '../primitives/hex.ts'
import { ZERO_32 } from '../primitives/words.ts'
import type { Flashblock } from './types.ts'

/**
 * Returns the object with keys in the order of X Layer's builder. Unknown roots and hashes are
 * zeros; other undefined fields are omitted.
 */
export function flashblockJson(flashblock: Flashblock) {
  const { base, delta, blockNumber } = flashblock
  return {
    payload_id: flashblock.payloadId,
    index: flashblock.index,
    target_index: flashblock.targetIndex,
    base: base && {
      parent_beacon_block_root: bytesToHex(base.parentBeaconBlockRoot),
      parent_hash: bytesToHex(base.parentHash),
      fee_recipient: bytesToHex(base.feeRecipient),
      prev_randao: bytesToHex(base.prevRandao),
      block_number: quantity(base.blockNumber),
      gas_limit: quantity(base.gasLimit),
      timestamp: quantity(base.timestamp),
      extra_data: bytesToHex(base.extraData),
      base_fee_per_gas: quantity(base.baseFeePerGas),
    },
    diff: {
      state_root: bytesToHex(delta.stateRoot ?? ZERO_32),
      receipts_root: bytesToHex(delta.receiptsRoot),
      logs_bloom: bytesToHex(delta.logsBloom),
      gas_used: quantity(delta.gasUsed),
      block_hash: bytesToHex(delta.blockHash ?? ZERO_32),
      transactions: delta.transactions.map(bytesToHex),
      withdrawals: [],
      withdrawals_root: bytesToHex(delta.withdrawalsRoot ?? ZERO_32),
      blob_gas_used: delta.blobGasUsed === undefined ? undefined : quantity(delta.blobGasUsed),
      post_exec_tx: delta.postExec && bytesToHex(delta.postExec),
    },
    metadata: blockNumber === undefined ? undefined : { block_number: Number(blockNumber) },
  }
}
