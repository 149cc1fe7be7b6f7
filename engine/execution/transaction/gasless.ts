/**
 * Gasless transactions of X Layer. A contract decides who pays nothing (interface:
 * engine/contracts/GaslessWhitelist.sol).
 */
import type { Rules } from '../../chainspec/types.ts'
import type { Outcome, Session } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { EMPTY_HASH } from '../../primitives/keccak.ts'
import { isSigned, type Transaction } from '../../primitives/transaction.ts'
import { bigintToBytes, bytesToBigint, concatBytes, equalBytes } from '../../primitives/words.ts'
import { andThen, type MaybePromise } from './maybe-promise.ts'
import { endedOf, query } from './system-call.ts'
import { feesOf } from './validation.ts'

/**
 * Calls the contract and discards the call's changes. Transactions with a fee, unsigned ones and
 * creations are never gasless.
 */
export function isGasless(
  session: Session,
  transaction: Transaction,
  rules: Rules,
): MaybePromise<boolean> {
  const contract = rules.gaslessContract
  if (contract === undefined || !isSigned(transaction) || transaction.to === undefined) return false
  if (feesOf(transaction).maxFee !== 0n) return false
  if (equalBytes(session.account(contract).codeHash, EMPTY_HASH)) return false
  const call = query(session, contract, allowanceCall(transaction.to, transaction.input))
  return andThen(call, (outcome) => allows(outcome, transaction.gasLimit))
}

/** getGaslessAllowance(address to, bytes data) */
const SELECTOR = Uint8Array.of(0xba, 0xd1, 0x2e, 0xbe)

/** Calldata that queries the allowance for a call of `to` with `data`. */
export function allowanceCall(to: Bytes, data: Bytes): Bytes {
  const padding = new Uint8Array(-data.length & 31)
  const word = (value: number) => bigintToBytes(BigInt(value), 32)
  return concatBytes(SELECTOR, new Uint8Array(12), to, word(64), word(data.length), data, padding)
}

function allows(probed: Outcome, gasLimit: bigint): boolean {
  const outcome = endedOf(probed)
  return outcome.status === 'success' && isAllowance(outcome.output, gasLimit)
}

/** Decodes (bool, uint64): the first must be exactly 1, the second at least the gas limit. */
export function isAllowance(output: Bytes, gasLimit: bigint): boolean {
  if (output.length < 64) return false
  const isAllowed = bytesToBigint(output.subarray(0, 32)) === 1n
  const max = bytesToBigint(output.subarray(32, 64))
  return isAllowed && max < 2n ** 64n && gasLimit <= max
}
