/** What transitions of every kind share: their context, their result, and the accounts that are warm from the start. */

import type { Rules } from '../../chainspec/types.ts'
import type { BlockEnv, Limits, Missing, Outcome, Session, Stopped } from '../../evm/engine.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import type { Log } from '../../primitives/receipt.ts'
import { isSigned, type Transaction } from '../../primitives/transaction.ts'
import type { RollupFees } from './fees.ts'
import type { InvalidTransaction } from './types.ts'
import { accessListOf, type Room } from './validation.ts'

/** What a transaction meets. */
export type TransitionContext = {
  readonly session: Session
  readonly env: BlockEnv
  readonly rules: Rules
  readonly room: Room
  readonly limits: Limits | undefined
}
export type SignedContext = TransitionContext & {
  /** undefined on an L1 chain. */
  readonly rollup: RollupFees | undefined
  /** Gas that its block gives back (post-exec.ts). */
  readonly gasRefund: bigint
  /** On the whitelist of X Layer (gasless.ts): pays nothing. */
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
  /** Of the sender before the transaction; deposits only. */
  readonly depositNonce: bigint | undefined
}
/** In every case but 'executed' the session is as it was before. */
export type Transition =
  | Applied
  | { readonly status: 'invalid'; readonly reason: InvalidTransaction }
  | Stopped
  | Missing

/** Sender, receiver, coinbase and what the access list names, by the fork's rules. */
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

/** Gas to pay in the end: refunds bounded, the floor of the calldata kept (EIP-3529, EIP-7623). */
export function settleGas(
  used: { readonly gas: bigint; readonly refund: bigint; readonly floor: bigint },
  rules: Rules,
): bigint {
  const most = used.gas / rules.gas.refundQuotient
  const gas = used.gas - (used.refund < most ? used.refund : most)
  return gas > used.floor ? gas : used.floor
}

export const gasLeftOf = (outcome: Ended): bigint => outcome.gasLeft ?? 0n

/** The counter of refunds at the end; what a frame added that failed is taken back, what it began with is not. */
export const refundOf = (outcome: Ended, first: bigint): bigint =>
  outcome.status === 'success' ? outcome.refund : first
type Ended = Exclude<Outcome, { status: 'missing' | 'stopped' }>

/** What a receipt says of how a run ended. */
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
