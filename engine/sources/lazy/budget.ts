/**
 * Requests to upstreams for state: so many a second, the urgent first. Canonical blocks before flashblocks, those before sends, those
 * before calls, which get at most a third of all; among sends, and among calls, clients take turns.
 */
import type { Clock } from '../upstream/places.ts'

export type FetchFor = 'canonical' | 'flashblock' | 'send' | 'call'

export interface Budget {
  /** Requests that may go in one message: more would overdraw a purse that others keep of us. */
  readonly batch: number
  /**
   * Resolves when that many requests may go, all at once. The next ones wait until they are paid for.
   * @throws {BudgetError} too many wait already, or the budget is closed; the reason of `signal`
   */
  take(count: number, of: Payer): Promise<void>
  /** Requests that wait, by what they are for. */
  waiting(what: FetchFor): number
  /** Who waits is refused. */
  close(): void
}

export type Payer = {
  readonly what: FetchFor
  /** Whose call it is; they take turns. */
  readonly client: string
  readonly signal?: AbortSignal | undefined
}

export type BudgetLimits = {
  /** Requests a second. */
  readonly upstreamRate: number
  /** Requests that may wait for one kind of work, and for one client of it. */
  readonly fetchWaiting: number
  readonly fetchWaitingPerClient: number
}

export const DEFAULT_BUDGET_LIMITS: BudgetLimits = {
  upstreamRate: 90,
  fetchWaiting: 20_000,
  fetchWaitingPerClient: 4_000,
}

/** They are not asked for. */
export class BudgetError extends Error {
  override name = 'BudgetError'
}

/** The most urgent first. */
const ORDER: readonly FetchFor[] = ['canonical', 'flashblock', 'send', 'call']
/**
 * Of a second's requests, what may go at once: as much again can be overdrawn by one message, and together that is what a service
 * takes whose own purse holds a second's.
 */
const HELD = 1 / 2
const MOST_IN_BATCH = 100
/** Of all requests, what calls may use. */
const CALL_SHARE = 1 / 3

type Waiting = {
  readonly count: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}
/** By client; whose turn it is comes first. */
type Line = Map<string, Waiting[]>

export const createBudget = (limits: BudgetLimits, clock: Clock): Budget =>
  new BudgetState(limits, clock)

class BudgetState implements Budget {
  readonly batch: number
  readonly #limits: BudgetLimits
  readonly #clock: Clock
  readonly #lines = new Map<FetchFor, Line>(ORDER.map((what) => [what, new Map()]))
  readonly #all: Purse
  readonly #calls: Purse
  #timer: (() => void) | undefined
  #isClosed = false

  constructor(limits: BudgetLimits, clock: Clock) {
    this.batch = Math.min(MOST_IN_BATCH, Math.max(1, Math.floor(limits.upstreamRate * HELD)))
    this.#limits = limits
    this.#clock = clock
    this.#all = createPurse(limits.upstreamRate, clock)
    this.#calls = createPurse(limits.upstreamRate * CALL_SHARE, clock)
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

  /** Whoever can be paid for; then again when the next one can. What is less urgent does not go past it. */
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
    // To the end of the line with those of its that are left.
    line.delete(client)
    if (mine.length > 0) line.set(client, mine)
    this.#all.spend(count)
    if (what === 'call') this.#calls.spend(count)
    resolve()
  }
}

const closed = () => new BudgetError('nothing is fetched any more: the node stops')

const sum = (list: readonly Waiting[]) => list.reduce((sum, { count }) => sum + count, 0)

/** Fills up at a rate, holds what half a second brings, and may be overdrawn: the next one waits until it is not. */
type Purse = ReturnType<typeof createPurse>
function createPurse(perSecond: number, { now }: Pick<Clock, 'now'>) {
  let held = perSecond * HELD
  let at = now()
  const fill = () => {
    const time = now()
    held = Math.min(perSecond * HELD, held + ((time - at) / 1_000) * perSecond)
    at = time
  }
  return {
    /** Until something can be paid; 0: now. */
    delayMs(): number {
      fill()
      return held > 0 ? 0 : (-held / perSecond) * 1_000 + 1
    },
    spend(count: number): void {
      held -= count
    },
  }
}
