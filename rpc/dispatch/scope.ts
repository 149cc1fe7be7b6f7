/** What one request, or one batch, runs in: its view leased at the first use and given back at its end. */
import { leaseAhead } from '../../engine/chain/ahead.ts'
import { readNewest } from '../../engine/chain/newest.ts'
import type {
  ChainReader,
  ChainView,
  Endpoint,
  FlashblockPlace,
  LeasedView,
} from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Engine } from '../../engine/evm/engine.ts'
import { MissingError } from '../../engine/state/reader.ts'
import { type Needed, tooOld } from '../events/min-flashblock.ts'
import type { FrontContext, Method, MethodLimits } from '../method/method.ts'
import type { FrontServices } from '../method/services.ts'
import type { Client } from '../seam/client.ts'
import { errorOf, type RpcError } from '../seam/errors.ts'
import type { PoolReply } from '../seam/executor.ts'
import { noTries, type Rounds } from './rounds.ts'
import type { Slices } from './slices.ts'

export type ScopeOptions = {
  readonly endpoint: Endpoint
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: MethodLimits
  readonly services: FrontServices
  readonly rounds: Rounds
  /** Of the thread. */
  readonly slices: Slices
  readonly callPool: (
    scope: Scope,
    method: Method,
    params: readonly unknown[],
  ) => Promise<PoolReply>
}

/** The view that an answer was read from. */
export type Read = { readonly record: number; readonly pending: FlashblockPlace }
/** The view that a scope has to have: one that has reached the places, or that of the record. */
export type Pin = { readonly needed?: Needed | undefined; readonly record?: number | undefined }

/** A class, and its functions made when they are asked for: most requests use none of them, and there are many requests. */
export class Scope implements FrontContext {
  readonly client: Client
  /** Monotonic milliseconds. */
  readonly startedAt: number
  /** Every view that it leases has reached these; undefined: the newest will do. */
  readonly needed: Needed | undefined
  /** A worker has to read the record that is leased: the newest may be another place. */
  readonly isPinned: boolean
  readonly #options: ScopeOptions
  #lease: LeasedView | undefined
  /** The newest view that was read for the length of a call. */
  #newestRead: Read | undefined
  /** Leased first, because a batch has it; undefined: leased already, or there is none. */
  #record: number | undefined
  #later: (() => void)[] | undefined

  constructor(options: ScopeOptions, client: Client, startedAt: number, pin: Pin = {}) {
    this.#options = options
    this.client = client
    this.startedAt = startedAt
    this.needed = pin.needed
    this.#record = pin.record
    this.isPinned = pin.needed !== undefined || pin.record !== undefined
  }

  get view(): ChainView {
    return this.#leased().view
  }
  /** The record that is leased; leases one. */
  get record(): number {
    return this.#leased().record
  }
  /** The leased view, if there is one. */
  get held(): ChainView | undefined {
    return this.#lease?.view
  }
  /** The view that was read last; undefined: none was read since the last release. */
  get read(): Read | undefined {
    return this.#newestRead ?? this.held
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
        const { record, pending } = view
        this.#newestRead = { record, pending }
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
          const asked = { client, deadline, for: purpose }
          const problem = await rounds.fetchFor(error.missing, tries, asked)
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
  get afterAnswer(): FrontContext['afterAnswer'] {
    return (action) => {
      this.#later ??= []
      this.#later.push(action)
    }
  }

  /** Gives the view back; the next use leases the newest. */
  release(): void {
    const lease = this.#lease
    this.#lease = undefined
    this.#newestRead = undefined
    lease?.release()
  }

  /** Runs what was put off until the answer is with the socket. */
  answered(): void {
    const actions = this.#later
    if (actions === undefined) return
    this.#later = undefined
    // The socket writes in the promise's continuation, which runs before the next turn of the event loop.
    setImmediate(() => {
      for (const action of actions) action()
    })
  }

  /** @throws {RpcError} when the newest view is not as new as it has to be: a flush came between */
  #leased(): LeasedView {
    if (this.#lease !== undefined) return this.#lease
    const { endpoint, services } = this.#options
    const record = this.#record
    this.#record = undefined
    const shared = record === undefined ? undefined : services.reader.adopt(record, endpoint)
    const shown = shared ?? services.reader.lease(endpoint)
    const lack = this.needed && lackOf(shown, this.needed)
    const lease = lack === undefined ? shown : leaseReaching(services.reader, endpoint, this.needed)
    if (lease === undefined) throw lack
    this.#lease = lease
    return lease
  }
}

/** Clients that say what they have seen are shown that before others are. */
const leaseReaching = (reader: ChainReader, endpoint: Endpoint, needed: Needed | undefined) =>
  needed && leaseAhead(reader, endpoint, (view) => tooOld(view, needed) === undefined)

/** Gives the lease back where it is too old, or cannot be read. @throws {ViewError} */
function lackOf(lease: LeasedView, needed: Needed): RpcError | undefined {
  let isKept = false
  try {
    const lack = tooOld(lease.view, needed)
    isKept = lack === undefined
    return lack
  } finally {
    if (!isKept) lease.release()
  }
}
