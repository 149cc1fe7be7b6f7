/**
 * A message as eth_call and eth_estimateGas run it: like a transaction, but without signature and nonce, and without what an OP chain
 * charges beside gas. Refusals are in go-ethereum's words, address included.
 */

import type { Rules } from '../../chainspec/types.ts'
import type { BlockEnv, Limits, Missing, Outcome, Session } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { checksumAddress } from '../../primitives/checksum-address.ts'
import type { Log } from '../../primitives/receipt.ts'
import type { AccessList, Authorization } from '../../primitives/transaction.ts'
import { applyAuthorizations } from '../transaction/authorizations.ts'
import { intrinsicGas } from '../transaction/intrinsic-gas.ts'
import { andThen, type Maybe, orUndo } from '../transaction/maybe.ts'
import { gasLeftOf, settleGas } from '../transaction/settle.ts'
import { GAS_PER_BLOB } from '../transaction/validation.ts'

export type SimulatedMessage = {
  readonly from: Bytes
  readonly to: Bytes | undefined
  readonly value: bigint
  readonly input: Bytes
  readonly gas: bigint
  /** Wei per gas: the most, for the coinbase at most, and what GASPRICE reads. */
  readonly feeCap: bigint
  readonly tipCap: bigint
  readonly gasPrice: bigint
  readonly accessList: AccessList
  readonly authorizations: readonly Authorization[]
  readonly blobHashes: readonly Bytes[]
  readonly blobFeeCap: bigint
}

