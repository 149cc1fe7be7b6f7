/**
 * Rate limit of requests for state, the urgent first: canonical blocks, flashblocks, sends, calls.
 * Calls get at most a third of all requests. Clients take turns among sends, and among calls.
 */
import type { Clock } from '../upstream/permits.ts'

export type FetchFor = 'canonical' | 'flashblock' | 'send' | 'call'

export interface Budget {
  /**
   * Requests that may go in one message. A larger message would overdraw the bucket in which
   * services count our requests.
   */
  readonly batch: number
  /**
   * Waits until `count` requests may go at once. Later requests wait until these are paid.
   * @throws {BudgetError} when too many wait, or the budget is closed; the reason of `signal`
   */
  take(count: number, of: Payer): Promise<void>
  /** Number of waiting requests of one purpose. */
  waiting(what: FetchFor): number
  /** Rejects all waiting requests. */
  close(): void
}

export type Payer = {
  readonly what: FetchFor
  /** The client of the call; clients take turns. */
  readonly client: string
  readonly signal?: AbortSignal | undefined
}

export type BudgetLimits = {
  /** Requests a second. */
  readonly upstreamRate: number
  /** Limits of waiting requests: for each purpose, and for each client of a purpose. */
  readonly fetchWaiting: number
  readonly fetchWaitingPerClient: number
}

export const DEFAULT_BUDGET_LIMITS: BudgetLimits = {
  upstreamRate: 90,
  fetchWaiting: 20_000,
  fetchWaitingPerClient: 4_000,
}

/** Requests that are refused by the budget. */
export class BudgetError extends Error {
  override name = 'BudgetError'
}

/** Purposes, the most urgent first. */
const ORDER: readonly FetchFor[] = ['canonical', 'flashblock', 'send', 'call']
/**
 * Seconds of requests that the bucket contains. One message can overdraw the bucket by as much
 * again. The sum is one second, which is the size of a service's own bucket.
 */
const BURST_SECONDS = 1 / 2
const MAX_IN_BATCH = 100
/** Share of all requests that calls may use. */
const CALL_SHARE = 1 / 3

type Waiting = {
  readonly count: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}
/** Waiting requests by client; the next client comes first. */
type Line = Map<string, Waiting[]>

export const createBudget = (limits: BudgetLimits, clock: Clock): Budget =>
  new BudgetState(limits, clock)

class BudgetState implements Budget {
  readonly batch: number
  readonly #limits: BudgetLimits
  readonly #clock: Clock
  readonly #lines = new Map<FetchFor, Line>(ORDER.map((what) => [what, new Map()]))
  readonly #all: Bucket
  readonly #calls: Bucket
  #timer: (() => void) | undefined
  #isClosed = false

  constructor(limits: BudgetLimits, clock: Clock) {
    this.batch = Math.min(
      MAX_IN_BATCH,
      Math.max(1, Math.floor(limits.upstreamRate * BURST_SECONDS)),
    )
    this.#limits = limits
    this.#clock = clock
    this.#all = createBucket(limits.upstreamRate, clock)
    this.#calls = createBucket(limits.upstreamRate * CALL_SHARE, clock)
  }

  async take(count: number, payer: Payer): Promise<void> {
    const { signal } = payer
    signal?.throwIfAborted()
    this.#refuseWhereFull(count, payer)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const entry: Waiting = { count, resolve, reject }
    const line = this.#lines.get(payer.what)!
    const mine = line.get(payer.client)
    if (mine === undefined) line.set(payer.client, [entry])
    else mine.push(entry)
    const leave = () => this.#leave(payer, entry)
    signal?.addEventListener('abort', leave, { once: true })
    this.#serve()
    try {
      await promise
    } finally {
      signal?.removeEventListener('abort', leave)
    }
  }

  waiting(what: FetchFor): number {
    let count = 0
    for (const mine of this.#lines.get(what)!.values()) count += sum(mine)
    return count
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.()
    for (const line of this.#lines.values()) {
      for (const { reject } of [...line.values()].flat()) reject(closed())
      line.clear()
    }
  }

  #refuseWhereFull(count: number, { what, client }: Payer): void {
    if (this.#isClosed) throw closed()
    const { fetchWaiting, fetchWaitingPerClient } = this.#limits
    const mine = sum(this.#lines.get(what)!.get(client) ?? [])
    const all = this.waiting(what)
    if (all + count <= fetchWaiting && mine + count <= fetchWaitingPerClient) return
    throw new BudgetError(
      `too much of the state is asked for: ${mine} requests wait for this client, ${all} for all`,
    )
  }

  #leave({ what, client, signal }: Payer, entry: Waiting): void {
    const line = this.#lines.get(what)!
    const mine = line.get(client) ?? []
    const at = mine.indexOf(entry)
    if (at < 0) return
    mine.splice(at, 1)
    if (mine.length === 0) line.delete(client)
    entry.reject(signal!.reason)
    this.#serve()
  }

  /**
   * Serves waiting requests in order while the bucket allows, and sets a timer for the next. Less
   * urgent ones do not overtake it.
   */
  #serve(): void {
    this.#timer?.()
    this.#timer = undefined
    for (const what of ORDER) {
      const line = this.#lines.get(what)!
      while (line.size > 0) {
        const delay = this.#delayMs(what)
        if (delay > 0) {
          this.#timer = this.#clock.after(Math.ceil(delay), () => this.#serve())
          return
        }
        this.#pay(what, line)
      }
    }
  }

  #delayMs(what: FetchFor): number {
    const delay = this.#all.delayMs()
    return what === 'call' ? Math.max(delay, this.#calls.delayMs()) : delay
  }

  #pay(what: FetchFor, line: Line): void {
    const [client, mine] = line.entries().next().value!
    const { count, resolve } = mine.shift()!
    // The client goes to the end of the line with its remaining requests.
    line.delete(client)
    if (mine.length > 0) line.set(client, mine)
    this.#all.spend(count)
    if (what === 'call') this.#calls.spend(count)
    resolve()
  }
}

const closed = () => new BudgetError('nothing is fetched any more: the node stops')

const sum = (list: readonly Waiting[]) => list.reduce((sum, { count }) => sum + count, 0)

/**
 * A bucket that fills at a rate up to half a second's amount. Requests may overdraw the bucket, and
 * then the next request waits until tokens are left.
 */
type Bucket = ReturnType<typeof createBucket>
function createBucket(perSecond: number, { now }: Pick<Clock, 'now'>) {
  let tokens = perSecond * BURST_SECONDS
  let at = now()
  const fill = () => {
    const time = now()
    tokens = Math.min(perSecond * BURST_SECONDS, tokens + ((time - at) / 1_000) * perSecond)
    at = time
  }
  return {
    /** Milliseconds until a request can be paid; 0: now. */
    delayMs(): number {
      fill()
      return tokens > 0 ? 0 : (-tokens / perSecond) * 1_000 + 1
    },
    spend(count: number): void {
      tokens -= count
    },
  }
}
