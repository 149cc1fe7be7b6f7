/**
 * eth_estimateGas: the least gas with which a call succeeds, within 1.5 % (go-ethereum:
 * eth/gasestimator).
 */
import { isOutOfGas } from '../../evm/halt-reason.ts'
import { andThen, type MaybePromise } from '../transaction/maybe-promise.ts'
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

/**
 * Estimates the gas of a call; all runs share the deadline of `limits`.
 * @throws {ViewError} {MissingError}
 */
export function estimateGas(options: CallOptions): MaybePromise<EstimateResult> {
  return onCallSession(options, (opened): MaybePromise<EstimateResult> => {
    const highest = highestGas(options, opened)
    if (typeof highest === 'string') return refused(highest)
    const run = (gas: bigint) =>
      simulate({ ...opened.message, gas }, { ...opened, limits: options.limits })
    return andThen(tryTransfer(opened, run), (transfer) => transfer ?? search(run, highest))
  })
}

type Run = (gas: bigint) => MaybePromise<Simulated>

const TRANSFER = 21_000n
/** The search ends when its bounds differ by less than this percentage. */
const ERROR_PERCENT = 1.5
const CALL_STIPEND = 2_300n

/**
 * Maximum gas to try: the request's or the block's, reduced to the sender's balance and the cap.
 */
function highestGas(options: CallOptions, opened: OpenedCall): bigint | string {
  const { request, gasCap } = options
  const { message, session, env, rules } = opened
  const requested = request.gas ?? 0n
  let highest = requested >= TRANSFER ? requested : env.gasLimit
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

/** Tries the constant cost of a transfer to an account without code. */
function tryTransfer(opened: OpenedCall, run: Run): MaybePromise<EstimateResult | undefined> {
  const { message, session } = opened
  if (message.input.length > 0 || message.to === undefined) return undefined
  if (session.code(message.to).length > 0) return undefined
  return andThen(run(TRANSFER), (simulated) =>
    hasSucceeded(simulated) ? { status: 'success', gas: TRANSFER } : cutShort(simulated),
  )
}

function search(run: Run, highest: bigint): MaybePromise<EstimateResult> {
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
    // Most calls succeed with their gas before refunds, if every nested call can get its 63/64.
    const optimistic = ((first.peakGas + CALL_STIPEND) * 64n) / 63n
    if (optimistic >= highest) return narrow(run, bounds)
    return andThen(attempt(run, optimistic, bounds), (narrowed) =>
      'status' in narrowed ? narrowed : narrow(run, narrowed),
    )
  })
}

type Bounds = { readonly low: bigint; readonly high: bigint }

/** The recursion depth is limited by the bits of the gas; each promise restarts the stack. */
function narrow(run: Run, bounds: Bounds): MaybePromise<EstimateResult> {
  const { low, high } = bounds
  const isDone = low + 1n >= high || (Number(high - low) / Number(high)) * 100 < ERROR_PERCENT
  if (isDone) return { status: 'success', gas: high }
  const average = (high + low) / 2n
  // The result is usually near the gas used, so a wide range is cut near its lower bound.
  const middle = average > low * 2n ? low * 2n : average
  return andThen(attempt(run, middle, bounds), (narrowed) =>
    'status' in narrowed ? narrowed : narrow(run, narrowed),
  )
}

/** Runs with `gas` and returns the new bounds, or the result that ends the search. */
function attempt(
  run: Run,
  gas: bigint,
  { low, high }: Bounds,
): MaybePromise<Bounds | EstimateResult> {
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
