/** Runs the calls of one body over one view and makes their answers. */
import type { ChainView, Endpoint } from '../engine/chain/types.ts'
import type { ChainSpec } from '../engine/chainspec/types.ts'
import type { Engine } from '../engine/evm/engine.ts'
import type { ResultCache } from './cache.ts'
import { createCaller, laneMs, outOfTime } from './call.ts'
import { asciiJson, type BadRequest, type Request } from './envelope.ts'
import { internalError, type RpcErrorObject, responseTooLarge } from './errors.ts'
import type { Answer } from './exchange.ts'
import type { Executor, PoolReply } from './executor.ts'
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
  /** A thrown thing that is no answer: for the log. */
  readonly onBug: (error: unknown, method: string) => void
  /** After each call; `method` is 'unknown' for a name that is not served, `code` undefined for a result. */
  readonly onCall?: (method: string, ms: number, code: number | undefined) => void
}
export type Runner = (items: readonly Item[], isBatch: boolean, client: Client) => Promise<Answer>

/** A request whose method is served. */
export type Ready = Request & { readonly found: Method }
export type Item = Ready | BadRequest
export const isReady = (item: Item): item is Ready => 'found' in item

type Ran = {
  readonly texts: readonly (string | undefined)[]
  readonly headers: Readonly<Record<string, string>>
}

/** Front work of a batch after which other requests get a turn. */
const SLICE_MS = 10

export function createRunner(
  options: RunnerOptions,
  cache: ResultCache,
  endpoint: Endpoint,
): Runner {
  const { limits, services, executor, onBug, chain, engine } = options
  const call = createCaller({ endpoint, limits, executor, cache, onBug })
  /** Of the newest record that was asked for. */
  let place: Place | undefined
  const parts = {
    endpoint,
    chain,
    engine,
    limits,
    services,
    callPool: (scope: Scope, method: Method, params: readonly unknown[]) =>
      retried(
        { id: 'null', method: method.name, params, text: JSON.stringify(params), found: method },
        scope,
      ),
  }

  return async function run(
    items: readonly Item[],
    isBatch: boolean,
    client: Client,
  ): Promise<Answer> {
    const scope = new Scope(parts, client, services.now())
    try {
      if (!isBatch) return await runSingle(items[0]!, scope)
      const ran = await runBatch(items, scope)
      const said = ran.texts.filter((text) => text !== undefined)
      scope.answered()
      if (said.length === 0) return { text: undefined, status: 204, headers: ran.headers }
      return { text: `[${said.join(',')}]`, status: 200, headers: ran.headers }
    } finally {
      scope.release()
    }
  }

  async function runSingle(item: Item, scope: Scope): Promise<Answer> {
    const reply = isReady(item) ? await retried(item, scope) : { error: item.error }
    if (!isReady(item)) count(reply, 'unknown', scope.startedAt)
    scope.answered()
    const text = textOf(item, reply)
    return { text, status: text === undefined ? 204 : 200, headers: headersOf(scope) }
  }

  /** Until the view stands still under the call, or its time is up. */
  async function retried(item: Ready, scope: Scope): Promise<PoolReply> {
    const end = scope.startedAt + laneMs(item.found.runs, limits)
    const startedAt = services.now()
    for (;;) {
      const called = call(item, scope, false)
      const reply = called instanceof Promise ? await called : called
      const now = services.now()
      const settled =
        'stale' in reply && now > end ? { error: outOfTime(scope, now).toObject() } : reply
      if (!('stale' in settled)) {
        count(settled, item.method, startedAt)
        return settled
      }
      scope.release()
    }
  }

  /** All items over one view; when it is void they run again on a newer one, but for those that changed something. */
  async function runBatch(items: readonly Item[], scope: Scope): Promise<Ran> {
    const replies: (PoolReply | undefined)[] = items.map((item) =>
      isReady(item) ? undefined : { error: item.error },
    )
    const waiting = items.map((item) =>
      isReady(item) && item.found.isWaiting
        ? retried(item, new Scope(parts, scope.client, scope.startedAt))
        : undefined,
    )
    for (;;) {
      await runRound(items, replies, scope)
      if (!replies.some((one) => one !== undefined && 'stale' in one)) break
      if (services.now() > scope.deadline) break
      scope.release()
      for (const [at, item] of items.entries())
        if (isReady(item) && !item.found.hasEffect) replies[at] = undefined
    }
    const headers = headersOf(scope)
    // What still waits may take seconds, and does not read this view.
    scope.release()
    const settled = await Promise.all(
      items.map((_item, at) => waiting[at] ?? replies[at] ?? { stale: true as const }),
    )
    return { texts: batchTexts(items, settled, scope), headers }
  }

  async function runRound(
    items: readonly Item[],
    replies: (PoolReply | undefined)[],
    scope: Scope,
  ): Promise<void> {
    const running: Promise<void>[] = []
    let effects: Promise<void>[] = []
    let sliceFrom = services.now()
    for (const [at, item] of items.entries()) {
      if (replies[at] !== undefined || !isReady(item) || item.found.isWaiting) continue
      const { found } = item
      // What follows a send in its batch may ask for what the send did.
      if (!found.hasEffect && effects.length > 0) {
        await Promise.all(effects)
        effects = []
      }
      if (services.now() - sliceFrom > SLICE_MS) {
        await new Promise(setImmediate)
        sliceFrom = services.now()
      }
      const startedAt = services.now()
      const reply = call(item, scope, true)
      if (!(reply instanceof Promise)) {
        replies[at] = reply
        count(reply, item.method, startedAt)
        continue
      }
      const settled = reply.then((value) => {
        replies[at] = value
        count(value, item.method, startedAt)
      })
      running.push(settled)
      if (found.hasEffect) effects.push(settled)
    }
    await Promise.all(running)
  }

  function batchTexts(
    items: readonly Item[],
    replies: readonly PoolReply[],
    scope: Scope,
  ): (string | undefined)[] {
    let bytes = 0
    return items.map((item, at) => {
      const reply = replies[at]!
      const text =
        'stale' in reply
          ? textOf(item, { error: outOfTime(scope, services.now()).toObject() })
          : textOf(item, reply)
      if (text === undefined) return undefined
      bytes += text.length
      if (bytes <= limits.batchResponseBytes) return text
      return errorText(
        item.id ?? 'null',
        responseTooLarge(bytes, limits.batchResponseBytes).toObject(),
      )
    })
  }

  function count(reply: PoolReply, method: string, startedAt: number): void {
    if (options.onCall === undefined || 'stale' in reply) return
    const code = 'error' in reply ? reply.error.code : undefined
    options.onCall(method, services.now() - startedAt, code)
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

function textOf(item: Item, reply: PoolReply): string | undefined {
  if (item.id === undefined) return undefined
  if ('result' in reply) return `{"jsonrpc":"2.0","id":${item.id},"result":${reply.result}}`
  return errorText(item.id, 'error' in reply ? reply.error : internalError().toObject())
}

export const errorText = (id: string, error: RpcErrorObject): string =>
  `{"jsonrpc":"2.0","id":${id},"error":${asciiJson(error)}}`

export const NO_HEADERS: Readonly<Record<string, string>> = {}
