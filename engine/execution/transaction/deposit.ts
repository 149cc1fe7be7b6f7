/** Deposit transactions of OP chains (specs.optimism.io: Deposits, Execution): they pay nothing, and what they mint stays whatever happens. */
import { NO_BYTES } from '../../primitives/bytes.ts'
import type { DepositTransaction } from '../../primitives/transaction.ts'
import { applyEdits, decodeEdits, isEdit } from './edits.ts'
import { intrinsicGas } from './intrinsic-gas.ts'
import { invalid } from './invalid.ts'
import { andThen, type Maybe } from './maybe.ts'
import {
  gasLeftOf,
  refundOf,
  resultOf,
  settleGas,
  type Transition,
  type TransitionContext,
  warmUp,
} from './settle.ts'

/** The caller has begun the transaction. */
export function applyDeposit(
  deposit: DepositTransaction,
  context: TransitionContext,
): Maybe<Transition> {
  const { session, rules, room, limits } = context
  if (deposit.isSystemTransaction && !rules.hasSystemDeposits)
    return { status: 'invalid', reason: invalid.systemTransaction() }
  if (!rules.isOptimism) return { status: 'invalid', reason: invalid.type() }
  if (deposit.gasLimit > room.gas && !deposit.isSystemTransaction)
    return { status: 'invalid', reason: invalid.exceedsBlockGasLimit() }

  const depositNonce = session.account(deposit.from).nonce
  if (deposit.mint > 0n) session.addBalance(deposit.from, deposit.mint)
  // Whatever it is, as in op-geth: 64 bits begin anew.
  session.setNonce(deposit.from, BigInt.asUintN(64, depositNonce + 1n))
  const kept = session.checkpoint()
  warmUp(session, deposit, context)
  const failed = {
    status: 'executed',
    isSuccess: false,
    // Before Regolith the system's own deposits used no gas.
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
      session.revert(kept)
      return failed
    }
    const isEditing = rules.hasEdits && isEdit(deposit)
    if (isEditing && !applyEdits(session, decodeEdits(deposit.input) ?? NONE)) {
      session.revert(kept)
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
