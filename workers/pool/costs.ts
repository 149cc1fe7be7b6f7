/**
 * Predicts what a call will cost, from the costs of each contract function, over all addresses and
 * for each address.
 */
import type { PoolCall } from '../../rpc/core/executor.ts'
import {
  DEAR_US,
  isByTarget,
  QUEUE_CLASSES,
  type QueueClass,
  queueClassFor,
} from '../../rpc/core/queue-class.ts'
import { LEASH_MS } from './call-queues.ts'

export type Prediction = {
  readonly client: string
  /**
   * Key under which the cost is learned: the method's name, and the call's target where it has one.
   */
  readonly key: string
  /** Measurements of other addresses apply to this call, and its measurement applies to them. */
  readonly isShared: boolean
  readonly queueClass: QueueClass
  /** Microseconds. */
  readonly predicted: number
  readonly expected: 'unknown' | 'quick' | 'long'
}
export interface Costs {
  classify(call: PoolCall, client: string): Prediction
  /**
   * @param micros processor time in microseconds
   * @param isCut the call was stopped and would have taken longer
   */
  learn(prediction: Prediction, micros: number, isCut?: boolean): void
}

/** Prediction for a call of unknown cost, unless its gas limit allows a long run. */
const UNKNOWN_US = 200
/** Gas that takes the reference engine about a tenth of a second. */
const LARGE_GAS = 1_000_000
const MAX_KEYS = 4_096
/** Maximum number of keys of one address, and of addresses. */
const MAX_OWN_KEYS = 128
const MAX_CLIENTS = 1_024
/** Weight of the newest measurement. */
const NEWEST = 1 / 4
/**
 * A measurement counts as at most this many times the mean, because a garbage collection may
 * inflate it.
 */
const MAX_TIMES = 4
/** No garbage collection takes this long, so a measurement up to this value counts in full. */
const CERTAIN_US = 250_000
/**
 * A call that was not predicted to be long and takes this long is no accident. Other calls of its
 * address become suspect for a while.
 */
const SURPRISE_US = 80_000
/**
 * A call that was stopped after this much work counts as too long for a guest. Less may be a tick
 * of the clock.
 */
export const CUT_US = 10_000
/** A suspicion is worth half as much after this time. */
const SUSPICION_HALF_LIFE_MS = 5_000

/** Observed behaviour of one address. */
type History = {
  readonly means: Map<string, number>
  /**
   * Most expensive recent calls of the address: those of unknown cost, and those that were known as
   * quick.
   */
  unknown: Suspicion
  surprise: Suspicion
}
type Suspicion = { readonly micros: number; readonly at: number }
const NO_SUSPICION: Suspicion = { micros: 0, at: 0 }

/**
 * Creates the cost predictions.
 * @param now monotonic milliseconds
 */
export function createCosts(now: () => number): Costs {
  const means = new Map<string, number>()
  const clients = new Map<string, History>()
  const left = ({ micros, at }: Suspicion) =>
    micros === 0 ? 0 : micros * 2 ** ((at - now()) / SUSPICION_HALF_LIFE_MS)
  const raised = (suspicion: Suspicion, micros: number) =>
    micros < left(suspicion) ? suspicion : { micros, at: now() }

  function classify(call: PoolCall, client: string): Prediction {
    const { runs, name } = call.method
    const { target, gas, isShared } = targetOf(call.params)
    const isPlain = isByTarget(runs)
    const key = isPlain ? `${name} ${target}` : name
    const own = clients.get(client)
    const mean = own?.means.get(key) ?? (isShared ? means.get(key) : undefined)
    const parts = { client, key, isShared }
    if (mean === undefined) {
      const min = !isPlain || gas > LARGE_GAS ? DEAR_US : UNKNOWN_US
      const suspicion = own === undefined ? 0 : left(own.unknown)
      const predicted = suspicion >= DEAR_US ? suspicion : min
      const queueClass = queueClassFor(runs, predicted, false)
      return { ...parts, queueClass, predicted, expected: 'unknown' }
    }
    const queueClass = queueClassFor(runs, mean)
    if (QUEUE_CLASSES[queueClass].isLong)
      return { ...parts, queueClass, predicted: mean, expected: 'long' }
    const isSuspected = own !== undefined && left(own.surprise) >= DEAR_US
    return {
      ...parts,
      queueClass: queueClassFor(runs, mean, !isSuspected),
      predicted: mean,
      expected: 'quick',
    }
  }

  function historyOf(client: string): History {
    const known = clients.get(client)
    // The entry is reinserted, so that the first one in the map is always the least recently used.
    if (known !== undefined) clients.delete(client)
    const history = known ?? { means: new Map(), unknown: NO_SUSPICION, surprise: NO_SUSPICION }
    clients.set(client, history)
    if (clients.size > MAX_CLIENTS) clients.delete(clients.keys().next().value!)
    return history
  }

  return {
    classify,
    learn({ client, key, isShared, expected, predicted }, spent, isCut = false) {
      if (isCut && spent < Math.min(predicted, CUT_US)) return
      const micros = isCut && spent >= CUT_US ? Math.max(spent, predicted, LEASH_MS * 1_000) : spent
      const history = historyOf(client)
      if (micros >= SURPRISE_US && expected === 'unknown')
        history.unknown = raised(history.unknown, micros)
      if (micros >= SURPRISE_US && expected === 'quick')
        history.surprise = raised(history.surprise, micros)
      addSample(history.means, { key, micros, max: MAX_OWN_KEYS })
      if (isShared) addSample(means, { key, micros, max: MAX_KEYS })
    },
  }
}

function addSample(
  means: Map<string, number>,
  { key, micros, max }: { readonly key: string; readonly micros: number; readonly max: number },
): void {
  const mean = means.get(key)
  means.delete(key)
  const isUncertain = mean !== undefined && micros < CERTAIN_US
  const seen = isUncertain ? Math.min(micros, mean * MAX_TIMES + 1) : micros
  means.set(key, mean === undefined ? seen : mean + (seen - mean) * NEWEST)
  if (means.size > max) means.delete(means.keys().next().value!)
}

type Target = {
  /** Contract and function selector of a call object, as received. */
  readonly target: string
  readonly gas: number
  readonly isShared: boolean
}
function targetOf(params: readonly unknown[]): Target {
  const first = params[0]
  if (typeof first !== 'object' || first === null) return { target: '', gas: 0, isShared: true }
  const { to, data, input, gas } = first as Readonly<{ [key: string]: unknown }>
  const calldata = typeof input === 'string' ? input : typeof data === 'string' ? data : ''
  const isOverridden = typeof params[2] === 'object' && params[2] !== null
  const isCode = typeof to !== 'string'
  const contract = isCode ? 'create' : to.slice(0, 42)
  return {
    target: `${contract}${calldata.slice(0, 10)}${isOverridden ? ' overridden' : ''}`,
    // A call without a gas limit may use all that the node allows.
    gas: typeof gas === 'string' ? Number(gas.slice(0, 18)) || 0 : Number.POSITIVE_INFINITY,
    /*
     * Code or overrides that the caller supplies may do anything, so their cost says nothing about
     * other calls.
     */
    isShared: !isCode && !isOverridden,
  }
}
