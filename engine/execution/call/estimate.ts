/** eth_estimateGas: the least gas with which a call succeeds, within 1.5 % (go-ethereum: eth/gasestimator). */
import { isOutOfGas } from '../../evm/halt-reason.ts'
import { andThen, type Maybe } from '../transaction/maybe.ts'
import { GAS_PER_BLOB } from '../transaction/validation.ts'
import {
  type CallFailure,
  type CallOptions,
  type OpenedCall,
  onCallSession,
  refused,
  resultOf,
} from './call.ts'
import { type Simulated, simulate } from './simulated-message.ts'

export type EstimateResult = { readonly status: 'success'; readonly gas: bigint } | CallFailure

/** All runs share the deadline of `limits`. @throws {ViewError} {MissingError} */
export function estimateGas(options: CallOptions): Maybe<EstimateResult> {
  return onCallSession(options, (opened): Maybe<EstimateResult> => {
    const highest = highestGas(options, opened)
    if (typeof highest === 'string') return refused(highest)
    const run = (gas: bigint) =>
      simulate({ ...opened.message, gas }, { ...opened, limits: options.limits })
    return andThen(tryTransfer(opened, run), (transfer) => transfer ?? search(run, highest))
  })
}

type Run = (gas: bigint) => Maybe<Simulated>

const TRANSFER = 21_000n
/** The search ends when it knows the answer within this part. */
const ERROR_PERCENT = 1.5
const CALL_STIPEND = 2_300n

/** Most gas to try: the request's or the block's, as far as the sender can pay and the cap allows. */
function highestGas(options: CallOptions, opened: OpenedCall): bigint | string {
  const { request, gasCap } = options
  const { message, session, env, rules } = opened
  const asked = request.gas ?? 0n
  let highest = asked >= TRANSFER ? asked : env.gasLimit
  const { limit } = rules.gas
  if (limit !== undefined && highest > limit) highest = limit
  if (message.feeCap > 0n) {
    let available = session.account(message.from).balance
    if (message.value > 0n && message.value >= available) return 'insufficient funds for transfer'
    available -= message.value
    const blobs = BigInt(message.blobHashes?.length ?? 0) * GAS_PER_BLOB * message.blobFeeCap
    if (blobs > 0n && blobs >= available) return 'insufficient funds for gas * price + value'
    const payable = (available - blobs) / message.feeCap
    if (highest > payable) highest = payable
  }
  return highest > gasCap ? gasCap : highest
}

/** A transfer to an account without code costs what it always costs. */
function tryTransfer(opened: OpenedCall, run: Run): Maybe<EstimateResult | undefined> {
  const { message, session } = opened
  if (message.input.length > 0 || message.to === undefined) return undefined
  if (session.code(message.to).length > 0) return undefined
  return andThen(run(TRANSFER), (simulated) =>
    hasSucceeded(simulated) ? { status: 'success', gas: TRANSFER } : cutShort(simulated),
  )
}

function search(run: Run, highest: bigint): Maybe<EstimateResult> {
  return andThen(run(highest), (first) => {
    if (first.status === 'refused')
      return first.isGasTooLow
        ? refused(`gas required exceeds allowance (${highest})`)
        : refused(`failed with ${highest} gas: ${first.message}`)
    if (first.status !== 'ran') return first
    if (first.outcome.status === 'halt' && isOutOfGas(first.outcome.reason))
      return refused(`gas required exceeds allowance (${highest})`)
    if (first.outcome.status !== 'success') return resultOf(first) as CallFailure
    const bounds = { low: first.gasUsed - 1n, high: highest }
    // Most calls succeed with what they used before refunds, once every nested call gets its 63/64.
    const optimistic = ((first.peakGas + CALL_STIPEND) * 64n) / 63n
    if (optimistic >= highest) return narrow(run, bounds)
    return andThen(attempt(run, optimistic, bounds), (narrowed) =>
      'status' in narrowed ? narrowed : narrow(run, narrowed),
    )
  })
}

type Bounds = { readonly low: bigint; readonly high: bigint }

/** Recursion is as deep as the search: at most the bits of the gas, and each promise ends it. */
function narrow(run: Run, bounds: Bounds): Maybe<EstimateResult> {
  const { low, high } = bounds
  const isDone = low + 1n >= high || (Number(high - low) / Number(high)) * 100 < ERROR_PERCENT
  if (isDone) return { status: 'success', gas: high }
  const average = (high + low) / 2n
  // The answer is mostly near what was used: a wide range is cut from below.
  const middle = average > low * 2n ? low * 2n : average
  return andThen(attempt(run, middle, bounds), (narrowed) =>
    'status' in narrowed ? narrowed : narrow(run, narrowed),
  )
}

/** The bounds after a run, or what ends the search. */
function attempt(run: Run, gas: bigint, { low, high }: Bounds): Maybe<Bounds | EstimateResult> {
  return andThen(run(gas), (simulated) => {
    const cut = cutShort(simulated)
    if (cut !== undefined) return cut
    if (simulated.status === 'refused' && !simulated.isGasTooLow)
      return refused(`failed with ${gas} gas: ${simulated.message}`)
    return hasSucceeded(simulated) ? { low, high: gas } : { low: gas, high }
  })
}

const hasSucceeded = (simulated: Simulated): boolean =>
  simulated.status === 'ran' && simulated.outcome.status === 'success'

const cutShort = (simulated: Simulated): CallFailure | undefined =>
  simulated.status === 'stopped' || simulated.status === 'missing' ? simulated : undefined
