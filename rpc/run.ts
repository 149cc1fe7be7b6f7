/** Runs the calls of one body over one view and makes their answers. */
import type { ChainView, Endpoint } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Engine } from '../engine/evm/engine.ts'
import type { ResultCache } from './cache.ts'
import { type Caller, createCaller, laneMs, outOfTime } from './call.ts'
import { asciiJson, type BadRequest, type Request } from './envelope.ts'
import { internalError, type RpcErrorObject, responseTooLarge } from './errors.ts'
import { type Answer, LARGE, LargeAnswer, type Part } from './exchange.ts'
import { type Executor, type PoolReply, sizeOfReply } from './executor.ts'
import type { Legacy } from './legacy.ts'
import type { Limits } from './limits.ts'
import type { Client, Method } from './method.ts'
import { readNewest, Scope } from './scope.ts'
import type { FrontServices } from './services.ts'

export type RunnerOptions = {
  readonly services: FrontServices
  readonly executor: Executor
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: Limits
  /** undefined: there is no chain before this one, or nobody has it. */
  readonly legacy?: Legacy | undefined
  /** A thrown thing that is no answer: for the log. */
  readonly onBug: (error: unknown, method: string) => void
  /** After each call; `method` is 'unknown' for a name that is not served, `code` undefined for a result. */
  readonly onCall?: (method: string, ms: number, code: number | undefined) => void
}
/** At once where nothing has to be waited for, as most reads of the front. Throws bugs alone. */
export type Runner = (
  items: readonly Item[],
  isBatch: boolean,
  client: Client,
) => Answer | Promise<Answer>

/** A request whose method is served. */
export type Ready = Request & { readonly found: Method }
export type Item = Ready | BadRequest
export const isReady = (item: Item): item is Ready => 'found' in item

type Running = {
  readonly item: Ready
  readonly scope: Scope
  readonly startedAt: number
  readonly by: Caller
}
/** Of a batch, by their place in it. */
type Waiting = Map<number, Promise<PoolReply>>
/** What an item is answered: text, or the parts of a result that came in pieces. */
type Said = string | readonly Part[]
type Ran = {
  readonly texts: readonly (Said | undefined)[]
  readonly headers: Readonly<Record<string, string>>
}

/** Front work of a batch after which other requests get a turn. */
const SLICE_MS = 10

