/**
 * Fetch rounds of a lazy node: missing state is fetched, and the call runs again. Rounds, keys and
 * time are bounded. No view is leased during a fetch.
 */
import type { MissingKey } from '../../engine/state/reader.ts'
import type { Client } from '../core/client.ts'
import { type RpcErrorObject, stateMissing } from '../core/errors.ts'
import type { Limits } from '../core/limits.ts'
import type { LazyState } from '../core/ports.ts'
import { abortAfter, type Now } from '../core/timeout.ts'
import { unlessAborted } from '../methods/shared/aborted.ts'

/** Counts of fetches for one call. */
export type Tries = { rounds: number; keys: number }
export const noTries = (): Tries => ({ rounds: 0, keys: 0 })

export type Waiting = {
  readonly client: Client
  /** Deadline of the call in monotonic milliseconds. */
  readonly deadline: number
  readonly for: 'send' | 'caller'
}
type Fetched = Awaited<ReturnType<LazyState['fetch']>>
/** A running fetch. `end` aborts when its first client leaves or has no time left. */
type Flight = {
  readonly landing: Promise<Fetched>
  readonly client: Client
  readonly end: AbortSignal
}

export type RoundStats = {
  readonly fetches: number
  readonly keys: number
  /** Calls that ended without their state. */
  readonly without: number
}

export class Rounds {
  readonly #lazy: LazyState | undefined
  readonly #limits: Pick<Limits, 'fetchRounds' | 'fetchKeys'>
  readonly #now: Now
  /** Running fetches by key list, because calls that share a run share the list of missing keys. */
  readonly #flights = new WeakMap<readonly MissingKey[], Flight>()
  #fetches = 0
  #keys = 0
  #without = 0

  /**
   * @param options `lazy` undefined: the node has all state, so missing state is an error at once
   */
  constructor(options: {
    readonly lazy: LazyState | undefined
    readonly limits: Pick<Limits, 'fetchRounds' | 'fetchKeys'>
    readonly now: Now
  }) {
    this.#lazy = options.lazy
    this.#limits = options.limits
    this.#now = options.now
  }

  /**
   * Counts a round of a call.
   * @returns the call's error if its limits are used up; undefined if it may fetch the keys
   */
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

  /** Makes the error of a call that ends without its state. */
  without(missing: readonly MissingKey[], why: string | undefined, tries: Tries): RpcErrorObject {
    this.#without++
    return stateMissing(missing, why, tries).toObject()
  }

  get stats(): RoundStats {
    return { fetches: this.#fetches, keys: this.#keys, without: this.#without }
  }

  /**
   * Fetches state and never rejects.
   * @returns the reason of a failure; undefined if the state can be read
   */
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
      // The fetch was aborted by its first client, which left or had less time.
      if (!flight.end.aborted || flight.client === client) return { why: done.failed }
    }
  }

  /**
   * Fetches state for a single call.
   * @returns the error that ends the call; undefined if the call may run again
   */
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

  /** Returns the running fetch of a key list. */
  #flightFor(missing: readonly MissingKey[]): Flight | undefined {
    const flight = this.#flights.get(missing)
    return flight === undefined || flight.end.aborted ? undefined : flight
  }

  #start(missing: readonly MissingKey[], waiting: Waiting, end: AbortSignal): Flight {
    this.#fetches++
    this.#keys += missing.length
    const { client } = waiting
    const request = { for: waiting.for, client: client.address, signal: end }
    const flight = { landing: this.#lazy!.fetch(missing, request), client, end }
    this.#flights.set(missing, flight)
    return flight
  }
}
