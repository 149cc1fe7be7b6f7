/**
 * Applies one transaction to the state: prepare, run, settle. Only the engine's run may be
 * asynchronous.
 */
import type { Message } from '../../evm/engine.ts'
import { isSigned, type SignedTransaction, type Transaction } from '../../primitives/transaction.ts'
import { applyAuthorizations } from './authorizations.ts'
import { applyDeposit } from './deposit.ts'
import { type Charge, chargeOf, checkBalance, FREE, payOut, prepay } from './fees.ts'
import { intrinsicGas } from './intrinsic-gas.ts'
import { type InvalidTransaction, invalid } from './invalid.ts'
import { andThen, type MaybePromise, orUndo } from './maybe-promise.ts'
import { POST_EXEC_APPLIED } from './post-exec.ts'
import {
  gasLeftOf,
  refundOf,
  resultOf,
  type SignedContext,
  settleGas,
  type Transition,
  warmUp,
} from './settle.ts'
import {
  authorizationsOf,
  checkFees,
  checkForm,
  checkGasPool,
  checkSender,
  intrinsicInput,
} from './validation.ts'

/** @throws {ViewError} {MissingError} with the session as before */
export function applyTransaction(
  transaction: Transaction,
  context: SignedContext,
): MaybePromise<Transition> {
  const { session } = context
  const mark = session.checkpoint()
  return orUndo(
    () => {
      session.startTransaction()
      const applied = isSigned(transaction)
        ? applySigned(transaction, context)
        : transaction.type === 0x7e
          ? applyDeposit(transaction, context)
          : POST_EXEC_APPLIED
      return andThen(applied, (transition) => {
        if (transition.status === 'executed') session.endTransaction()
        else session.revert(mark)
        return transition
      })
    },
    () => session.revert(mark),
  )
}

function applySigned(
  transaction: SignedTransaction,
  context: SignedContext,
): MaybePromise<Transition> {
  const { session, env, rules, limits, isGasless } = context
  const rollup = isGasless ? undefined : context.rollup
  const reason = validate(transaction, context)
  if (reason !== undefined) return { status: 'invalid', reason }
  const charge = isGasless ? FREE : chargeOf(transaction, { env, rules, rollup })
  const broke = checkBalance(transaction, charge, session.account(transaction.from).balance)
  if (broke !== undefined) return { status: 'invalid', reason: broke }

  prepay(session, transaction, charge)
  session.setNonce(transaction.from, transaction.nonce + 1n)
  warmUp(session, transaction, context)
  const refund = applyAuthorizations(session, authorizationsOf(transaction), rules.chainId)
  const { gas, floor } = intrinsicGas(intrinsicInput(transaction), rules)
  const run = session.run(messageOf(transaction, { gas, charge, isGasless, refund }), limits)
  return andThen(run, (outcome) => {
    if (outcome.status === 'stopped' || outcome.status === 'missing') return outcome
    const used = transaction.gasLimit - gasLeftOf(outcome)
    const evmGas = settleGas({ gas: used, refund: refundOf(outcome, refund), floor }, rules)
    const { gasRefund } = context
    if (gasRefund > evmGas)
      return { status: 'invalid', reason: invalid.refundAboveGas(gasRefund, evmGas) }
    // Every receiver gets at most the amount due for the used gas, so no balance can underflow.
    const gasUsed = evmGas - gasRefund
    payOut(session, transaction, { charge, gasUsed, env, rules, rollup })
    return {
      ...resultOf(outcome),
      gasUsed,
      effectiveGasPrice: charge.price,
      depositNonce: undefined,
    }
  })
}

function validate(
  transaction: SignedTransaction,
  context: SignedContext,
): InvalidTransaction | undefined {
  const { session, env, rules, gasPool, rollup, isGasless } = context
  return (
    checkForm(transaction, rules) ??
    checkGasPool(transaction, gasPool, rollup === undefined ? undefined : { ...rollup, rules }) ??
    (isGasless ? undefined : checkFees(transaction, env)) ??
    checkSender(transaction, session)
  )
}

function messageOf(
  transaction: SignedTransaction,
  {
    gas,
    charge,
    isGasless,
    refund,
  }: {
    readonly gas: bigint
    readonly charge: Charge
    readonly isGasless: boolean
    readonly refund: bigint
  },
): Message {
  return {
    from: transaction.from,
    to: transaction.to,
    value: transaction.value,
    gas: transaction.gasLimit - gas,
    input: transaction.input,
    origin: transaction.from,
    gasPrice: charge.price,
    ...(transaction.type === 3 ? { blobHashes: transaction.blobVersionedHashes } : {}),
    ...(isGasless ? { baseFee: 0n } : {}),
    refund,
  }
}
