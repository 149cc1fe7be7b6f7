/**
 * Fees of a transaction and their receivers (EIP-1559, EIP-4844; specs.optimism.io: Execution
 * Engine, Fees), and the price of blob gas.
 */
import { L1_BLOCK } from '../../chainspec/l1-attributes.ts'
import {
  L1_FEE_SLOTS,
  type L1FeeParameters,
  l1Cost,
  l1FeeParameters,
  operatorFee,
  type RollupData,
} from '../../chainspec/l1-fee.ts'
import type { Rules } from '../../chainspec/types.ts'
import type { BlockEnv, Session } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import type { SignedTransaction } from '../../primitives/transaction.ts'
import { type InvalidTransaction, invalid } from './invalid.ts'
import { blobGasOf, feesOf } from './validation.ts'

/** Charges of an OP chain beside gas; undefined on an L1 chain and in a gasless transaction. */
export type RollupFees = { readonly data: RollupData; readonly parameters: L1FeeParameters }

/** Amounts that are settled when the used gas is known. */
export type Charge = {
  /** Wei per gas that the sender pays, and the coinbase's part of it. */
  readonly price: bigint
  readonly tip: bigint
  readonly l1Fee: bigint
  /** Operator fee of the whole gas limit. */
  readonly operatorFee: bigint
  readonly blobFee: bigint
}

export const FREE: Charge = { price: 0n, tip: 0n, l1Fee: 0n, operatorFee: 0n, blobFee: 0n }

/** Reads the fee parameters from the L1Block contract's current storage. */
export function readL1Parameters(session: Pick<Session, 'slot'>, rules: Rules): L1FeeParameters {
  return l1FeeParameters(rules, (number) => session.slot(L1_BLOCK_ADDRESS, SLOT_KEYS.get(number)!))
}

/** Computes all charges of a transaction, including roll-up fees. */
export function chargeOf(
  transaction: SignedTransaction,
  {
    env,
    rules,
    rollup,
  }: { readonly env: BlockEnv; readonly rules: Rules; readonly rollup: RollupFees | undefined },
): Charge {
  const price = priceOf(transaction, { env, rules })
  return {
    price,
    tip: rules.header.baseFee ? price - env.baseFee : price,
    l1Fee: rollup === undefined ? 0n : l1Cost(rollup.data, rollup.parameters, rules).fee,
    operatorFee:
      rollup === undefined ? 0n : operatorFee(transaction.gasLimit, rollup.parameters, rules),
    blobFee: blobGasOf(transaction) * env.blobBaseFee,
  }
}

/** Wei per gas that the sender pays; a gasless transaction has no price. */
export function priceOf(
  transaction: SignedTransaction,
  { env, rules }: { readonly env: Pick<BlockEnv, 'baseFee'>; readonly rules: Rules },
): bigint {
  const { maxFee, maxTip } = feesOf(transaction)
  return rules.header.baseFee && maxFee > env.baseFee + maxTip ? env.baseFee + maxTip : maxFee
}

/** Checks that the balance covers the maximum gas price, the value and all charges beside gas. */
export function checkBalance(
  transaction: SignedTransaction,
  charge: Charge,
  balance: bigint,
): InvalidTransaction | undefined {
  const blobs = transaction.type === 3 ? blobGasOf(transaction) * transaction.maxFeePerBlobGas : 0n
  const want =
    transaction.gasLimit * (charge === FREE ? 0n : feesOf(transaction).maxFee) +
    transaction.value +
    charge.l1Fee +
    charge.operatorFee +
    blobs
  return balance < want ? invalid.funds(balance, want) : undefined
}

/** Deducts all charges in advance, except the value. */
export function prepay(session: Session, transaction: SignedTransaction, charge: Charge): void {
  const total =
    transaction.gasLimit * charge.price + charge.l1Fee + charge.operatorFee + charge.blobFee
  session.addBalance(transaction.from, -total)
}

/** Refunds unused amounts and pays the receivers. */
export function payOut(
  session: Session,
  transaction: SignedTransaction,
  settled: {
    readonly charge: Charge
    readonly gasUsed: bigint
    readonly env: BlockEnv
    readonly rules: Rules
    readonly rollup: RollupFees | undefined
  },
): void {
  const { charge, gasUsed, env, rules, rollup } = settled
  const usedOperatorFee = rollup === undefined ? 0n : operatorFee(gasUsed, rollup.parameters, rules)
  session.addBalance(
    transaction.from,
    (transaction.gasLimit - gasUsed) * charge.price + charge.operatorFee - usedOperatorFee,
  )
  session.addBalance(env.coinbase, gasUsed * charge.tip)
  // On an L1 chain the base fee is burned.
  if (rollup === undefined) return
  session.addBalance(BASE_FEE_VAULT, gasUsed * env.baseFee)
  session.addBalance(L1_FEE_VAULT, charge.l1Fee)
  if (rules.operatorFee !== undefined) session.addBalance(OPERATOR_FEE_VAULT, usedOperatorFee)
}

const predeploy = (low: string): Bytes =>
  hexToBytes(`0x42000000000000000000000000000000000000${low}`)
const BASE_FEE_VAULT = predeploy('19')
const L1_FEE_VAULT = predeploy('1a')
const OPERATOR_FEE_VAULT = predeploy('1b')
const L1_BLOCK_ADDRESS = hexToBytes(L1_BLOCK)
const SLOT_KEYS: ReadonlyMap<number, Bytes> = new Map(
  L1_FEE_SLOTS.map((number) => {
    const key = new Uint8Array(32)
    key[31] = number
    return [number, key]
  }),
)

/** Wei per blob gas; 1 on a chain without blobs, such as an OP chain. */
export function blobBaseFee(rules: Rules, excessBlobGas: bigint): bigint {
  if (rules.blobs === undefined || excessBlobGas === 0n) return 1n
  return fakeExponential(excessBlobGas, rules.blobs.updateFraction)
}

/** Computes e^(numerator / denominator) by the series that the EIP defines. */
function fakeExponential(numerator: bigint, denominator: bigint): bigint {
  let sum = 0n
  let term = denominator
  for (let n = 1n; term > 0n; n++) {
    sum += term
    term = (term * numerator) / (denominator * n)
  }
  return sum / denominator
}
