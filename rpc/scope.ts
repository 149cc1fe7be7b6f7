/** What one request, or one batch, runs in: its view leased at the first use and given back at its end. */
import type { ChainReader, ChainView, Endpoint, LeasedView } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Engine } from '../engine/evm/engine.ts'
import { ViewError } from '../engine/state/reader.ts'
import type { PoolReply } from './executor.ts'
import type { Limits } from './limits.ts'
import type { Client, FrontContext, Method } from './method.ts'
import type { FrontServices } from './services.ts'

export type Scope = FrontContext & {
  /** Monotonic milliseconds. */
  readonly startedAt: number
  readonly deadline: number
  /** The record that is leased; leases one. */
  record(): number
  /** The leased view, if there is one. */
  held(): ChainView | undefined
  /** Gives the view back; the next use leases the newest. */
  release(): void
  /** Runs what was put off until the answer is with the socket. */
  answered(): void
}

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

export function createScope(parts: ScopeParts, client: Client, startedAt: number): Scope {
  const { endpoint, services, limits } = parts
  const { reader, now } = services
  const deadline = startedAt + limits.callMs
  let lease: LeasedView | undefined
  let later: (() => void)[] | undefined
  const leased = (): LeasedView => {
    lease ??= reader.lease(endpoint)
    return lease
  }
  const scope: Scope = {
    get view() {
      return leased().view
    },
    chain: parts.chain,
    engine: parts.engine,
    limits,
    services,
    client,
    startedAt,
    deadline,
    isExpired: () => client.signal.aborted || now() > deadline,
    readNewest: (read) => readNewest(reader, endpoint, read),
    callPool: (method, params) => parts.callPool(scope, method, params),
    afterAnswer(action) {
      later ??= []
      later.push(action)
    },
    record: () => leased().record,
    held: () => lease?.view,
    release() {
      lease?.release()
      lease = undefined
    },
    answered() {
      if (later === undefined) return
      const actions = later
      later = undefined
      // The socket writes in the promise's continuation, which runs before the next turn of the event loop.
      setImmediate(() => {
        for (const action of actions) action()
      })
    },
  }
  return scope
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
