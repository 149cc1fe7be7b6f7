/**
 * The origin of a response: its snapshot, and if the txpool or another node contributed.
 * Each request has a context (AsyncLocalStorage). Functions that read a view or call another node
 * therefore need no parameter for it.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { RpcResponse } from '../../rpc/core/exchange.ts'
import type { TransactionService } from '../../rpc/core/ports.ts'
import type { Provenance } from '../../rpc/dispatch/provenance.ts'
import type { Apart } from './lines.ts'

export type RequestContext = {
  /** undefined if no function set it; the newest snapshot at the end applies. */
  snapshot: number | undefined
  apart: Apart | undefined
}
type PendingResponse = RpcResponse | Promise<RpcResponse>

export interface RequestContexts {
  /** Callbacks for the functions that answer requests. */
  readonly provenance: Provenance
  /** Wraps the service; responses that depend on the txpool are marked. */
  transactions(service: TransactionService): TransactionService
  /**
   * @param then receives the response with its context, synchronously if the response is
   * synchronous
   */
  run(
    respond: () => PendingResponse,
    then: (response: RpcResponse, requestContext: RequestContext) => RpcResponse,
  ): PendingResponse
}

export function createRequestContexts(): RequestContexts {
  const requestContexts = new AsyncLocalStorage<RequestContext>()
  const apart = (why: Apart) => {
    const requestContext = requestContexts.getStore()
    if (requestContext !== undefined) requestContext.apart = why
  }
  return {
    provenance: {
      read(snapshot) {
        const requestContext = requestContexts.getStore()
        if (requestContext === undefined) return
        const { snapshot: other } = requestContext
        if (other !== undefined && snapshot !== undefined && snapshot !== other)
          requestContext.apart = 'views'
        requestContext.snapshot = snapshot ?? other
      },
      elsewhere: () => apart('elsewhere'),
    },
    transactions: (service) => recordedTransactions(service, () => apart('txpool')),
    run(respond, then) {
      const requestContext: RequestContext = { snapshot: undefined, apart: undefined }
      const response = requestContexts.run(requestContext, respond)
      return response instanceof Promise
        ? response.then((one) => then(one, requestContext))
        : then(response, requestContext)
    },
  }
}

/** An empty txpool does not influence the response, so it is not marked. */
function recordedTransactions(service: TransactionService, onUse: () => void): TransactionService {
  const recorded = <T>(value: T, isOfPool: boolean): T => {
    if (isOfPool) onUse()
    return value
  }
  return {
    ...service,
    get: (hash) => when(service.get(hash), (found) => recorded(found, found !== undefined)),
    nextNonce(sender, stateNonce) {
      const nonce = service.nextNonce(sender, stateNonce)
      return recorded(nonce, nonce !== stateNonce)
    },
    counts: () =>
      when(service.counts(), (counts) => recorded(counts, counts.pending + counts.queued > 0)),
  }
}

const when = <T>(value: T | Promise<T>, then: (value: T) => T): T | Promise<T> =>
  value instanceof Promise ? value.then(then) : then(value)
