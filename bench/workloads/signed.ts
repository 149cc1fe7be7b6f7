/** Signs transactions of the accounts that both servers fund. */
import { DEV_ACCOUNTS } from '../../engine/chainspec/dev-accounts.ts'
import type { Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import { signTransaction } from '../../engine/primitives/transaction-codec.ts'

export const CHAIN_ID = 196n
export type Draft = {
  readonly to: Hex
  readonly value: bigint
  readonly gasLimit: bigint
  readonly data: Hex
}
const KEYS = DEV_ACCOUNTS.map(({ privateKey }) => hexToBytes(privateKey))
export const SENDERS = KEYS.length

/**
 * @param account index of one of the ten accounts
 * @returns the raw transaction and its hash
 */
export function sign(
  { to, value, gasLimit, data }: Draft,
  { account, nonce }: { readonly account: number; readonly nonce: number },
): { readonly raw: Hex; readonly hash: Hex } {
  const { raw, hash } = signTransaction(
    {
      type: 2,
      chainId: CHAIN_ID,
      nonce: BigInt(nonce),
      gasLimit,
      value,
      maxFeePerGas: 2n * 10n ** 10n,
      maxPriorityFeePerGas: 1n,
      accessList: [],
      to: hexToBytes(to),
      input: hexToBytes(data),
    },
    KEYS[account]!,
  )
  return { raw: bytesToHex(raw), hash: bytesToHex(hash) }
}
