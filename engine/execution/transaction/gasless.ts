/** Gasless transactions of X Layer: a contract of the chain (engine/contracts/GaslessWhitelist.sol has its interface) says who pays nothing. */
import type { Rules } from '../../chainspec/types.ts'
import type { Outcome, Session } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { EMPTY_HASH } from '../../primitives/keccak.ts'
import { isSigned, type Transaction } from '../../primitives/transaction.ts'
import { bigintToBytes, bytesToBigint, concatBytes, equalBytes } from '../../primitives/words.ts'
import { andThen, type Maybe } from './maybe.ts'
import { endedOf, look } from './system-call.ts'
import { feesOf } from './validation.ts'

/** Asks the contract, keeping nothing of the call. A transaction with a fee, an unsigned one or a creation never is. */
export function isGasless(
  session: Session,
  transaction: Transaction,
  rules: Rules,
): Maybe<boolean> {
  const contract = rules.gaslessContract
  if (contract === undefined || !isSigned(transaction) || transaction.to === undefined) return false
  if (feesOf(transaction).maxFee !== 0n) return false
  if (equalBytes(session.account(contract).codeHash, EMPTY_HASH)) return false
  const call = look(session, contract, allowanceCall(transaction.to, transaction.input))
  return andThen(call, (outcome) => allows(outcome, transaction.gasLimit))
}

/** getGaslessAllowance(address to, bytes data) */
const SELECTOR = Uint8Array.of(0xba, 0xd1, 0x2e, 0xbe)

/** Calldata that asks whether a call of `to` with `data` pays nothing. */
export function allowanceCall(to: Bytes, data: Bytes): Bytes {
  const padding = new Uint8Array(-data.length & 31)
  const word = (value: number) => bigintToBytes(BigInt(value), 32)
  return concatBytes(SELECTOR, new Uint8Array(12), to, word(64), word(data.length), data, padding)
}

function allows(looked: Outcome, gasLimit: bigint): boolean {
  const outcome = endedOf(looked)
  return outcome.status === 'success' && isAllowance(outcome.output, gasLimit)
}

/** (bool, uint64): exactly 1, and the gas limit within the number. */
export function isAllowance(output: Bytes, gasLimit: bigint): boolean {
  if (output.length < 64) return false
  const isAllowed = bytesToBigint(output.subarray(0, 32)) === 1n
  const most = bytesToBigint(output.subarray(32, 64))
  return isAllowed && most < 2n ** 64n && gasLimit <= most
}
