/** Context of one request or batch: its view is leased at the first use and released at its end. */

import { leaseNotYetVisible } from '../../engine/chain/not-yet-visible.ts'
import type {
  ChainReader,
  ChainView,
  Endpoint,
  FlashblockId,
  LeasedView,
} from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Engine } from '../../engine/evm/engine.ts'
import { MissingError } from '../../engine/state/reader.ts'
import type { Client } from '../core/client.ts'
import { errorOf } from '../core/errors.ts'
import type { PoolReply } from '../core/executor.ts'
import { type Needed, type NotReached, notReached } from '../events/min-flashblock.ts'
import type { FrontContext, Method, MethodLimits } from '../method/method.ts'
import type { FrontServices } from '../method/services.ts'
import { noTries, type Rounds } from './rounds.ts'
import type { Slices } from './slices.ts'

export type ScopeOptions = {
  readonly endpoint: Endpoint
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: MethodLimits
  readonly services: FrontServices
  readonly rounds: Rounds
  /** Time slices of the thread. */
  readonly slices: Slices
  readonly callPool: (
    scope: Scope,
    method: Method,
    params: readonly unknown[],
  ) => Promise<PoolReply>
}

/** The view that a response was read from. */
export type Read = { readonly snapshot: number; readonly pending: FlashblockId }
/** Constraints on the view of a scope, known before it is leased. */
export type Pin = {
  /** The view must have reached these flashblocks. */
  readonly needed?: Needed | undefined
  /** The view must be of this snapshot. */
  readonly snapshot?: number | undefined
  /** The view that has refused the request already. No other is leased. */
  readonly read?: Read | undefined
}

/** A class with functions created on access, because most of the many requests use none of them. */
export class Scope implements FrontContext {
  readonly client: Client
  /** Monotonic milliseconds. */
  readonly startedAt: number
  /** Flashblocks that every leased view has reached. undefined: the newest view suffices. */
  readonly needed: Needed | undefined
  /** A worker must read the leased snapshot, because the newest may differ. */
  readonly isPinned: boolean
  readonly #options: ScopeOptions
  #lease: LeasedView | undefined
  /** The view that `readNewest` read last. */
  #newestRead: Read | undefined
  #refusedAt: Read | undefined
  /** Snapshot of the batch that is leased first. undefined: already leased, or none. */
  #snapshot: number | undefined
  #later: (() => void)[] | undefined

  constructor(options: ScopeOptions, client: Client, startedAt: number, pin: Pin = {}) {
    this.#options = options
    this.client = client
    this.startedAt = startedAt
    this.needed = pin.needed
    this.#snapshot = pin.snapshot
    this.#refusedAt = pin.read
    this.isPinned = pin.needed !== undefined || pin.snapshot !== undefined
  }

  get view(): ChainView {
    return this.#leased().view
  }
  /** The leased snapshot; leases one if needed. */
  get snapshot(): number {
    return this.#leased().snapshot
  }
  /** The leased view, if any. */
  get leased(): ChainView | undefined {
    return this.#lease?.view
  }
  /** The view that was read last. undefined: none since the last release. */
  get read(): Read | undefined {
    return this.#newestRead ?? this.leased ?? this.#refusedAt
  }
  /** The view that was too old for the needed flashblocks. undefined: none was. */
  get refusedAt(): Read | undefined {
    return this.#refusedAt
  }
  get chain(): ChainSpec {
    return this.#options.chain
  }
  get engine(): Engine {
    return this.#options.engine
  }
  get limits(): MethodLimits {
    return this.#options.limits
  }
  get services(): FrontServices {
    return this.#options.services
  }
  get deadline(): number {
    return this.startedAt + this.#options.limits.callMs
  }
  get isExpired(): () => boolean {
    return () => this.client.isGone || this.services.now() > this.deadline
  }
  get readNewest(): FrontContext['readNewest'] {
    const { services, endpoint } = this.#options
    return (read) =>
      readNewest(services.reader, endpoint, (view) => {
        const { snapshot, pending } = view
        this.#newestRead = { snapshot, pending }
        return read(view)
      })
  }
  get callPool(): FrontContext['callPool'] {
    return (method, params) => this.#options.callPool(this, method, params)
  }
  get withState(): FrontContext['withState'] {
    const { rounds } = this.#options
    return async (read, purpose) => {
      const tries = noTries()
      for (;;)
        try {
          return await read()
        } catch (error) {
          if (!(error instanceof MissingError)) throw error
          const { client, deadline } = this
          const request = { client, deadline, for: purpose }
          const problem = await rounds.fetchFor(error.missing, tries, request)
          if (problem !== undefined) throw errorOf(problem)
        }
    }
  }
  get turn(): FrontContext['turn'] {
    const { slices, services } = this.#options
    return async () => {
      if (slices.isOver(services.now())) await slices.next()
    }
  }
  get afterResponse(): FrontContext['afterResponse'] {
    return (action) => {
      this.#later ??= []
      this.#later.push(action)
    }
  }

  /** Releases the view; the next use leases the newest. */
  release(): void {
    const lease = this.#lease
    this.#lease = undefined
    this.#newestRead = undefined
    this.#refusedAt = undefined
    lease?.release()
  }

  /** Runs the postponed actions after the response is written to the socket. */
  onResponded(): void {
    const actions = this.#later
    if (actions === undefined) return
    this.#later = undefined
    // The socket writes in the promise's continuation, which runs before the next turn of the event
    // loop.
    setImmediate(() => {
      for (const action of actions) action()
    })
  }

  /**
   * Leases a view.
   * @throws {RpcError} if the newest view has not reached the needed flashblocks
   */
  #leased(): LeasedView {
    if (this.#lease !== undefined) return this.#lease
    const { endpoint, services } = this.#options
    const snapshot = this.#snapshot
    this.#snapshot = undefined
    const shared = snapshot === undefined ? undefined : services.reader.adopt(snapshot, endpoint)
    const leased = shared ?? services.reader.lease(endpoint)
    const refusal = this.needed && refusalOf(leased, this.needed)
    const lease =
      refusal === undefined ? leased : leaseReaching(services.reader, endpoint, this.needed)
    if (lease === undefined) {
      this.#refusedAt = refusal?.read
      throw refusal?.error
    }
    this.#lease = lease
    return lease
  }
}

/**
 * Leases a view that is not yet visible to others. Clients that name a flashblock may read it
 * early.
 */
const leaseReaching = (reader: ChainReader, endpoint: Endpoint, needed: Needed | undefined) =>
  needed && leaseNotYetVisible(reader, endpoint, (view) => notReached(view, needed) === undefined)

/**
 * Checks a lease against the needed flashblocks, and releases it if it is too old or unreadable.
 * @throws {ViewError}
 */
function refusalOf(lease: LeasedView, needed: Needed): NotReached | undefined {
  let isRetained = false
  try {
    const refusal = notReached(lease.view, needed)
    isRetained = refusal === undefined
    return refusal
  } finally {
    if (!isRetained) lease.release()
  }
}
