/**
 * Handlers of the front threads' requests on the main thread: txpool, followed network, and methods
 * that run here.
 */
import type { Endpoint } from '../../engine/chain/types.ts'
import { MissingError, ViewError } from '../../engine/state/reader.ts'
import { filterNotFound, type RpcErrorObject } from '../../rpc/core/errors.ts'
import type { Responder } from '../../rpc/core/exchange.ts'
import type { Forward, LazyState, TransactionService } from '../../rpc/core/ports.ts'
import type { Prepaid } from '../../rpc/core/prepaid.ts'
import type { BootstrapService } from '../bootstrap/source.ts'
import type { Health } from '../observe/health.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Called } from './carried.ts'
import type { FilterRequest, FrontThreadQuestions, Undone } from './messages.ts'
import type { RequestClient, RequestHandlers } from './requests.ts'

export type HandlerPorts = {
  readonly transactions: Omit<TransactionService, 'onPending' | 'onDeparted'>
  readonly lazy: LazyState | undefined
  readonly forward: Forward | undefined
  /** undefined if no replica may copy this node. */
  readonly bootstrap: Pick<BootstrapService, 'respond'> | undefined
  /** Responder of the main thread's own front. */
  readonly respond: Responder
  readonly health: Pick<Health, 'readiness'>
  readonly metrics: Pick<Metrics, 'read'>
  /** Calls a filter of any front thread; undefined if the thread is missing or does not respond. */
  readonly filter: (frontThread: number, request: FilterRequest) => Promise<Called | undefined>
}

export function requestHandlers(parts: HandlerPorts): RequestHandlers<keyof FrontThreadQuestions> {
  const { transactions, lazy, forward, respond, health, metrics } = parts
  return {
    submit: ({ raw, address, isTaken }, client) =>
      orUndone(() => transactions.submit(raw, poolClient(address, client), isTaken)),
    transaction: async ({ hash }) => foundOf(await transactions.get(hash)),
    standing: async ({ hash }) => foundOf(await transactions.standingOf(hash)),
    counts: () => transactions.counts(),
    async fetch({ keys, for: purpose, address: client }, { signal }) {
      if (lazy === undefined)
        return { failed: 'this node has all of the state, so it fetches nothing' }
      return lazy.fetch(keys, { for: purpose, client, signal })
    },
    async forward({ method, params, to, address: client }, { signal }) {
      if (forward === undefined) return { silent: 'this node has no upstream' }
      return forward.forward(method, params, { to, client, signal })
    },
    call: (request, client) => callOn(respond, request, client),
    async filter({ frontThread, action, id }) {
      return (
        (await parts.filter(frontThread, { action, id })) ?? { error: filterNotFound().toObject() }
      )
    },
    bootstrap: async ({ url }) => (await parts.bootstrap?.respond(url)) ?? NOT_SERVED,
    readiness: ({ maxLagMs }) => health.readiness(maxLagMs),
    metric: async ({ name }) => ({ values: await metrics.read(name) }),
  }
}

const NOT_SERVED = { status: 404, wrong: 'not found' }

const foundOf = <T>(found: T | undefined): { readonly found?: T } =>
  found === undefined ? {} : { found }

const poolClient = (address: string, client: RequestClient) => ({
  address,
  get isGone() {
    return client.isGone
  },
})

async function orUndone<T>(work: () => T | Promise<T>): Promise<T | Undone> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof MissingError) return { missing: error.missing }
    if (!(error instanceof ViewError)) throw error
    const { reason, message } = error
    return { view: { reason, message } }
  }
}

/** The front thread has charged for the call. */
const FULLY_PREPAID: Prepaid = { points: Number.MAX_SAFE_INTEGER, min: 0 }
const HEAD = '{"jsonrpc":"2.0","id":1,"result":'

type CallRequest = {
  readonly method: string
  readonly text: string
  readonly endpoint: Endpoint
  readonly address: string
}
/** Runs a call that another front received. */
async function callOn(
  respond: Responder,
  { method, text, endpoint, address }: CallRequest,
  requester: RequestClient,
): Promise<Called> {
  const { signal } = requester
  const body = `{"jsonrpc":"2.0","id":1,"method":${JSON.stringify(method)},"params":${text}}`
  const client = {
    address,
    endpoint,
    signal,
    notify: undefined,
    get isGone() {
      return requester.isGone
    },
  }
  const { text: said = '' } = await respond(body, client, FULLY_PREPAID)
  if (said.startsWith(HEAD)) return { result: said.slice(HEAD.length, -1) }
  const { error } = JSON.parse(said) as { readonly error: RpcErrorObject }
  return { error }
}
