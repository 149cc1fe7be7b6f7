/** What the main thread answers to the cells: of the txpool, of what it follows, and calls of the methods that run on it. */
import type { Endpoint } from '../../engine/chain/types.ts'
import { MissingError, ViewError } from '../../engine/state/reader.ts'
import { filterNotFound, type RpcErrorObject } from '../../rpc/seam/errors.ts'
import type { Answerer } from '../../rpc/seam/exchange.ts'
import type { Paid } from '../../rpc/seam/paid.ts'
import type { Forward, LazyState, TransactionService } from '../../rpc/seam/ports.ts'
import type { BootstrapService } from '../bootstrap/source.ts'
import type { Health } from '../observe/health.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { Answers, AskedFor } from './asking.ts'
import type { Called } from './carried.ts'
import type { CellQuestions, FilterAsked, Undone } from './messages.ts'

export type Answering = {
  readonly transactions: Omit<TransactionService, 'onPending' | 'onDeparted'>
  readonly lazy: LazyState | undefined
  readonly forward: Forward | undefined
  /** undefined: nobody copies this node. */
  readonly bootstrap: Pick<BootstrapService, 'answer'> | undefined
  /** Of the main thread's own front. */
  readonly answer: Answerer
  readonly health: Pick<Health, 'readiness'>
  readonly metrics: Pick<Metrics, 'read'>
  /** Of a cell, or of this thread; undefined: it is not there, or does not answer. */
  readonly filter: (cell: number, asked: FilterAsked) => Promise<Called | undefined>
}

export function answersOf(parts: Answering): Answers<keyof CellQuestions> {
  const { transactions, lazy, forward, answer, health, metrics } = parts
  return {
    submit: ({ raw, address, isTaken }, asked) =>
      orUndone(() => transactions.submit(raw, poolClient(address, asked), isTaken)),
    transaction: async ({ hash }) => foundOf(await transactions.get(hash)),
    standing: async ({ hash }) => foundOf(await transactions.standingOf(hash)),
    counts: () => transactions.counts(),
    async fetch({ keys, for: purpose, address: client }, { signal }) {
      if (lazy === undefined) return { failed: 'this node has all state' }
      return lazy.fetch(keys, { for: purpose, client, signal })
    },
    async forward({ method, params, to, address: client }, { signal }) {
      if (forward === undefined) return { silent: 'this node follows none' }
      return forward.forward(method, params, { to, client, signal })
    },
    call: (asked, client) => callOn(answer, asked, client),
    async filter({ cell, action, id }) {
      return (await parts.filter(cell, { action, id })) ?? { error: filterNotFound().toObject() }
    },
    bootstrap: async ({ url }) => (await parts.bootstrap?.answer(url)) ?? NOT_SERVED,
    readiness: ({ maxLagMs }) => health.readiness(maxLagMs),
    metric: async ({ name }) => ({ values: await metrics.read(name) }),
  }
}

const NOT_SERVED = { status: 404, wrong: 'not found' }

const foundOf = <T>(found: T | undefined): { readonly found?: T } =>
  found === undefined ? {} : { found }

const poolClient = (address: string, asked: AskedFor) => ({
  address,
  get isGone() {
    return asked.isGone
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

/** The cell has charged for it. */
const PAID: Paid = { points: Number.MAX_SAFE_INTEGER, least: 0 }
const HEAD = '{"jsonrpc":"2.0","id":1,"result":'

type CallAsked = {
  readonly method: string
  readonly text: string
  readonly endpoint: Endpoint
  readonly address: string
}
/** A call of a front that another one has taken. */
async function callOn(
  answer: Answerer,
  { method, text, endpoint, address }: CallAsked,
  asked: AskedFor,
): Promise<Called> {
  const { signal } = asked
  const body = `{"jsonrpc":"2.0","id":1,"method":${JSON.stringify(method)},"params":${text}}`
  const client = {
    ...{ address, endpoint, signal, notify: undefined },
    get isGone() {
      return asked.isGone
    },
  }
  const { text: said = '' } = await answer(body, client, PAID)
  if (said.startsWith(HEAD)) return { result: said.slice(HEAD.length, -1) }
  const { error } = JSON.parse(said) as { readonly error: RpcErrorObject }
  return { error }
}
