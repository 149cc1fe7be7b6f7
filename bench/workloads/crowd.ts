/**
 * A thousand accounts with different nonces from 1 to 100,000. As many nonces have one digit as
 * two, and so on. The accounts sign transactions on demand, in turn.
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

/** Accounts in the format of a genesis. */
export const crowdAlloc = (): Readonly<Record<Hex, object>> =>
  Object.fromEntries(
    KEYS.map((key, account) => [
      bytesToHex(addressOfKey(key)),
      { balance: quantity(1_000n * TEN_18), nonce: quantity(firstNonce(account)) },
    ]),
  )

/**
 * @param n number of the transaction, from 0
 * @returns the envelope
 */
export function signOfCrowd({ to, value, gasLimit, data }: Draft, n: number): Hex {
  const account = n % ACCOUNTS
  const { raw } = signTransaction(
    {
      type: 2,
      chainId: CHAIN_ID,
      gasLimit,
      value,
      accessList: [],
      nonce: firstNonce(account) + BigInt(Math.floor(n / ACCOUNTS)),
      maxFeePerGas: 2n * 10n ** 10n,
      maxPriorityFeePerGas: 1n,
      to: hexToBytes(to),
      input: hexToBytes(data),
    },
    KEYS[account]!,
  )
  return bytesToHex(raw)
}