export function createRunner(
  options: RunnerOptions,
  cache: ResultCache,
  endpoint: Endpoint,
): Runner {
  const { limits, services, executor, onBug, chain, engine, legacy } = options
  const local = createCaller({ endpoint, limits, executor, cache, onBug })
  const call = legacy?.callerOver(local) ?? local
  /** Of the newest record that was asked for. */
  let place: Place | undefined
  const parts = {
    endpoint,
    chain,
    engine,
    limits,
    services,
    callPool: async (scope: Scope, method: Method, params: readonly unknown[]) =>
      retried(
        { id: 'null', method: method.name, params, text: JSON.stringify(params), found: method },
        scope,
        local,
      ),
  }

  return function run(items, isBatch, client) {
    const scope = new Scope(parts, client, services.now())
    if (isBatch) return runBatch(items, scope)
    try {
      return runSingle(items[0]!, scope)
    } catch (error) {
      scope.release()
      throw error
    }
  }

  function runSingle(item: Item, scope: Scope): Answer | Promise<Answer> {
    if (!isReady(item)) {
      const reply = { error: item.error }
      count(reply, 'unknown', 0)
      return single(item, reply, scope)
    }
    const reply = retried(item, scope)
    return reply instanceof Promise ? later(item, reply, scope) : single(item, reply, scope)
  }

  async function later(item: Item, reply: Promise<PoolReply>, scope: Scope): Promise<Answer> {
    try {
      return single(item, await reply, scope)
    } finally {
      scope.release()
    }
  }

  function single(item: Item, reply: PoolReply, scope: Scope): Answer {
    scope.answered()
    const headers = headersOf(scope)
    scope.release()
    if ('result' in reply && reply.result.length >= LARGE && item.id !== undefined)
      return new LargeAnswer([resultHead(item.id), reply.result, '}'], headers)
    const said = saidOf(item, reply)
    if (typeof said === 'object') return new LargeAnswer(said, headers)
    return { text: said, status: said === undefined ? 204 : 200, headers }
  }

  /** The legacy chain is not asked for an answer that nobody gets. */
  function callerOf(item: Ready): Caller {
    return item.id === undefined ? local : call
  }

  /** Until the view stands still under the call, or its time is up. */
  function retried(item: Ready, scope: Scope, by = callerOf(item)) {
    const startedAt = services.now()
    const reply = by(item, scope, false)
    if (reply instanceof Promise || 'stale' in reply)
      return again(reply, { item, scope, startedAt, by })
    count(reply, item.method, services.now() - startedAt)
    return reply
  }

  async function again(
    first: PoolReply | Promise<PoolReply>,
    { item, scope, startedAt, by }: Running,
  ): Promise<PoolReply> {
    const end = scope.startedAt + laneMs(item.found.runs, limits)
    let reply = await first
    while ('stale' in reply) {
      scope.release()
      const now = services.now()
      if (now > end) reply = { error: outOfTime(scope, now).toObject() }
      else reply = await by(item, scope, false)
    }
    count(reply, item.method, services.now() - startedAt)
    return reply
  }

  async function runBatch(items: readonly Item[], scope: Scope): Promise<Answer> {
    try {
      const { texts, headers } = await runItems(items, scope)
      const said = texts.filter((text) => text !== undefined)
      scope.answered()
      if (said.length === 0) return { text: undefined, status: 204, headers }
      const length = said.reduce((sum, one) => sum + lengthOf(one), 0)
      if (length < LARGE && said.every((one) => typeof one === 'string'))
        return { text: `[${said.join(',')}]`, status: 200, headers }
      const parts = said.flatMap((one, at) => [at === 0 ? '[' : ',', ...partsOf(one)])
      return new LargeAnswer([...parts, ']'], headers)
    } finally {
      scope.release()
    }
  }

  /** All items over one view; when it is void they run again on a newer one, but for those that changed something. */
  async function runItems(items: readonly Item[], scope: Scope): Promise<Ran> {
    const replies: (PoolReply | undefined)[] = items.map((item) =>
      isReady(item) ? undefined : { error: item.error },
    )
    const waiting: Waiting = new Map()
    for (const [at, item] of items.entries())
      if (isReady(item) && item.found.isWaiting) waiting.set(at, apart(item, scope))
    for (;;) {
      await runRound(items, replies, { scope, waiting })
      if (!replies.some((one) => one !== undefined && 'stale' in one)) break
      if (services.now() > scope.deadline) break
      scope.release()
      for (const [at, item] of items.entries())
        if (isReady(item) && !item.found.hasEffect) replies[at] = undefined
    }
    const headers = headersOf(scope)
    // What still waits may take seconds, and does not read this view.
    scope.release()
    for (const [at, reply] of waiting) replies[at] = await reply
    return { texts: batchTexts(items, replies, scope), headers }
  }

  /** Of a batch, but over a view of its own. */
  async function apart(item: Ready, { client, startedAt }: Scope): Promise<PoolReply> {
    const scope = new Scope(parts, client, startedAt)
    try {
      return await retried(item, scope)
    } finally {
      scope.release()
    }
  }

  async function runRound(
    items: readonly Item[],
    replies: (PoolReply | undefined)[],
    { scope, waiting }: { readonly scope: Scope; readonly waiting: Waiting },
  ): Promise<void> {
    const running: Promise<void>[] = []
    let left = replies.reduce(
      (sum, reply) => sum - (reply === undefined ? 0 : sizeOfReply(reply)),
      limits.batchResponseBytes,
    )
    // What will not be sent is not kept until the others are there.
    const keep = (at: number, reply: PoolReply) => {
      const size = sizeOfReply(reply)
      const fits = size <= left || 'error' in reply || 'stale' in reply
      replies[at] = fits ? reply : tooLarge(size - left)
      if (fits) left -= size
    }
    let effects: Promise<void>[] = []
    let now = services.now()
    let sliceEnd = now + SLICE_MS
    for (const [at, item] of items.entries()) {
      if (replies[at] !== undefined || !isReady(item) || waiting.has(at)) continue
      const { found } = item
      // What follows a send in its batch may ask for what the send did.
      if (!found.hasEffect && effects.length > 0) {
        await Promise.all(effects)
        effects = []
        now = services.now()
      }
      if (now > sliceEnd) {
        await new Promise(setImmediate)
        now = services.now()
        sliceEnd = now + SLICE_MS
      }
      // The other node may take longer than a view can be held.
      if (item.id !== undefined && legacy?.isRouted(item, scope)) {
        waiting.set(at, apart(item, scope))
        continue
      }
      const startedAt = now
      const reply = local(item, scope, true)
      now = services.now()
      if (!(reply instanceof Promise)) {
        keep(at, reply)
        count(reply, item.method, now - startedAt)
        continue
      }
      const settled = reply.then((value) => {
        keep(at, value)
        count(value, item.method, services.now() - startedAt)
      })
      running.push(settled)
      if (found.hasEffect) effects.push(settled)
    }
    if (running.length > 0) await Promise.all(running)
  }

  function batchTexts(
    items: readonly Item[],
    replies: readonly (PoolReply | undefined)[],
    scope: Scope,
  ): (Said | undefined)[] {
    let bytes = 0
    return items.map((item, at) => {
      const reply = replies[at]
      const said =
        reply === undefined || 'stale' in reply
          ? saidOf(item, { error: outOfTime(scope, services.now()).toObject() })
          : saidOf(item, reply)
      if (said === undefined) return undefined
      bytes += lengthOf(said)
      if (bytes <= limits.batchResponseBytes) return said
      return saidOf(item, tooLarge(bytes - limits.batchResponseBytes))
    })
  }

  function tooLarge(excess: number): PoolReply {
    const limit = limits.batchResponseBytes
    return { error: responseTooLarge(limit + excess, limit).toObject() }
  }

  function count(reply: PoolReply, method: string, ms: number): void {
    if (options.onCall === undefined || 'stale' in reply) return
    options.onCall(method, ms, 'error' in reply ? reply.error.code : undefined)
  }

  /** Where the answer stands in the flashblocks: never newer than what it was read from. */
  function headersOf({ held, client }: Scope): Readonly<Record<string, string>> {
    if (endpoint !== 'flashblocks' || client.notify !== undefined) return NO_HEADERS
    const { reader } = services
    if (place?.record !== (held?.record ?? reader.newestRecord()))
      place = held === undefined ? readNewest(reader, endpoint, placeOf) : placeOf(held)
    return place.headers
  }
}

type Place = { readonly record: number; readonly headers: Readonly<Record<string, string>> }
const placeOf = ({ record, pending }: ChainView): Place => ({
  record,
  headers: { 'X-Flashblock': `${pending.number}:${pending.index}:${pending.payloadId ?? ''}` },
})

/** undefined: to a notification, nothing. */
function saidOf(item: Item, reply: PoolReply): Said | undefined {
  if (item.id === undefined) return undefined
  if ('pieces' in reply) return [resultHead(item.id), ...reply.pieces, '}']
  if ('result' in reply) return `${resultHead(item.id)}${reply.result}}`
  return errorText(item.id, 'error' in reply ? reply.error : internalError().toObject())
}

const partsOf = (said: Said): readonly Part[] => (typeof said === 'string' ? [said] : said)
const lengthOf = (said: Said): number =>
  typeof said === 'string' ? said.length : said.reduce((sum, { length }) => sum + length, 0)

const resultHead = (id: string): string => `{"jsonrpc":"2.0","id":${id},"result":`

export const errorText = (id: string, error: RpcErrorObject): string =>
  `{"jsonrpc":"2.0","id":${id},"error":${asciiJson(error)}}`

export const NO_HEADERS: Readonly<Record<string, string>> = {}
