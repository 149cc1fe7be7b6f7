/** Rounds of a lazy node: what a call misses is fetched and the call runs again, bounded in rounds, keys and time. Nothing is held meanwhile. */
import type { MissingKey } from '../../engine/state/reader.ts'
import { unlessAborted } from '../seam/aborted.ts'
import type { Client } from '../seam/client.ts'
import { type RpcErrorObject, stateMissing } from '../seam/errors.ts'
import type { Limits } from '../seam/limits.ts'
import { abortAfter, type Now } from '../seam/patience.ts'
import type { LazyState } from '../seam/ports.ts'

/** What has been fetched for one call. */
export type Tries = { rounds: number; keys: number }
export const noTries = (): Tries => ({ rounds: 0, keys: 0 })

export type Waiting = {
  readonly client: Client
  /** Monotonic milliseconds: of the call itself. */
  readonly deadline: number
  readonly for: 'send' | 'caller'
}
type Fetched = Awaited<ReturnType<LazyState['fetch']>>
/** `end`: of the client that began it. */
type Flight = {
  readonly landing: Promise<Fetched>
  readonly client: Client
  readonly end: AbortSignal
}

export type RoundStats = {
  readonly fetches: number
  readonly keys: number
  /** Calls that ended without the state that they read. */
  readonly without: number
}

export class Rounds {
  readonly #lazy: LazyState | undefined
  readonly #limits: Pick<Limits, 'fetchRounds' | 'fetchKeys'>
  readonly #now: Now
  /** Calls that share a run miss the same list, and wait for the same fetch. */
  readonly #flights = new WeakMap<readonly MissingKey[], Flight>()
  #fetches = 0
  #keys = 0
  #without = 0

  /** @param options `lazy` undefined: the node has all state, and missing what it reads is an error at once */
  constructor(options: {
    readonly lazy: LazyState | undefined
    readonly limits: Pick<Limits, 'fetchRounds' | 'fetchKeys'>
    readonly now: Now
  }) {
    this.#lazy = options.lazy
    this.#limits = options.limits
    this.#now = options.now
  }

  /** What a call that has missed these ends with; undefined: it may go on with them. */
  admit(missing: readonly MissingKey[], tries: Tries): RpcErrorObject | undefined {
    const { fetchRounds, fetchKeys } = this.#limits
    const refuse = (why?: string) => this.without(missing, why, { ...tries })
    if (this.#lazy === undefined) return refuse()
    if (tries.rounds >= fetchRounds) return refuse(`after ${fetchRounds} rounds`)
    if (tries.keys + missing.length > fetchKeys) return refuse(`more than ${fetchKeys} keys`)
    tries.rounds++
    tries.keys += missing.length
    return undefined
  }

  /** What a call ends with that goes on no more. */
  without(missing: readonly MissingKey[], why: string | undefined, tries: Tries): RpcErrorObject {
    this.#without++
    return stateMissing(missing, why, tries).toObject()
  }

  get stats(): RoundStats {
    return { fetches: this.#fetches, keys: this.#keys, without: this.#without }
  }

  /** Gives why they are not at hand; undefined: they are. Never rejects. */
  async fetch(
    missing: readonly MissingKey[],
    waiting: Waiting,
  ): Promise<{ readonly why: string | undefined } | undefined> {
    const { client, deadline } = waiting
    for (;;) {
      const left = deadline - this.#now()
      if (left <= 0 || client.isGone) return { why: undefined }
      const late = abortAfter(left, this.#now)
      const end = AbortSignal.any([client.signal, late.signal])
      const flight = this.#flightFor(missing) ?? this.#start(missing, waiting, end)
      const done = await unlessAborted(flight.landing, end).finally(late.end)
      if (done === undefined) return { why: undefined }
      if (done.failed === undefined) return undefined
      if (this.#flights.get(missing) === flight) this.#flights.delete(missing)
      // It ended with the client that began it, which left or had less time.
      if (!flight.end.aborted || flight.client === client) return { why: done.failed }
    }
  }

  /** The same for one call alone. */
  async fetchFor(
    missing: readonly MissingKey[],
    tries: Tries,
    waiting: Waiting,
  ): Promise<RpcErrorObject | undefined> {
    const refused = this.admit(missing, tries)
    if (refused !== undefined) return refused
    const problem = await this.fetch(missing, waiting)
    return problem && this.without(missing, problem.why, tries)
  }

  /** One that goes on. */
  #flightFor(missing: readonly MissingKey[]): Flight | undefined {
    const flight = this.#flights.get(missing)
    return flight === undefined || flight.end.aborted ? undefined : flight
  }

  #start(missing: readonly MissingKey[], waiting: Waiting, end: AbortSignal): Flight {
    this.#fetches++
    this.#keys += missing.length
    const { client } = waiting
    const asked = { for: waiting.for, client: client.address, signal: end }
    const flight = { landing: this.#lazy!.fetch(missing, asked), client, end }
    this.#flights.set(missing, flight)
    return flight
  }
}
