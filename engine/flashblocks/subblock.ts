/**
 * Subblocks in the form of OP's sequencers (ethereum-optimism/specs: protocol/subblocks.md):
 * flashblock JSON without hashes and roots, but with results.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex, quantity } from '../primitives/hex.ts'
import type { Receipt } from '../primitives/receipt.ts'
import { flashblockJson } from './json.ts'
import type { Flashblock } from './types.ts'

export type Outcomes = {
  /** Receipts by transaction hash. */
  readonly receipts: readonly { readonly hash: Bytes; readonly receipt: Receipt }[]
  /** Balance of each changed account after the flashblock. */
  readonly balances: readonly { readonly address: Bytes; readonly balance: bigint }[]
}
export const NO_OUTCOMES: Outcomes = { receipts: [], balances: [] }

/** Returns the flashblock without the fields that a subblock does not have. */
export const subblockOf = (flashblock: Flashblock): Flashblock => ({
  ...flashblock,
  targetIndex: 0,
  delta: {
    ...flashblock.delta,
    stateRoot: undefined,
    blockHash: undefined,
    withdrawalsRoot: undefined,
  },
})

export function subblockJson(flashblock: Flashblock, { receipts, balances }: Outcomes) {
  const { target_index: _, metadata, ...json } = flashblockJson(subblockOf(flashblock))
  return {
    ...json,
    metadata: {
      ...metadata,
      new_account_balances: Object.fromEntries(
        balances.map(({ address, balance }) => [bytesToHex(address), quantity(balance)]),
      ),
      receipts: Object.fromEntries(
        receipts.map(({ hash, receipt }) => [bytesToHex(hash), receiptJson(receipt)]),
      ),
    },
  }
}

/** Returns a receipt in op-alloy's form: the type is a plain field, and logs have no index. */
function receiptJson({ type, status, cumulativeGasUsed, logs, ...deposit }: Receipt) {
  const { depositNonce, depositReceiptVersion } = deposit
  return {
    type: quantity(type),
    status: quantity(status),
    cumulativeGasUsed: quantity(cumulativeGasUsed),
    logs: logs.map(({ address, topics, data }) => ({
      address: bytesToHex(address),
      topics: topics.map(bytesToHex),
      data: bytesToHex(data),
    })),
    ...(depositNonce === undefined ? {} : { depositNonce: quantity(depositNonce) }),
    ...(depositReceiptVersion === undefined
      ? {}
      : { depositReceiptVersion: quantity(depositReceiptVersion) }),
  }
}
