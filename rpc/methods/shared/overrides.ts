/** Codecs of the state and block overrides of eth_call and eth_estimateGas. */
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

/** Account overrides of a call, with a bound for the sum of accounts and slots. */
export const stateOverride = refine(
  accounts,
  (value, { overrideItems }) => {
    const items = value.reduce(
      (sum, [, one]) => sum + 1 + (one.state?.length ?? 0) + (one.stateDiff?.length ?? 0),
      0,
    )
    if (items > overrideItems)
      throw new SchemaError(
        `state override has ${items} accounts and slots, expected at most ${overrideItems}`,
      )
    return value
  },
  (value) => value,
)
export type StateOverrideValue = TypeOf<typeof stateOverride>

/** Accepts any JSON. */
export const anything: Codec<unknown> = {
  decode: (wire) => wire,
  encode: (value) => value,
  schema: {},
}

const blockHashes = record({ title: 'blockHash', key: uint64, value: hash, max: 256 })
/** Block fields that a call can override, in both spellings that clients use. */
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
/**
 * Overrides for a single call, which has no block start or end. So `beaconRoot` and `withdrawals`
 * decode here and are refused later.
 */
export const blockOverride = strictObject('BlockOverrides', {
  ...blockOverrideFields,
  blockHash: blockHashes,
  beaconRoot: anything,
  withdrawals: anything,
})
export type BlockOverrideValue = TypeOf<typeof blockOverride>
