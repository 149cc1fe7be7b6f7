/** This module draws random transactions of several kinds and frequencies. */
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { MESSAGE_PASSER } from '../../../engine/chainspec/genesis.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import type {
  DepositTransaction,
  SignedTransaction,
} from '../../../engine/primitives/transaction.ts'
import {
  createAddress,
  makeDeposit,
  signTransaction,
  sourceHash,
} from '../../../engine/primitives/transaction-codec.ts'
import { bigintToBytes } from '../../../engine/primitives/words.ts'
import { BOX_INIT, type BoxCall, boxInput, FAILING_INIT } from './contracts.ts'
import type { Random } from './random.ts'

type Account = { readonly address: Bytes; readonly key: Bytes }
export const ACCOUNTS: readonly Account[] = DEV_ACCOUNTS.slice(0, 6).map((account) => ({
  address: hexToBytes(account.address),
  key: hexToBytes(account.privateKey),
}))
/** The first transactions of every chain create these contracts. */
export const BOXES: readonly Bytes[] = [0n, 1n].map((nonce) =>
  createAddress(ACCOUNTS[0]!.address, nonce),
)
const PASSER = hexToBytes(MESSAGE_PASSER)

/** The keys are few, so that transactions touch the same ones. */
export const KEYS = 6

type Fields = {
  readonly to: Bytes | undefined
  readonly value?: bigint
  readonly input?: Bytes
  readonly gasLimit?: bigint
}

/**
 * Draws a transaction.
 * @param nonceOf gives the next nonce of an account
 */
export function drawTransaction(
  random: Random,
  nonceOf: (address: Bytes) => bigint,
  chainId: bigint,
): SignedTransaction {
  const from = random.pick(ACCOUNTS)
  return signed(from, nonceOf(from.address), { ...drawFields(random), random, chainId })
}

/** Makes the first two transactions of a chain. */
export const deployments = (chainId: bigint, random: Random): readonly SignedTransaction[] =>
  BOXES.map((_, at) =>
    signed(ACCOUNTS[0]!, BigInt(at), {
      to: undefined,
      input: BOX_INIT,
      gasLimit: 1_000_000n,
      random,
      chainId,
    }),
  )

function signed(
  { key }: Account,
  nonce: bigint,
  fields: Fields & { readonly random: Random; readonly chainId: bigint },
): SignedTransaction {
  const { to, value = 0n, input = new Uint8Array(0), gasLimit = 300_000n, random, chainId } = fields
  const common = { chainId, nonce, to, value, gasLimit, input }
  const type = random.pick([0, 1, 2, 2] as const)
  const price = 10n ** 10n
  if (type === 0) return signTransaction({ ...common, type, gasPrice: price }, key)
  const accessList =
    to !== undefined && random.chance(0.3)
      ? [{ address: to, storageKeys: [bigintToBytes(BigInt(random.below(KEYS)), 32)] }]
      : []
  if (type === 1) return signTransaction({ ...common, type, gasPrice: price, accessList }, key)
  const fees = { maxFeePerGas: price, maxPriorityFeePerGas: BigInt(random.below(1_000_000)) }
  return signTransaction({ ...common, ...fees, type, accessList }, key)
}

const CALLS: readonly BoxCall[] = [
  ...(['store', 'store', 'store', 'store', 'increase', 'increase', 'clear', 'clear'] as const),
  ...(['storeAndRevert', 'create', 'fail', 'blockHash', 'createAndEnd'] as const),
]

function drawFields(random: Random): Fields {
  const roll = random.below(20)
  if (roll < 6) return { to: random.pick(ACCOUNTS).address, value: BigInt(random.below(1_000)) }
  if (roll < 7) return { to: strangerOf(random), value: 1n }
  if (roll < 8) return { to: PASSER, value: BigInt(random.below(100)) }
  if (roll < 9) return { to: undefined, input: BOX_INIT, gasLimit: 1_000_000n }
  if (roll < 10) return { to: undefined, input: FAILING_INIT }
  // The gas limit is too low for the call.
  if (roll < 11) return { ...boxCall(random), gasLimit: 26_000n }
  return boxCall(random)
}

function boxCall(random: Random): Fields {
  const value = random.pick([0n, 0n, 1n, 2n, BigInt(random.below(2 ** 31))])
  return {
    to: random.pick(BOXES),
    input: boxInput(random.pick(CALLS), BigInt(random.below(KEYS)), value),
  }
}

/** Draws an address that is unused, or that got a balance before. */
const strangerOf = (random: Random): Bytes => bigintToBytes(BigInt(0xabc000 + random.below(50)), 20)

/** Draws a deposit; each deposit of a chain has another `serial`. */
export function drawDeposit(random: Random, serial: bigint): DepositTransaction {
  const isPoor = random.chance(0.2)
  return makeDeposit({
    sourceHash: sourceHash(0, bigintToBytes(serial, 32)),
    from: random.chance(0.5) ? strangerOf(random) : random.pick(ACCOUNTS).address,
    to: random.chance(0.4) ? random.pick(BOXES) : strangerOf(random),
    mint: isPoor ? 0n : BigInt(random.below(1_000)),
    // The value exceeds any balance, because a failed deposit counts too.
    value: isPoor ? 10n ** 30n : 0n,
    gasLimit: 300_000n,
    isSystemTransaction: false,
    input: boxInput('store', BigInt(random.below(KEYS)), BigInt(random.below(3))),
  })
}
