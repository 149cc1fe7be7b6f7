/**
 * A thousand accounts, each with a past of its own: nonces from 1 to 100,000, as many of one digit as of two, and so on. Transactions of them are
 * signed as they are needed, each account in its turn.
 */
import type { Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes, quantity } from '../../engine/primitives/hex.ts'
import { keccak256 } from '../../engine/primitives/keccak.ts'
import { addressOfKey } from '../../engine/primitives/signature.ts'
import { signTransaction } from '../../engine/primitives/transaction-codec.ts'
import { CHAIN_ID, type Draft } from './signed.ts'
import { TEN_18 } from './world.ts'

const ACCOUNTS = 1_000
const DIGITS = 5
const GOLDEN = 0.618_033_988_75

const KEYS = Array.from({ length: ACCOUNTS }, (_, n) => keccak256(new TextEncoder().encode(`${n}`)))
const firstNonce = (account: number): bigint =>
  BigInt(Math.floor(10 ** (DIGITS * ((account * GOLDEN) % 1))))

/** As a genesis has them. */
export const crowdAlloc = (): Readonly<Record<Hex, object>> =>
  Object.fromEntries(
    KEYS.map((key, account) => [
      bytesToHex(addressOfKey(key)),
      { balance: quantity(1_000n * TEN_18), nonce: quantity(firstNonce(account)) },
    ]),
  )

/** @param n of all that are signed, from 0 on @returns the envelope */
export function signOfCrowd({ to, value, gasLimit, data }: Draft, n: number): Hex {
  const account = n % ACCOUNTS
  const { raw } = signTransaction(
    {
      ...{ type: 2, chainId: CHAIN_ID, gasLimit, value, accessList: [] },
      nonce: firstNonce(account) + BigInt(Math.floor(n / ACCOUNTS)),
      ...{ maxFeePerGas: 2n * 10n ** 10n, maxPriorityFeePerGas: 1n },
      to: hexToBytes(to),
      input: hexToBytes(data),
    },
    KEYS[account]!,
  )
  return bytesToHex(raw)
}
