/** Which waiting call goes to a worker next: bounded lanes, and costs learned per contract function. */
import type { PoolCall } from '../rpc/executor.ts'
import type { Limits } from '../rpc/limits.ts'
import { MAX_CALLS } from './slab.ts'

/**
 * light, medium: as many to a task as fit its length. dear, logs, trace, sidecar: a task of its own, and together they never hold the last worker,
 * so that light calls always find one.
 */
export type Lane = 'light' | 'medium' | 'dear' | 'logs' | 'trace' | 'sidecar'
export type Waiting = { readonly call: PoolCall; readonly lane: Lane; readonly predicted: number }

export interface Lanes<T extends Waiting> {
  /** False: the queue is full. */
  push(job: T): boolean
  /** The next task; undefined: nothing that may run now. */
  next(load: Load): readonly T[] | undefined
  /** Takes out those that the predicate names. */
  remove(isGone: (job: T) => boolean): readonly T[]
  readonly size: number
  sizes(): Readonly<Record<Lane, number>>
}
export type Load = {
  readonly threads: number
  /** Workers without a task. */
  readonly free: number
  /** Tasks that run now, of the light lane and of the lanes that may not hold the last worker. */
  readonly light: number
  readonly heavy: number
}

const ORDER: readonly Lane[] = ['light', 'medium', 'dear', 'logs', 'trace', 'sidecar']
/** A task holds at most this much predicted work, or one call: it answers as one. */
const TASK_US: Readonly<Record<Lane, number>> = {
  light: 1_500,
  medium: 3_000,
  dear: 0,
  logs: 0,
  trace: 0,
  sidecar: 0,
}
/** Less work than this is not worth waking a further worker: the one that runs light calls takes it next. */
const WAKE_US = 300

/** Lanes for what always takes long, with a queue of their own. */
export const isLong = (lane: Lane): boolean =>
  lane === 'logs' || lane === 'trace' || lane === 'sidecar'

/** How many calls may wait in a lane; the lanes that are not long count together. */
export function queueLimit(lane: Lane, limits: Limits): number {
  if (lane === 'trace') return limits.traceQueue
  if (lane === 'logs') return limits.logsQueue
  return lane === 'sidecar' ? limits.sidecarQueue : limits.callQueue
}

export function createLanes<T extends Waiting>(limits: Limits): Lanes<T> {
  const queues: Record<Lane, T[]> = {
    light: [],
    medium: [],
    dear: [],
    logs: [],
    trace: [],
    sidecar: [],
  }
  /** Where the round begins, so that no lane waits for another to be empty. */
  let turn = 0
  let lightUs = 0

  function room(lane: Lane): number {
    const own = isLong(lane)
      ? queues[lane].length
      : queues.light.length + queues.medium.length + queues.dear.length
    return queueLimit(lane, limits) - own
  }
  function mayRun(lane: Lane, load: Load): boolean {
    if (queues[lane].length === 0) return false
    if (lane === 'light') return load.light === 0 || lightUs >= WAKE_US
    return lane === 'medium' || load.heavy < load.threads - 1
  }
  function take(lane: Lane, { free }: Load): readonly T[] {
    const queue = queues[lane]
    // Medium calls are worth waking every worker for.
    const most = Math.min(
      MAX_CALLS,
      lane === 'medium' ? Math.ceil(queue.length / free) : queue.length,
    )
    let count = 1
    let micros = queue[0]!.predicted
    while (count < most) {
      const longer = micros + queue[count]!.predicted
      if (longer > TASK_US[lane]) break
      micros = longer
      count++
    }
    if (lane === 'light') lightUs = queue.length === count ? 0 : lightUs - micros
    return queue.splice(0, count)
  }

  return {
    push(job) {
      if (room(job.lane) <= 0) return false
      queues[job.lane].push(job)
      if (job.lane === 'light') lightUs += job.predicted
      return true
    },
    next(load) {
      for (let step = 0; step < ORDER.length; step++) {
        const at = (turn + step) % ORDER.length
        const lane = ORDER[at]!
        if (!mayRun(lane, load)) continue
        turn = at + 1
        return take(lane, load)
      }
      return undefined
    },
    remove(isGone) {
      const gone: T[] = []
      for (const lane of ORDER) {
        if (!queues[lane].some(isGone)) continue
        gone.push(...queues[lane].filter(isGone))
        queues[lane] = queues[lane].filter((job) => !isGone(job))
      }
      lightUs = queues.light.reduce((sum, { predicted }) => sum + predicted, 0)
      return gone
    },
    get size() {
      return ORDER.reduce((sum, lane) => sum + queues[lane].length, 0)
    },
    sizes: () => ({
      light: queues.light.length,
      medium: queues.medium.length,
      dear: queues.dear.length,
      logs: queues.logs.length,
      trace: queues.trace.length,
      sidecar: queues.sidecar.length,
    }),
  }
}

export interface Costs {
  readonly classify: (call: PoolCall) => {
    readonly key: string
    readonly lane: Lane
    /** Microseconds. */
    readonly predicted: number
  }
  readonly learn: (key: string, micros: number) => void
}

const LIGHT_US = 300
const DEAR_US = 10_000
/** What is not known yet counts as this much, unless it brings enough gas to run long. */
const UNKNOWN_US = 200
/** A tenth of a second of the reference engine. */
const LARGE_GAS = 1_000_000
const MAX_KEYS = 4_096
/** Weight of the newest measurement. */
const NEWEST = 1 / 4
/**
 * How many times the mean a measurement counts at most: on a busy machine a call of 20 µs may take 50 ms now and then, and would be dear at
 * once. One that has become dear is known after a dozen calls.
 */
const MOST_TIMES = 4
/** A thread does not wait so long for its turn: this much was work. */
const CERTAIN_US = 250_000

export function createCosts(): Costs {
  const means = new Map<string, number>()
  return {
    classify(call) {
      const { runs, name } = call.method
      if (runs !== 'front' && runs !== 'call') return { key: name, lane: runs, predicted: DEAR_US }
      const { to, gas } = targetOf(call.params)
      const key = `${name} ${to}`
      const predicted = means.get(key) ?? (gas > LARGE_GAS ? DEAR_US : UNKNOWN_US)
      const lane = predicted < LIGHT_US ? 'light' : predicted < DEAR_US ? 'medium' : 'dear'
      return { key, lane, predicted }
    },
    learn(key, micros) {
      const mean = means.get(key)
      // Put in anew, so that the first key is the one that was not seen for the longest time.
      means.delete(key)
      const isDoubtful = mean !== undefined && micros < CERTAIN_US
      const seen = isDoubtful ? Math.min(micros, mean * MOST_TIMES + 1) : micros
      means.set(key, mean === undefined ? seen : mean + (seen - mean) * NEWEST)
      if (means.size > MAX_KEYS) means.delete(means.keys().next().value!)
    },
  }
}

/** Contract and selector of a call object, as it came over the wire. */
function targetOf(params: readonly unknown[]): { readonly to: string; readonly gas: number } {
  const first = params[0]
  if (typeof first !== 'object' || first === null) return { to: '', gas: 0 }
  const { to, data, input, gas } = first as Readonly<Record<string, unknown>>
  const calldata = typeof input === 'string' ? input : typeof data === 'string' ? data : ''
  const target = typeof to === 'string' ? to.slice(0, 42) : 'create'
  return {
    to: `${target}${calldata.slice(0, 10)}`,
    // Without a limit of its own a call may use all that the node allows.
    gas: typeof gas === 'string' ? Number(gas.slice(0, 18)) || 0 : Number.POSITIVE_INFINITY,
  }
}
