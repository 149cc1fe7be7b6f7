/**
 * Runs a message of eth_call or eth_estimateGas like a transaction. Signature, nonce and an OP
 * chain's charges beside gas are left out. Refusals have go-ethereum's words, address included.
 */

import type { Limits, Missing, Outcome, Session } from '../../evm/engine.ts'
import type { Log } from '../../primitives/receipt.ts'
import { applyAuthorizations } from '../transaction/authorizations.ts'
import { intrinsicGas } from '../transaction/intrinsic-gas.ts'
import { andThen, type MaybePromise, orUndo } from '../transaction/maybe-promise.ts'
import { gasLeftOf, refundOf, settleGas } from '../transaction/settle.ts'
import { GAS_PER_BLOB } from '../transaction/validation.ts'
import {
  type MessageContext,
  type RefusedCall,
  refusalOf,
  type SimulatedMessage,
} from './message.ts'

export type Simulated =
  | {
      readonly status: 'ran'
      readonly outcome: Exclude<Outcome, { status: 'missing' | 'stopped' }>
      readonly gasUsed: bigint
      /** Gas before refunds, which the gas limit must cover. */
      readonly peakGas: bigint
      readonly logs: readonly Log[]
    }
  | {
      readonly status: 'refused'
      readonly message: string
      readonly why: RefusedCall['why']
      readonly isGasTooLow: boolean
    }
  | { readonly status: 'stopped'; readonly why: 'fuel' | 'deadline' | 'memory' }
  | Missing

export type SimulationContext = MessageContext & {
  /** Value that BASEFEE reads; undefined selects the base fee of the session's block. */
  readonly baseFee?: bigint
  readonly limits: Limits
  /** Runs after the message and before its changes are undone. */
  readonly onEnd?: (session: Session, simulated: Simulated) => void
}

/**
 * Runs a message and undoes its changes.
 * @throws {ViewError} {MissingError} with the session as before
 */
export function simulate(
  message: SimulatedMessage,
  context: SimulationContext,
): MaybePromise<Simulated> {
  const { session } = context
  const mark = session.checkpoint()
  const undo = () => session.revert(mark)
  return orUndo(() => {
    session.startTransaction()
    return andThen(runMessage(message, context), (simulated) => {
      context.onEnd?.(session, simulated)
      undo()
      return simulated
    })
  }, undo)
}

/**
 * Runs a message without undoing its changes; the caller ends the transaction.
 * @throws {ViewError} {MissingError}
 */
export function runMessage(
  message: SimulatedMessage,
  context: SimulationContext,
): MaybePromise<Simulated> {
  const { session, env, rules, limits } = context
  const { from, to, gas, value, authorizations = [], blobHashes = [] } = message
  const costs = intrinsicGas(
    {
      isCreation: to === undefined,
      input: message.input,
      accessList: message.accessList,
      authorizations: authorizations.length,
    },
    rules,
  )
  const refusal = refusalOf(message, context, costs)
  if (refusal !== undefined) return { status: 'refused', isGasTooLow: false, ...refusal }

  const { nonce } = session.account(from)
  const blobFee = BigInt(blobHashes.length) * GAS_PER_BLOB * env.blobBaseFee
  session.addBalance(from, -(gas * message.gasPrice + blobFee))
  // The nonce is unchecked and may be the maximum, so it wraps at 64 bits.
  session.setNonce(from, BigInt.asUintN(64, nonce + 1n))
  warm(message, context)
  const firstRefund = applyAuthorizations(session, authorizations, rules.chainId)
  const started = session.run(
    {
      from,
      to,
      value,
      gas: gas - costs.gas,
      input: message.input,
      origin: from,
      gasPrice: message.gasPrice,
      blobHashes,
      refund: firstRefund,
      ...(context.baseFee === undefined ? {} : { baseFee: context.baseFee }),
    },
    limits,
  )
  return andThen(started, (outcome): Simulated => {
    if (outcome.status === 'stopped' || outcome.status === 'missing') return outcome
    const used = gas - gasLeftOf(outcome)
    const refund = refundOf(outcome, firstRefund)
    const gasUsed = settleGas({ gas: used, refund, floor: costs.floor }, rules)
    session.addBalance(from, (gas - gasUsed) * message.gasPrice)
    if (message.gasPrice > 0n)
      session.addBalance(env.coinbase, gasUsed * (message.gasPrice - env.baseFee))
    return {
      status: 'ran',
      outcome,
      gasUsed,
      peakGas: used > costs.floor ? used : costs.floor,
      logs: outcome.status === 'success' ? outcome.logs : [],
    }
  })
}

function warm(message: SimulatedMessage, { session, env, rules }: SimulationContext): void {
  if (!rules.hasWarmAddresses) return
  session.warm(message.from)
  if (message.to !== undefined) session.warm(message.to)
  if (rules.isCoinbaseWarm) session.warm(env.coinbase)
  for (const { address, storageKeys } of message.accessList) session.warm(address, storageKeys)
}
