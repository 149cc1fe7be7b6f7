/** A flashblock payload's base as the attributes of its block. */
import type { BlockAttributes } from '../execution/transaction/types.ts'
import type { FlashblockBase } from '../flashblocks/types.ts'

/** The attributes that a base stands for; the inverse of what index 0 sends. */
export const attributesOf = (base: FlashblockBase): BlockAttributes => ({
  parentHash: base.parentHash,
  parentBeaconBlockRoot: base.parentBeaconBlockRoot,
  coinbase: base.feeRecipient,
  prevRandao: base.prevRandao,
  number: base.blockNumber,
  gasLimit: base.gasLimit,
  timestamp: base.timestamp,
  extraData: base.extraData,
  baseFee: base.baseFeePerGas,
})
