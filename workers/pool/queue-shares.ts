/**
 * Divides the queue's capacity, in number and in bytes, among addresses. The address with the most
 * gives up capacity to others.
 */
import {
  QUEUE_CLASS_NAMES,
  QUEUE_CLASSES,
  type QueueClass,
  type QueueLimits,
} from '../../rpc/core/queue-class.ts'
import type { FairQueue, Queued } from './fair-queue.ts'

/** A call that takes capacity. */
export type QueuedCall = Queued & {
  readonly queueClass: QueueClass
  /** Bytes of the parameters. */
  readonly bytes: number
}

/** A call without a queue entry, and the limit that caused this. */
export type Out<T> = { readonly job: T; readonly limit: keyof QueueLimits }

export function createQueueShares<T extends QueuedCall>(
  limits: QueueLimits,
  queues: Readonly<Record<QueueClass, FairQueue<T>>>,
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
  function longestOf(
    limit: keyof QueueLimits,
    lengthOf: (queueClass: QueueClass) => number,
  ): QueueClass {
    return QUEUE_CLASS_NAMES.filter(
      (queueClass) => limit === BYTES || QUEUE_CLASSES[queueClass].queue === limit,
    )
      .map((queueClass) => ({ queueClass, length: lengthOf(queueClass) }))
      .reduce((a, b) => (b.length > a.length ? b : a)).queueClass
  }
  /**
   * Finds the calls that must leave so that `job` fits: the newest ones of the address with the
   * largest share. It returns a limit instead when `job` would not fit whatever leaves.
   * @param runningBytes bytes of calls that were taken and still run
   */
  function freeCapacityFor(job: T, runningBytes: number): readonly Out<T>[] | keyof QueueLimits {
    const out: Out<T>[] = []
    /** Number of calls that leave, by queue class and address. */
    let planned: Map<string, number> | undefined
    for (const [limit, amount] of claimsOf(job)) {
      const others = limit === BYTES ? runningBytes : 0
      while (shares.total(limit) + others + amount > limits[limit]) {
        const { client, amount: largest } = shares.largest(limit)
        const taken = (queueClass: QueueClass) => planned?.get(`${queueClass} ${client}`) ?? 0
        const queueClass = longestOf(limit, (one) => queues[one].lengthOf(client) - taken(one))
        const next = queues[queueClass].before(client, taken(queueClass))
        if (largest <= shares.of(limit, job.client) + amount || next === undefined) {
          for (const one of out) enter(one.job)
          return limit
        }
        planned ??= new Map()
        planned.set(`${queueClass} ${client}`, taken(queueClass) + 1)
        out.push({ job: next, limit })
        leave([next])
      }
    }
    return out
  }

  return { enter, leave, freeCapacityFor }
}

const BYTES = 'callQueueBytes'
/** Capacity that a waiting call takes, for each limit. */
const claimsOf = ({
  queueClass,
  bytes,
}: QueuedCall): readonly (readonly [keyof QueueLimits, number])[] => [
  [QUEUE_CLASSES[queueClass].queue, 1],
  [BYTES, bytes],
]

/** Amount of each limit that all waiting calls take, and that each address takes. */
function createShares() {
  const totals = new Map<keyof QueueLimits, number>()
  const amounts = new Map<keyof QueueLimits, Map<string, number>>()
  const of = (limit: keyof QueueLimits, client: string) => amounts.get(limit)?.get(client) ?? 0
  return {
    of,
    total: (limit: keyof QueueLimits) => totals.get(limit) ?? 0,
    largest(limit: keyof QueueLimits): { readonly client: string; readonly amount: number } {
      let largest = { client: '', amount: 0 }
      for (const [client, amount] of amounts.get(limit) ?? [])
        if (amount > largest.amount) largest = { client, amount }
      return largest
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
