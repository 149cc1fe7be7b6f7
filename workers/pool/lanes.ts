/** Which waiting call goes to a worker next: bounded lanes, each of which serves its addresses in turn. */
import { forEachLane, LANE_NAMES, LANES, type Lane, type QueueLimits } from '../../rpc/seam/lane.ts'
import { FairQueue, type Queued } from './fair-queue.ts'
import { MAX_CALLS } from './task-memory.ts'

export type Waiting = Queued & {
  readonly lane: Lane
  /** Of its parameters. */
  readonly bytes: number
  /** It had the last worker, and not for long enough. */
  readonly isPutBack: boolean
}

export interface Lanes<T extends Waiting> {
  /** Those that have no place any more: it, or others instead. */
  push(job: T, isFirst?: boolean): readonly T[]
  /** The next task; undefined: nothing that may run now. */
  next(load: Load): readonly T[] | undefined
  /** Whether something waits that may have the last worker. */
  isLastWanted(load: Load): boolean
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
  const shares = createShares()
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

  function left(jobs: readonly T[]): readonly T[] {
    for (const job of jobs)
      for (const [limit, amount] of claimsOf(job)) shares.add(limit, job.client, -amount)
    return jobs
  }
  function popNewest(client: string, limit: keyof QueueLimits): readonly T[] {
    const lengthOf = (lane: Lane) => queues[lane].lengthOf(client)
    const longest = LANE_NAMES.filter((lane) => limit === BYTES || LANES[lane].queue === limit)
      .map((lane) => ({ lane, length: lengthOf(lane) }))
      .reduce((a, b) => (b.length > a.length ? b : a))
    const job = queues[longest.lane].pop(client)
    return job === undefined ? [] : left([job])
  }
  /** Who has most makes place for who has less, also after it has come. */
  function makePlace(job: T): readonly T[] {
    const out: T[] = []
    for (const [limit, amount] of claimsOf(job)) {
      const others = limit === BYTES ? runningBytes : 0
      const isFull = () => shares.total(limit) + others + amount > limits[limit]
      while (isFull()) {
        const most = shares.most(limit)
        if (most.amount <= shares.of(limit, job.client) + amount) return [...out, job]
        out.push(...popNewest(most.client, limit))
      }
    }
    return out
  }

  return {
    push(job, isFirst) {
      const out = makePlace(job)
      if (out.includes(job)) return out
      for (const [limit, amount] of claimsOf(job)) shares.add(limit, job.client, amount)
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
        return left(jobs)
      }
      return undefined
    },
    isLastWanted: (load) =>
      LANE_NAMES.some((lane) => queues[lane].length > 0 && queues[lane].someFirst(mayStart(load))),
    done(job, micros) {
      runningBytes -= job.bytes
      queues[job.lane].charge(job.client, micros - job.predicted)
    },
    remove: (isGone) => LANE_NAMES.flatMap((lane) => left(queues[lane].remove(isGone))),
    get size() {
      return LANE_NAMES.reduce((sum, lane) => sum + queues[lane].length, 0)
    },
    sizes: () => forEachLane((lane) => queues[lane].length),
  }
}

const BYTES = 'callQueueBytes'
/** What a waiting call takes of the queue's limits. */
const claimsOf = ({ lane, bytes }: Waiting): readonly (readonly [keyof QueueLimits, number])[] => [
  [LANES[lane].queue, 1],
  [BYTES, bytes],
]

/** How much of each limit all waiting calls take, and those of each address. */
function createShares() {
  const totals = new Map<keyof QueueLimits, number>()
  const amounts = new Map<keyof QueueLimits, Map<string, number>>()
  const of = (limit: keyof QueueLimits, client: string) => amounts.get(limit)?.get(client) ?? 0
  return {
    of,
    total: (limit: keyof QueueLimits) => totals.get(limit) ?? 0,
    most(limit: keyof QueueLimits): { readonly client: string; readonly amount: number } {
      let most = { client: '', amount: 0 }
      for (const [client, amount] of amounts.get(limit) ?? [])
        if (amount > most.amount) most = { client, amount }
      return most
    },
    add(limit: keyof QueueLimits, client: string, amount: number): void {
      totals.set(limit, (totals.get(limit) ?? 0) + amount)
      const own = amounts.get(limit) ?? new Map<string, number>()
      amounts.set(limit, own)
      const next = of(limit, client) + amount
      if (next > 0) own.set(client, next)
      else own.delete(client)
    },
  }
}
