/** Block attributes from a flashblock payload's base and from the parent. */
import { isDepositsOnly } from '../chainspec/rules.ts'
import type { ChainSpec } from '../chainspec/types.ts'
import type { BlockAttributes } from '../execution/transaction/types.ts'
import type { FlashblockBase } from '../flashblocks/types.ts'
import type { Header } from '../primitives/header.ts'

/** Returns the attributes of a base; the inverse of what index 0 sends. */
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

/** Adds whether only deposits are allowed, as in the first block of some forks. */
export const attributesAfter = (
  chain: Pick<ChainSpec, 'rulesAt'>,
  parent: Pick<Header, 'number' | 'timestamp'>,
  attributes: BlockAttributes,
): BlockAttributes => ({
  ...attributes,
  isDepositsOnly: isDepositsOnly(chain, parent, attributes),
})
