/** Which waiting call goes to a worker next: bounded lanes, each of which serves its addresses in turn. */
import { forEachLane, LANE_NAMES, LANES, type Lane, type QueueLimits } from '../../rpc/seam/lane.ts'
import { FairQueue } from './fair-queue.ts'
import { createPlaces, type Out, type Placed } from './places.ts'
import { MAX_CALLS } from './task-memory.ts'

export type Waiting = Placed & {
  /** It had the last worker, and not for long enough. */
  readonly isPutBack: boolean
}

export interface Lanes<T extends Waiting> {
  /** Those that have no place any more: it alone, or others instead. */
  push(job: T, isFirst?: boolean): readonly Out<T>[]
  /** The next task; undefined: nothing that may run now. */
  next(load: Load): readonly T[] | undefined
  /** Whether something waits that may have the last worker. */
  isLastWanted(load: Load): boolean
  /** Milliseconds that a call waits until all workers together have done what is before it, at least. */
  waitMs(job: T, threads: number): number
  /** For each that `next` gave, when it has run: what it has cost. */
  done(job: T, micros: number): void
  /** Takes out those that the predicate names. */
  remove(isGone: (job: T) => boolean): readonly T[]
  readonly size: number
  sizes(): Readonly<Record<Lane, number>>
}
export type Load = {
  readonly threads: number
  /** Workers without a task. */
  readonly free: number
  /** Tasks of a lane that get on. */
  readonly tasksOf: (lane: Lane) => number
  /** Tasks of long lanes, and others that have turned out long. */
  readonly long: number
  /** How many of these are of an address. */
  readonly longOf: (client: string) => number
}

/** A guest on the last worker has it for so long, when others want it. */
export const LEASH_MS = 100

export function createLanes<T extends Waiting>(limits: QueueLimits, now: () => number): Lanes<T> {
  const queues = forEachLane((lane) => new FairQueue<T>(LANES[lane], now))
  const places = createPlaces(limits, queues)
  /** Of calls that have been taken and still run. */
  let runningBytes = 0
  /** Where the round begins, so that no lane waits for another to be empty. */
  let turn = 0

  function mayRun(lane: Lane, load: Load): boolean {
    const { length, waitingUs } = queues[lane]
    if (length === 0) return false
    const { wakeUs } = LANES[lane]
    return wakeUs === 0 || waitingUs >= wakeUs || load.tasksOf(lane) === 0
  }
  /** The last worker is for what is quick, and has one guest of an address that has no other worker. */
  const mayStart = (load: Load) => (job: T) => {
    if (!LANES[job.lane].isLong || load.long < load.threads - 1) return true
    const isGuest = !job.isPutBack && job.predicted < LEASH_MS * 1_000
    return isGuest && load.long < load.threads && load.longOf(job.client) === 0
  }

  return {
    push(job, isFirst) {
      const out = places.placeFor(job, runningBytes)
      if (typeof out === 'string') return [{ job, limit: out }]
      for (const one of out) queues[one.job.lane].pop(one.job.client)
      places.enter(job)
      queues[job.lane].push(job, isFirst)
      return out
    },
    next(load) {
      for (let step = 0; step < LANE_NAMES.length; step++) {
        const at = (turn + step) % LANE_NAMES.length
        const lane = LANE_NAMES[at]!
        if (!mayRun(lane, load)) continue
        const queue = queues[lane]
        const most = LANES[lane].isSpread ? Math.ceil(queue.length / load.free) : queue.length
        const jobs = queue.take(Math.min(MAX_CALLS, most), mayStart(load))
        if (jobs.length === 0) continue
        turn = at + 1
        for (const { bytes } of jobs) runningBytes += bytes
        return places.leave(jobs)
      }
      return undefined
    },
    isLastWanted: (load) =>
      LANE_NAMES.some((lane) => queues[lane].length > 0 && queues[lane].someFirst(mayStart(load))),
    waitMs: ({ lane, client }, threads) => queues[lane].beforeUs(client) / threads / 1_000,
    done(job, micros) {
      runningBytes -= job.bytes
      queues[job.lane].charge(job.client, micros - job.predicted)
    },
    remove: (isGone) => LANE_NAMES.flatMap((lane) => places.leave(queues[lane].remove(isGone))),
    get size() {
      return LANE_NAMES.reduce((sum, lane) => sum + queues[lane].length, 0)
    },
    sizes: () => forEachLane((lane) => queues[lane].length),
  }
}
