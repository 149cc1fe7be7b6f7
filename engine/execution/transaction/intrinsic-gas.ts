/** Gas that a transaction costs before its first opcode. */

import type { Rules } from '../../chainspec/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { AccessList } from '../../primitives/transaction.ts'

/** The fields of a transaction that determine its intrinsic gas. */
export type IntrinsicInput = {
  readonly isCreation: boolean
  readonly input: Bytes
  readonly accessList: AccessList
  readonly authorizations: number
}

/** Counts of an IntrinsicInput, independent of the rules. */
export type IntrinsicCounts = {
  readonly isCreation: boolean
  /** Zero and nonzero bytes of the input. */
  readonly zeros: number
  readonly nonZeros: number
  /** Addresses and slots of the access list. */
  readonly addresses: number
  readonly slots: number
  readonly authorizations: number
}
export type IntrinsicGas = { readonly gas: bigint; readonly floor: bigint }

export function intrinsicCounts(from: IntrinsicInput): IntrinsicCounts {
  const { isCreation, input, accessList, authorizations } = from
  const zeros = countZeros(input)
  let slots = 0
  for (const { storageKeys } of accessList) slots += storageKeys.length
  const addresses = accessList.length
  return { isCreation, zeros, nonZeros: input.length - zeros, addresses, slots, authorizations }
}

export const intrinsicGas = (input: IntrinsicInput, rules: Rules): IntrinsicGas =>
  gasOfCounts(intrinsicCounts(input), rules)

/** `floor` is the minimum gas to pay (EIP-7623), 0 before Prague. */
export function gasOfCounts(counts: IntrinsicCounts, rules: Rules): IntrinsicGas {
  const { isCreation, zeros, nonZeros, addresses, slots, authorizations } = counts
  const { creation, nonZeroByte, initCodeWord, floorOfToken } = rules.gas
  let gas = TRANSACTION + zeros * 4 + nonZeros * nonZeroByte
  if (isCreation) gas += creation + Math.ceil((zeros + nonZeros) / 32) * initCodeWord
  gas += addresses * ACCESS_ADDRESS + slots * ACCESS_SLOT
  gas += authorizations * AUTHORIZATION_GAS
  const floor = floorOfToken === 0 ? 0 : TRANSACTION + (zeros + nonZeros * 4) * floorOfToken
  return { gas: BigInt(gas), floor: BigInt(floor) }
}

const TRANSACTION = 21_000
const ACCESS_ADDRESS = 2_400
const ACCESS_SLOT = 1_900
/** PER_EMPTY_ACCOUNT_COST of EIP-7702; the excess is refunded. */
export const AUTHORIZATION_GAS = 25_000

function countZeros(bytes: Bytes): number {
  let zeros = 0
  for (let at = 0; at < bytes.length; at++) if (bytes[at] === 0) zeros++
  return zeros
}
