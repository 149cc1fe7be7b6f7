/** Gas that a transaction costs before its first opcode. */

import { isAtLeast } from '../chainspec/evm-fork.ts'
import type { Rules } from '../chainspec/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { AccessList } from '../primitives/transaction.ts'

export type IntrinsicInput = {
  readonly isCreation: boolean
  readonly input: Bytes
  readonly accessList: AccessList
  readonly authorizations: number
}

/** `floor`: what is paid at least (EIP-7623), 0 before Prague. */
export function intrinsicGas(
  { isCreation, input, accessList, authorizations }: IntrinsicInput,
  rules: Rules,
): { readonly gas: bigint; readonly floor: bigint } {
  const zeros = countZeros(input)
  const nonZeros = input.length - zeros
  const perByte = isAtLeast(rules, 'istanbul') ? 16 : 68
  let gas = TRANSACTION + zeros * 4 + nonZeros * perByte
  if (isCreation && isAtLeast(rules, 'homestead')) gas += CREATION
  if (isCreation && isAtLeast(rules, 'shanghai')) gas += Math.ceil(input.length / 32) * 2
  for (const { storageKeys } of accessList) gas += ACCESS_ADDRESS + storageKeys.length * ACCESS_SLOT
  gas += authorizations * AUTHORIZATION
  const floor = isAtLeast(rules, 'prague') ? TRANSACTION + (zeros + nonZeros * 4) * 10 : 0
  return { gas: BigInt(gas), floor: BigInt(floor) }
}

const TRANSACTION = 21_000
const CREATION = 32_000
const ACCESS_ADDRESS = 2_400
const ACCESS_SLOT = 1_900
/** PER_EMPTY_ACCOUNT_COST of EIP-7702; what is too much comes back as a refund. */
const AUTHORIZATION = 25_000

function countZeros(bytes: Bytes): number {
  let zeros = 0
  for (const byte of bytes) if (byte === 0) zeros++
  return zeros
}
