/** Attributes of a block: from a flashblock payload's base, and what follows from the parent. */
import { isDepositsOnly } from '../chainspec/rules.ts'
import type { ChainSpec } from '../chainspec/types.ts'
import type { BlockAttributes } from '../execution/transaction/types.ts'
import type { FlashblockBase } from '../flashblocks/types.ts'
import type { Header } from '../primitives/header.ts'

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

/** Adds to the attributes of a block whether it is the first one of a fork. */
export const attributesAfter = (
  chain: Pick<ChainSpec, 'rulesAt'>,
  parent: Pick<Header, 'number' | 'timestamp'>,
  attributes: BlockAttributes,
): BlockAttributes => ({
  ...attributes,
  isDepositsOnly: isDepositsOnly(chain, parent, attributes),
})
