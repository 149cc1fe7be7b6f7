/**
 * Deposit transactions of OP chains (specs.optimism.io: Deposits, Execution). They pay nothing, and
 * their mint survives a failure.
 */
import { NO_BYTES } from '../../primitives/bytes.ts'
import type { DepositTransaction } from '../../primitives/transaction.ts'
import { applyEdits, decodeEdits, isEdit } from './edits.ts'
import { intrinsicGas } from './intrinsic-gas.ts'
import { invalid } from './invalid.ts'
import { andThen, type MaybePromise } from './maybe-promise.ts'
import {
  gasLeftOf,
  refundOf,
  resultOf,
  settleGas,
  type Transition,
  type TransitionContext,
  warmUp,
} from './settle.ts'

/** Applies a deposit; the caller has started the transaction. */
export function applyDeposit(
  deposit: DepositTransaction,
  context: TransitionContext,
): MaybePromise<Transition> {
  const { session, rules, gasPool, limits } = context
  if (deposit.isSystemTransaction && !rules.hasSystemDeposits)
    return { status: 'invalid', reason: invalid.systemTransaction() }
  if (!rules.isOptimism) return { status: 'invalid', reason: invalid.type() }
  if (deposit.gasLimit > gasPool.gas && !deposit.isSystemTransaction)
    return { status: 'invalid', reason: invalid.exceedsBlockGasLimit() }

  const depositNonce = session.account(deposit.from).nonce
  if (deposit.mint > 0n) session.addBalance(deposit.from, deposit.mint)
  // The nonce is not checked, as in op-geth, and wraps at 64 bits.
  session.setNonce(deposit.from, BigInt.asUintN(64, depositNonce + 1n))
  const checkpoint = session.checkpoint()
  warmUp(session, deposit, context)
  const failed = {
    status: 'executed',
    isSuccess: false,
    // Before Regolith deposits of the system used no gas.
    gasUsed: deposit.isSystemTransaction ? 0n : deposit.gasLimit,
    output: NO_BYTES,
    logs: [],
    created: undefined,
    effectiveGasPrice: 0n,
    depositNonce,
  } as const

  const { gas, floor } = intrinsicGas(inputOf(deposit), rules)
  const isTooPoor = session.account(deposit.from).balance < deposit.value
  if (isTooPoor || deposit.gasLimit < gas || deposit.gasLimit < floor) return failed
  const run = session.run(
    {
      from: deposit.from,
      to: deposit.to,
      value: deposit.value,
      gas: deposit.gasLimit - gas,
      input: deposit.input,
      origin: deposit.from,
      gasPrice: 0n,
    },
    limits,
  )
  return andThen(run, (outcome): Transition => {
    if (outcome.status === 'stopped') return outcome
    if (outcome.status === 'missing') return outcome
    if (outcome.status === 'halt' && outcome.gasLeft === undefined) {
      session.revert(checkpoint)
      return failed
    }
    const isEditing = rules.hasEdits && isEdit(deposit)
    if (isEditing && !applyEdits(session, decodeEdits(deposit.input) ?? NONE)) {
      session.revert(checkpoint)
      return failed
    }
    const refund = refundOf(outcome, 0n)
    const used = { gas: deposit.gasLimit - gasLeftOf(outcome), refund, floor }
    return {
      ...resultOf(outcome),
      gasUsed: rules.hasSystemDeposits ? failed.gasUsed : settleGas(used, rules),
      effectiveGasPrice: 0n,
      depositNonce,
    }
  })
}

const NONE = [] as const

const inputOf = (deposit: DepositTransaction) => ({
  isCreation: deposit.to === undefined,
  input: deposit.input,
  accessList: [],
  authorizations: 0,
})
