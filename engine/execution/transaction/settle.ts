/**
 * Shared parts of all kinds of transitions: context, result, and the accounts that are warm from
 * the start.
 */

import type { Rules } from '../../chainspec/types.ts'
import type { BlockEnv, Limits, Missing, Outcome, Session, Stopped } from '../../evm/engine.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import type { Log } from '../../primitives/receipt.ts'
import { isSigned, type Transaction } from '../../primitives/transaction.ts'
import type { RollupFees } from './fees.ts'
import type { InvalidTransaction } from './invalid.ts'
import { accessListOf, type GasPool } from './validation.ts'

/** The context of a transition. */
export type TransitionContext = {
  readonly session: Session
  readonly env: BlockEnv
  readonly rules: Rules
  readonly gasPool: GasPool
  readonly limits: Limits | undefined
}
export type SignedContext = TransitionContext & {
  /** undefined on an L1 chain. */
  readonly rollup: RollupFees | undefined
  /** Gas that the block refunds to the transaction (post-exec.ts). */
  readonly gasRefund: bigint
  /** The transaction is on X Layer's whitelist (gasless.ts) and pays nothing. */
  readonly isGasless: boolean
}

export type Applied = {
  readonly status: 'executed'
  readonly isSuccess: boolean
  readonly gasUsed: bigint
  readonly output: Bytes
  readonly logs: readonly Log[]
  readonly created: Bytes | undefined
  readonly effectiveGasPrice: bigint
  /** The sender's nonce before the transaction; deposits only. */
  readonly depositNonce: bigint | undefined
}
/** In every case except 'executed' the session is as before. */
export type Transition =
  | Applied
  | { readonly status: 'invalid'; readonly reason: InvalidTransaction }
  | Stopped
  | Missing

/** Warms sender, receiver, coinbase and the access list, by the fork's rules. */
export function warmUp(
  session: Session,
  transaction: Transaction,
  { env, rules }: { readonly env: BlockEnv; readonly rules: Rules },
): void {
  if (!rules.hasWarmAddresses) return
  session.warm(transaction.from)
  if (transaction.to !== undefined) session.warm(transaction.to)
  if (rules.isCoinbaseWarm) session.warm(env.coinbase)
  if (!isSigned(transaction)) return
  for (const { address, storageKeys } of accessListOf(transaction))
    session.warm(address, storageKeys)
}

/**
 * Computes the gas to pay, with limited refunds and the minimum for the calldata (EIP-3529,
 * EIP-7623).
 */
export function settleGas(
  used: { readonly gas: bigint; readonly refund: bigint; readonly floor: bigint },
  rules: Rules,
): bigint {
  const max = used.gas / rules.gas.refundQuotient
  const gas = used.gas - (used.refund < max ? used.refund : max)
  return gas > used.floor ? gas : used.floor
}

export const gasLeftOf = (outcome: Ended): bigint => outcome.gasLeft ?? 0n

/**
 * Refund counter at the end. A failed frame's refunds are reverted, except those from before the
 * run.
 */
export const refundOf = (outcome: Ended, first: bigint): bigint =>
  outcome.status === 'success' ? outcome.refund : first
type Ended = Exclude<Outcome, { status: 'missing' | 'stopped' }>

/** The parts of a receipt that a run's outcome determines. */
export function resultOf(outcome: Outcome) {
  const isSuccess = outcome.status === 'success'
  const hasOutput = isSuccess || outcome.status === 'revert'
  return {
    status: 'executed' as const,
    isSuccess,
    output: hasOutput ? outcome.output : NO_BYTES,
    logs: isSuccess ? outcome.logs : [],
    created: isSuccess ? outcome.created : undefined,
  }
}
