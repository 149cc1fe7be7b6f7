/** State and block overrides of eth_call and eth_estimateGas on the wire. */
import { address, bytes, hash, uint64, uint256 } from '../../json/codecs.ts'
import {
  type Codec,
  record,
  refine,
  SchemaError,
  strictObject,
  type TypeOf,
} from '../../json/schema.ts'

const storage = record({ title: 'storage', key: hash, value: hash, max: 'overrideItems' })
const account = strictObject('OverrideAccount', {
  nonce: uint64,
  code: bytes,
  balance: uint256,
  state: storage,
  stateDiff: storage,
  movePrecompileToAddress: address,
})
const accounts = record({
  title: 'StateOverride',
  key: address,
  value: account,
  max: 'overrideItems',
})

/** Accounts to change before the call; accounts and slots together are bounded. */
export const stateOverride = refine(
  accounts,
  (value, { overrideItems }) => {
    const items = value.reduce(
      (sum, [, one]) => sum + 1 + (one.state?.length ?? 0) + (one.stateDiff?.length ?? 0),
      0,
    )
    if (items > overrideItems)
      throw new SchemaError(
        `state override has ${items} accounts and slots, at most ${overrideItems}`,
      )
    return value
  },
  (value) => value,
)
export type StateOverrideValue = TypeOf<typeof stateOverride>

/** Any JSON. */
export const anything: Codec<unknown> = {
  decode: (wire) => wire,
  encode: (value) => value,
  schema: {},
}

const blockHashes = record({ title: 'blockHash', key: uint64, value: hash, max: 256 })
/** Fields of the block that the call sees otherwise; both spellings that clients use. */
export const blockOverrideFields = {
  number: uint256,
  difficulty: uint256,
  time: uint64,
  gasLimit: uint64,
  feeRecipient: address,
  coinbase: address,
  prevRandao: hash,
  random: hash,
  baseFeePerGas: uint256,
  baseFee: uint256,
  blobBaseFee: uint256,
} as const
/** Of one call: it follows no block, so that the root and the withdrawals that begin and end one are refused where they are read. */
export const blockOverride = strictObject('BlockOverrides', {
  ...blockOverrideFields,
  blockHash: blockHashes,
  beaconRoot: anything,
  withdrawals: anything,
})
export type BlockOverrideValue = TypeOf<typeof blockOverride>
