/** JSON-RPC 2.0: a body is looked at, parsed once, charged for as a whole, run over one view, and answered by concatenation. */
import type { Endpoint } from '../engine/chain/types.ts'
import { createResultCache, type ResultCache } from './cache.ts'
import { readRequest, type Scan, scan } from './envelope.ts'
import {
  batchTooLarge,
  emptyBatch,
  internalError,
  methodNotFound,
  parseError,
  rateLimited,
} from './errors.ts'
import { type Answer, type Answerer, LARGE } from './exchange.ts'
import type { ReceiptHold } from './hold.ts'
import type { Charge, Limiter } from './limiter.ts'
import type { Client, Methods } from './method.ts'
import {
  createRunner,
  errorText,
  type Item,
  isReady,
  NO_HEADERS,
  type RunnerOptions,
} from './run.ts'
import type { ShownReceipts } from './shown.ts'

export type AnswererOptions = RunnerOptions & {
  readonly methods: Readonly<Record<Endpoint, Methods>>
  readonly limiter: Pick<Limiter, 'charge'>
  /** Of the flashblocks endpoint; undefined: receipts are never held. */
  readonly hold: ReceiptHold | undefined
  /** Of the flashblocks endpoint; undefined: `latest` never waits. */
  readonly shown?: ShownReceipts | undefined
}

/** More items than this many times the limit get one error instead of one each. */
const HOPELESS = 10
/** A body of nothing but space gets no answer, as go-ethereum has it; a long one is a parse error. */
const SHORT_CHARACTERS = 32

export function createAnswerer(
  options: AnswererOptions,
): Answerer & { readonly cache: ResultCache } {
  const { limits, limiter, methods } = options
  const scanLimits = {
    depth: limits.jsonDepth,
    keys: limits.objectKeys,
    hexKeys: limits.overrideItems,
    values: limits.jsonValues,
    items: limits.batchItems * HOPELESS,
  }
  const cache = createResultCache({
    items: limits.resultCacheItems,
    bytes: limits.resultCacheBytes,
  })
  const runs = {
    standard: createRunner(options, cache, 'standard'),
    flashblocks: createRunner(options, cache, 'flashblocks'),
  }

  /** When the large answer before has gone out. */
  let lastLarge: Promise<unknown> = Promise.resolve()

  function answer(body: string, client: Client): Answer | Promise<Answer> {
    try {
      const answered = respond(body, client)
      if (answered instanceof Promise) return answered.then(inTurn).catch(bug)
      return inTurn(answered)
    } catch (error) {
      return bug(error)
    }
  }
  function inTurn(answered: Answer): Answer | Promise<Answer> {
    if (answered.parts === undefined && (answered.text?.length ?? 0) < LARGE) return answered
    const turn = lastLarge.then(() => new Promise((resolve) => setImmediate(resolve, answered)))
    lastLarge = turn
    return turn as Promise<Answer>
  }
  function bug(error: unknown): Answer {
    options.onBug(error, 'dispatch')
    return reply(errorText('null', internalError().toObject()))
  }

  function respond(body: string, client: Client): Answer | Promise<Answer> {
    if (body.length < SHORT_CHARACTERS && body.trim() === '') return nothing(200)
    const looked = scan(body, scanLimits)
    const items =
      looked.fault === undefined ? parse(body, looked, methods[client.endpoint]) : undefined
    if (items === undefined || items.length === 0 || looked.items > limits.batchItems)
      return charged(1, client, (charge) => refuseWhole(charge, looked, items))
    let cost = 0
    for (const item of items) cost += isReady(item) ? item.found.cost : 1
    return charged(cost, client, (charge) =>
      charge.isAllowed
        ? run(items, looked.isBatch, client)
        : tooMany(charge, items, looked.isBatch),
    )
  }

  function charged(
    cost: number,
    client: Client,
    go: (charge: Charge) => Answer | Promise<Answer>,
  ): Answer | Promise<Answer> {
    const charge = limiter.charge(client.address, cost)
    return charge instanceof Promise ? charge.then(go) : go(charge)
  }

  function run(items: readonly Item[], isBatch: boolean, client: Client): Answer | Promise<Answer> {
    const runOn = runs[client.endpoint]
    if (client.endpoint === 'standard') return runOn(items, isBatch, client)
    const ready = items.filter(isReady)
    const held = options.hold?.before(ready, client)
    if (held !== undefined)
      return held
        .then(() => options.shown?.before(ready, client))
        .then(() => runOn(items, isBatch, client))
    const shown = options.shown?.before(ready, client)
    if (shown !== undefined) return shown.then(() => runOn(items, isBatch, client))
    return runOn(items, isBatch, client)
  }

  /** What is wrong with all of it: charged as one. */
  function refuseWhole(charge: Charge, looked: Scan, items: readonly Item[] | undefined): Answer {
    if (!charge.isAllowed)
      return tooMany(charge, [{ id: 'null', error: parseError().toObject() }], false)
    const { batchItems } = limits
    if (looked.items > batchItems * HOPELESS)
      return reply(errorText('null', batchTooLarge(looked.items, batchItems).toObject()))
    if (items === undefined) return reply(errorText('null', parseError(looked.fault).toObject()))
    if (items.length === 0) return reply(errorText('null', emptyBatch().toObject()))
    const error = batchTooLarge(items.length, batchItems).toObject()
    return reply(`[${items.map(({ id }) => errorText(id ?? 'null', error)).join(',')}]`)
  }

  return Object.assign(answer, { cache })
}

function parse(body: string, looked: Scan, methods: Methods): Item[] | undefined {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return undefined
  }
  if (!Array.isArray(value)) return [itemOf(value, 0, looked, methods)]
  return value.map((one: unknown, at) => itemOf(one, at, looked, methods))
}

function itemOf(value: unknown, at: number, looked: Scan, methods: Methods): Item {
  const request = readRequest(value, looked.ids[at], looked.params[at])
  if ('error' in request) return request
  const { id, method, params, text } = request
  const found = methods.get(method)
  if (found === undefined) return { id, error: methodNotFound(method).toObject() }
  return { id, method, params, text, found }
}

const nothing = (status: number): Answer => ({ text: undefined, status, headers: NO_HEADERS })
const reply = (text: string, status = 200, headers = NO_HEADERS): Answer => ({
  text,
  status,
  headers,
})

type Refused = Exclude<Charge, { isAllowed: true }>
/** Nothing of it runs. A batch gets an error per item: client libraries do not understand a single one. */
function tooMany(charge: Refused, items: readonly Item[], isBatch: boolean): Answer {
  const { limit, used, cost, retryAfterMs } = charge
  const error = rateLimited({ limit, used, cost, retryAfterMs }).toObject()
  const texts = items.map(({ id }) => errorText(id ?? 'null', error))
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000))
  return reply(isBatch ? `[${texts.join(',')}]` : texts[0]!, 429, {
    'Retry-After': String(seconds),
    RateLimit: `"address";r=${Math.max(0, limit - used)};t=${seconds}`,
    'RateLimit-Policy': `"address";q=${limit};w=1`,
  })
}
