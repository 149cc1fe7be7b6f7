/** What a call will cost: learned for each contract function, of all addresses and of each alone. */
import type { PoolCall } from '../../rpc/seam/executor.ts'
import { DEAR_US, isByTarget, LANES, type Lane, laneFor } from '../../rpc/seam/lane.ts'
import { LEASH_MS } from './lanes.ts'

export type Prediction = {
  readonly client: string
  /** Names what it is taken for. */
  readonly key: string
  /** What others find out about its cost says something about this call too, and the other way round. */
  readonly isShared: boolean
  readonly lane: Lane
  /** Microseconds. */
  readonly predicted: number
  readonly expected: 'unknown' | 'quick' | 'long'
}
export interface Costs {
  classify(call: PoolCall, client: string): Prediction
  /** @param micros of processor time @param isCut it was stopped: it would have taken longer */
  learn(prediction: Prediction, micros: number, isCut?: boolean): void
}

/** What is not known yet counts as this much, unless it brings enough gas to run long. */
const UNKNOWN_US = 200
/** A tenth of a second of the reference engine. */
const LARGE_GAS = 1_000_000
const MAX_KEYS = 4_096
/** Of one address, and addresses. */
const MAX_OWN_KEYS = 128
const MAX_CLIENTS = 1_024
/** Weight of the newest measurement. */
const NEWEST = 1 / 4
/** How many times the mean a measurement counts at most: one that had to collect garbage would be dear at once. */
const MOST_TIMES = 4
/** No collection takes so long: this much was work. */
const CERTAIN_US = 250_000
/** A call that is not taken for a long one and takes so long is no accident: others of its address are not trusted for a while. */
const SURPRISE_US = 80_000
/** One that was stopped after so much work was on its way: it counts as one that may not be a guest. Less may be a tick of the clock. */
export const CUT_US = 10_000
/** A doubt is worth half as much after this time. */
const DOUBT_MS = 5_000

/** What an address was seen to do. */
type History = {
  readonly means: Map<string, number>
  /** The dearest lately of its calls of unknown cost, and of those that were known as quick. */
  unknown: Doubt
  surprise: Doubt
}
type Doubt = { readonly micros: number; readonly at: number }
const NO_DOUBT: Doubt = { micros: 0, at: 0 }

/** @param now monotonic milliseconds */
export function createCosts(now: () => number): Costs {
  const means = new Map<string, number>()
  const clients = new Map<string, History>()
  const left = ({ micros, at }: Doubt) =>
    micros === 0 ? 0 : micros * 2 ** ((at - now()) / DOUBT_MS)
  const raised = (doubt: Doubt, micros: number) =>
    micros < left(doubt) ? doubt : { micros, at: now() }

  function classify(call: PoolCall, client: string): Prediction {
    const { runs, name } = call.method
    const { target, gas, isShared } = targetOf(call.params)
    const isPlain = isByTarget(runs)
    const key = isPlain ? `${name} ${target}` : name
    const own = clients.get(client)
    const mean = own?.means.get(key) ?? (isShared ? means.get(key) : undefined)
    const parts = { client, key, isShared }
    if (mean === undefined) {
      const least = !isPlain || gas > LARGE_GAS ? DEAR_US : UNKNOWN_US
      const doubt = own === undefined ? 0 : left(own.unknown)
      const predicted = doubt >= DEAR_US ? doubt : least
      const lane = laneFor(runs, predicted, false)
      return { ...parts, lane, predicted, expected: 'unknown' }
    }
    const lane = laneFor(runs, mean)
    if (LANES[lane].isLong) return { ...parts, lane, predicted: mean, expected: 'long' }
    const isDoubted = own !== undefined && left(own.surprise) >= DEAR_US
    return { ...parts, lane: laneFor(runs, mean, !isDoubted), predicted: mean, expected: 'quick' }
  }

  function historyOf(client: string): History {
    const known = clients.get(client)
    // Put in anew, so that the first is the one that was not seen for the longest time.
    if (known !== undefined) clients.delete(client)
    const history = known ?? { means: new Map(), unknown: NO_DOUBT, surprise: NO_DOUBT }
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
      note(history.means, { key, micros, most: MAX_OWN_KEYS })
      if (isShared) note(means, { key, micros, most: MAX_KEYS })
    },
  }
}

function note(
  means: Map<string, number>,
  { key, micros, most }: { readonly key: string; readonly micros: number; readonly most: number },
): void {
  const mean = means.get(key)
  means.delete(key)
  const isDoubtful = mean !== undefined && micros < CERTAIN_US
  const seen = isDoubtful ? Math.min(micros, mean * MOST_TIMES + 1) : micros
  means.set(key, mean === undefined ? seen : mean + (seen - mean) * NEWEST)
  if (means.size > most) means.delete(means.keys().next().value!)
}

type Target = {
  /** Contract and selector of a call object, as it came over the wire. */
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
    // Without a limit of its own a call may use all that the node allows.
    gas: typeof gas === 'string' ? Number(gas.slice(0, 18)) || 0 : Number.POSITIVE_INFINITY,
    // Code that the caller brings may do anything.
    isShared: !isCode && !isOverridden,
  }
}