export type Simulated =
  | {
      readonly status: 'ran'
      readonly outcome: Exclude<Outcome, { status: 'missing' | 'stopped' }>
      readonly gasUsed: bigint
      /** Before refunds: what the limit must allow. */
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

export type SimulationContext = {
  readonly session: Session
  /** With a base fee of 0 where no price is paid. */
  readonly env: BlockEnv
  /** What BASEFEE reads; undefined: what the session's block says. */
  readonly baseFee?: bigint
  readonly rules: Rules
  readonly limits: Limits
  /** Runs between the message's end and the undoing. */
  readonly onEnd?: (session: Session, simulated: Simulated) => void
  /** A nonce to hold the message to, and a base fee that also a message without a price must meet. */
  readonly validation?: { readonly nonce: bigint }
}

/** Nothing of the message stays. @throws {ViewError} {MissingError} with the session as before */
export function simulate(message: SimulatedMessage, context: SimulationContext): Maybe<Simulated> {
  const { session } = context
  const mark = session.checkpoint()
  const undo = () => session.revert(mark)
  return orUndo(() => {
    session.beginTransaction()
    return andThen(runMessage(message, context), (simulated) => {
      context.onEnd?.(session, simulated)
      undo()
      return simulated
    })
  }, undo)
}

/** What the message does stays; the caller ends the transaction. @throws {ViewError} {MissingError} */
export function runMessage(
  message: SimulatedMessage,
  context: SimulationContext,
): Maybe<Simulated> {
  const { session, env, rules, limits } = context
  const { from, to, gas, value } = message
  const costs = intrinsicGas(
    {
      isCreation: to === undefined,
      input: message.input,
      accessList: message.accessList,
      authorizations: message.authorizations.length,
    },
    rules,
  )
  const refusal =
    checkNonce(message, context) ??
    check(message, context) ??
    checkGas(message, costs) ??
    checkRest(message, context)
  if (refusal !== undefined) return { status: 'refused', isGasTooLow: false, ...refusal }

  const { nonce } = session.account(from)
  const blobFee = BigInt(message.blobHashes.length) * GAS_PER_BLOB * env.blobBaseFee
  session.addBalance(from, -(gas * message.gasPrice + blobFee))
  // Unchecked, it may be at its end: 64 bits begin anew.
  session.setNonce(from, BigInt.asUintN(64, nonce + 1n))
  warm(message, context)
  const authorityRefund = applyAuthorizations(session, message.authorizations, rules.chainId)
  const started = session.run(
    {
      from,
      to,
      value,
      gas: gas - costs.gas,
      input: message.input,
      origin: from,
      gasPrice: message.gasPrice,
      blobHashes: message.blobHashes,
      ...(context.baseFee === undefined ? {} : { baseFee: context.baseFee }),
    },
    limits,
  )
  return andThen(started, (outcome): Simulated => {
    if (outcome.status === 'stopped' || outcome.status === 'missing') return outcome
    const used = gas - gasLeftOf(outcome)
    const refund = (outcome.status === 'success' ? outcome.refund : 0n) + authorityRefund
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

export type RefusedCall = {
  readonly message: string
  readonly why:
    | 'nonce low'
    | 'nonce high'
    | 'nonce max'
    | 'fees'
    | 'base fee'
    | 'funds'
    | 'gas'
    | 'init code'
  readonly isGasTooLow?: boolean
}

function checkNonce(
  { from }: SimulatedMessage,
  { session, validation }: SimulationContext,
): RefusedCall | undefined {
  if (validation === undefined) return undefined
  const { nonce: wanted } = validation
  const { nonce } = session.account(from)
  const who = checksumAddress(from)
  if (wanted < nonce)
    return {
      why: 'nonce low',
      message: `nonce too low: address ${who}, tx: ${wanted} state: ${nonce}`,
    }
  if (wanted > nonce)
    return {
      why: 'nonce high',
      message: `nonce too high: address ${who}, tx: ${wanted} state: ${nonce}`,
    }
  if (wanted === MAX_NONCE)
    return { why: 'nonce max', message: `nonce has max value: address ${who}, nonce: ${wanted}` }
  return undefined
}
const MAX_NONCE = 2n ** 64n - 1n

/** Fees and funds. */
function check(
  message: SimulatedMessage,
  { session, env, validation }: SimulationContext,
): RefusedCall | undefined {
  const { from, feeCap, tipCap, gas, value, blobHashes, blobFeeCap } = message
  const who = checksumAddressOf(from)
  if (tipCap > feeCap)
    return {
      why: 'fees',
      message: `max priority fee per gas higher than max fee per gas: address ${who()}, maxPriorityFeePerGas: ${tipCap}, maxFeePerGas: ${feeCap}`,
    }
  const mustMeet = validation !== undefined || feeCap > 0n || tipCap > 0n
  if (mustMeet && feeCap < env.baseFee)
    return {
      why: 'base fee',
      message: `max fee per gas less than block base fee: address ${who()}, maxFeePerGas: ${feeCap}, baseFee: ${env.baseFee}`,
    }
  const blobs = BigInt(blobHashes.length) * GAS_PER_BLOB * blobFeeCap
  const want = gas * feeCap + value + blobs
  const { balance } = session.account(from)
  if (balance < want)
    return {
      why: 'funds',
      message: `insufficient funds for gas * price + value: address ${who()} have ${balance} want ${want}`,
    }
  return undefined
}

function checkGas(
  { gas }: SimulatedMessage,
  costs: { readonly gas: bigint; readonly floor: bigint },
): RefusedCall | undefined {
  if (gas < costs.gas)
    return {
      why: 'gas',
      message: `intrinsic gas too low: have ${gas}, want ${costs.gas}`,
      isGasTooLow: true,
    }
  if (gas < costs.floor)
    return {
      why: 'gas',
      message: `insufficient gas for floor data gas cost: have ${gas}, want ${costs.floor}`,
      isGasTooLow: true,
    }
  return undefined
}

function checkRest(
  message: SimulatedMessage,
  { rules }: SimulationContext,
): RefusedCall | undefined {
  const size = message.input.length
  const limit = rules.maxInitCodeBytes
  if (message.to === undefined && limit !== undefined && size > limit)
    return {
      why: 'init code',
      message: `max initcode size exceeded: code size ${size} limit ${limit}`,
    }
  return undefined
}

function warm(message: SimulatedMessage, { session, env, rules }: SimulationContext): void {
  if (!rules.hasWarmAddresses) return
  session.warm(message.from)
  if (message.to !== undefined) session.warm(message.to)
  if (rules.isCoinbaseWarm) session.warm(env.coinbase)
  for (const { address, storageKeys } of message.accessList) session.warm(address, storageKeys)
}

/** Hashing waits until somebody reads the text. */
const checksumAddressOf = (address: Bytes) => () => checksumAddress(address)
