/**
 * Subblocks as OP's sequencers write them (ethereum-optimism/specs: protocol/subblocks.md): the JSON of flashblocks without hashes and roots,
 * with what the transactions did.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex, quantity } from '../primitives/hex.ts'
import type { Receipt } from '../primitives/receipt.ts'
import { flashblockJson } from './json.ts'
import type { Flashblock } from './types.ts'

/** The results of one flashblock's transactions. */
export type Outcomes = {
  /** By the hash of the transaction. */
  readonly receipts: readonly { readonly hash: Bytes; readonly receipt: Receipt }[]
  /** After it, of each account that it changed. */
  readonly balances: readonly { readonly address: Bytes; readonly balance: bigint }[]
}
export const NO_OUTCOMES: Outcomes = { receipts: [], balances: [] }

/** The flashblock without what a subblock does not state. */
export const subblockOf = (flashblock: Flashblock): Flashblock => ({
  ...flashblock,
  targetIndex: 0,
  delta: {
    ...flashblock.delta,
    ...{ stateRoot: undefined, blockHash: undefined, withdrawalsRoot: undefined },
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

/** A receipt in op-alloy's form: its type stands beside the other fields, logs have no index. */
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
