/** The places for waiting calls, in number and in bytes: who has most makes place for who has less. */
import { LANE_NAMES, LANES, type Lane, type QueueLimits } from '../../rpc/seam/lane.ts'
import type { FairQueue, Queued } from './fair-queue.ts'

/** What takes a place. */
export type Placed = Queued & {
  readonly lane: Lane
  /** Of its parameters. */
  readonly bytes: number
}

/** Has no place, because of this limit. */
export type Out<T> = { readonly job: T; readonly limit: keyof QueueLimits }

export function createPlaces<T extends Placed>(
  limits: QueueLimits,
  queues: Readonly<Record<Lane, FairQueue<T>>>,
) {
  const shares = createShares()

  function enter(job: T): void {
    for (const [limit, amount] of claimsOf(job)) shares.add(limit, job.client, amount)
  }
  function leave(jobs: readonly T[]): readonly T[] {
    for (const job of jobs)
      for (const [limit, amount] of claimsOf(job)) shares.add(limit, job.client, -amount)
    return jobs
  }
  function longestOf(limit: keyof QueueLimits, lengthOf: (lane: Lane) => number): Lane {
    return LANE_NAMES.filter((lane) => limit === BYTES || LANES[lane].queue === limit)
      .map((lane) => ({ lane, length: lengthOf(lane) }))
      .reduce((a, b) => (b.length > a.length ? b : a)).lane
  }
  /**
   * The calls that make place for it, if any have to: the newest of who has most, also after it has come. A limit: whoever goes, that has
   * no place, so that nobody does.
   * @param runningBytes of calls that have been taken and still run
   */
  function placeFor(job: T, runningBytes: number): readonly Out<T>[] | keyof QueueLimits {
    const out: Out<T>[] = []
    /** How many of a lane and an address. */
    let planned: Map<string, number> | undefined
    for (const [limit, amount] of claimsOf(job)) {
      const others = limit === BYTES ? runningBytes : 0
      while (shares.total(limit) + others + amount > limits[limit]) {
        const { client, amount: most } = shares.most(limit)
        const taken = (lane: Lane) => planned?.get(`${lane} ${client}`) ?? 0
        const lane = longestOf(limit, (one) => queues[one].lengthOf(client) - taken(one))
        const next = queues[lane].before(client, taken(lane))
        if (most <= shares.of(limit, job.client) + amount || next === undefined) {
          for (const one of out) enter(one.job)
          return limit
        }
        planned ??= new Map()
        planned.set(`${lane} ${client}`, taken(lane) + 1)
        out.push({ job: next, limit })
        leave([next])
      }
    }
    return out
  }

  return { enter, leave, placeFor }
}

const BYTES = 'callQueueBytes'
/** What a waiting call takes of the queue's limits. */
const claimsOf = ({ lane, bytes }: Placed): readonly (readonly [keyof QueueLimits, number])[] => [
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
