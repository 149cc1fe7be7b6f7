/** What one request, or one batch, runs in: its view leased at the first use and given back at its end. */
import type { ChainReader, ChainView, Endpoint, LeasedView } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Engine } from '../engine/evm/engine.ts'
import { ViewError } from '../engine/state/reader.ts'
import type { PoolReply } from './executor.ts'
import type { Limits } from './limits.ts'
import type { Client, FrontContext, Method } from './method.ts'
import type { FrontServices } from './services.ts'

export type ScopeParts = {
  readonly endpoint: Endpoint
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: Limits
  readonly services: FrontServices
  readonly callPool: (
    scope: Scope,
    method: Method,
    params: readonly unknown[],
  ) => Promise<PoolReply>
}

/** A class, and its functions made when they are asked for: most requests use none of them, and there are many requests. */
export class Scope implements FrontContext {
  readonly client: Client
  /** Monotonic milliseconds. */
  readonly startedAt: number
  readonly #parts: ScopeParts
  #lease: LeasedView | undefined
  #later: (() => void)[] | undefined

  constructor(parts: ScopeParts, client: Client, startedAt: number) {
    this.#parts = parts
    this.client = client
    this.startedAt = startedAt
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
  get chain(): ChainSpec {
    return this.#parts.chain
  }
  get engine(): Engine {
    return this.#parts.engine
  }
  get limits(): Limits {
    return this.#parts.limits
  }
  get services(): FrontServices {
    return this.#parts.services
  }
  get deadline(): number {
    return this.startedAt + this.#parts.limits.callMs
  }
  get isExpired(): () => boolean {
    return () => this.client.isGone || this.services.now() > this.deadline
  }
  get readNewest(): FrontContext['readNewest'] {
    const { services, endpoint } = this.#parts
    return (read) => readNewest(services.reader, endpoint, read)
  }
  get callPool(): FrontContext['callPool'] {
    return (method, params) => this.#parts.callPool(this, method, params)
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

  #leased(): LeasedView {
    this.#lease ??= this.#parts.services.reader.lease(this.#parts.endpoint)
    return this.#lease
  }
}

const ATTEMPTS = 4

/** Runs `read` over the newest record; again when that record vanished under it. */
export function readNewest<T>(
  reader: ChainReader,
  endpoint: Endpoint,
  read: (view: ChainView) => T,
): T {
  for (let attempt = 1; ; attempt++) {
    const lease = reader.lease(endpoint)
    try {
      return read(lease.view)
    } catch (error) {
      const isStale = error instanceof ViewError && error.reason !== 'pruned'
      if (!isStale || attempt === ATTEMPTS) throw error
    } finally {
      lease.release()
    }
  }
}
