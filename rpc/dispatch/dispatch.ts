/** JSON-RPC 2.0: a body is looked at, parsed once, charged for as a whole, run over one view, and answered by concatenation. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { ReceiptHold } from '../events/hold.ts'
import type { Needed, PlaceWaits } from '../events/min-flashblock.ts'
import type { ShownReceipts } from '../events/shown.ts'
import { errorText, errorTexts, readRequest } from '../json/envelope.ts'
import { decodeMinFlashblock } from '../json/min-flashblock.ts'
import { type Scan, scan } from '../json/scan.ts'
import { headersOfRefusal } from '../limiter/headers.ts'
import type { Charge, Limiter } from '../limiter/limiter.ts'
import { POINT_BYTES, POINT_REFUSALS, POINT_VALUES } from '../limiter/points.ts'
import type { Methods } from '../method/method.ts'
import type { Price } from '../method/price.ts'
import type { Client } from '../seam/client.ts'
import {
  batchTooLarge,
  controlElsewhere,
  emptyBatch,
  internalError,
  isControl,
  methodNotFound,
  parseError,
  type Refusal,
  RpcError,
  rateLimited,
} from '../seam/errors.ts'
import { type Answer, type Answerer, LARGE } from '../seam/exchange.ts'
import type { Limits } from '../seam/limits.ts'
import { type Paid, paidMore, UNPAID } from '../seam/paid.ts'
import { NO_HEADERS } from './answers.ts'
import { BodyRunner, type BodyRunnerOptions } from './body-runner.ts'
import { createResultCache, type ResultCache } from './cache.ts'
import { type Item, isReady } from './items.ts'
import { Slices } from './slices.ts'

export type AnswererOptions = Omit<BodyRunnerOptions, 'slices'> & {
  readonly methods: Readonly<Record<Endpoint, Methods>>
  readonly limiter: Pick<Limiter, 'charge' | 'held'>
  /** Points of a call. */
  readonly price: Price
  /** For views that are as new as a request asks for. */
  readonly places: PlaceWaits
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
  const { limits } = options
  const cache = createResultCache({
    items: limits.resultCacheItems,
    bytes: limits.resultCacheBytes,
  })
  const bodies = new Bodies(options, cache)
  const answer: Answerer = (body, client, paid = UNPAID) => bodies.answer(body, client, paid)
  return Object.assign(answer, { cache })
}

const scanLimitsOf = (limits: Pick<Limits, ScanLimit>) => ({
  depth: limits.jsonDepth,
  keys: limits.objectKeys,
  hexKeys: limits.overrideItems,
  values: limits.jsonValues,
  items: limits.batchItems * HOPELESS,
  keyCharacters: limits.jsonKeyCharacters,
  numberCharacters: limits.jsonNumberCharacters,
  hexCharacters: limits.jsonHexCharacters,
  textCharacters: limits.jsonTextCharacters,
  idCharacters: limits.idCharacters,
  methodCharacters: limits.methodCharacters,
})

type ScanLimit =
  | 'jsonDepth'
  | 'objectKeys'
  | 'overrideItems'
  | 'jsonValues'
  | 'batchItems'
  | 'jsonKeyCharacters'
  | 'jsonNumberCharacters'
  | 'jsonHexCharacters'
  | 'jsonTextCharacters'
  | 'idCharacters'
  | 'methodCharacters'

/** Each body from its text to its answer. */
class Bodies {
  readonly #options: AnswererOptions
  readonly #scanLimits: ReturnType<typeof scanLimitsOf>
  readonly #runners: Readonly<Record<Endpoint, BodyRunner>>
  readonly #turnOfAnswer = createTurnstile()
  readonly #turnOfBody = createTurnstile()

  constructor(options: AnswererOptions, cache: ResultCache) {
    this.#options = options
    this.#scanLimits = scanLimitsOf(options.limits)
    const running = { ...options, slices: new Slices(options.services.now) }
    this.#runners = {
      standard: new BodyRunner(running, cache, 'standard'),
      flashblocks: new BodyRunner(running, cache, 'flashblocks'),
    }
  }

  answer(body: string, client: Client, paid: Paid): Answer | Promise<Answer> {
    try {
      const answered =
        body.length > POINT_BYTES
          ? this.#respondToLarge(body, client, paid)
          : this.#respond(body, client, paid)
      if (answered instanceof Promise)
        return answered.then((one) => this.#inTurn(one)).catch((error) => this.#bug(error))
      return this.#inTurn(answered)
    } catch (error) {
      return this.#bug(error)
    }
  }
  #inTurn(answered: Answer): Answer | Promise<Answer> {
    if (answered.parts === undefined && (answered.text?.length ?? 0) < LARGE) return answered
    return this.#turnOfAnswer().then(() => answered)
  }
  #bug(error: unknown): Answer {
    this.#options.onBug(error, 'dispatch')
    return reply(errorText('null', internalError().toObject()))
  }

  /** What is short is parsed first, for whoever is refused gets an answer to each item. */
  #respond(body: string, client: Client, paid: Paid): Answer | Promise<Answer> {
    if (body.length < SHORT_CHARACTERS && body.trim() === '')
      return this.#charged({ cost: paid.least, paid }, client, (refused) =>
        refused === undefined ? nothing(200) : tooMany(refused, ANY, false),
      )
    const looked = scan(body, this.#scanLimits)
    const items = this.#itemsOf(body, looked, client)
    const isWhole = this.#isFit(looked, items)
    const points = {
      cost: Math.max(paid.least, pointsOf(body, looked), isWhole ? this.#costOf(items) : 1),
      paid,
    }
    return this.#charged(points, client, (refused) => {
      if (!isWhole) return refused ? tooMany(refused, ANY, false) : this.#refuseWhole(looked, items)
      return refused
        ? tooMany(refused, items, looked.isBatch)
        : this.#run(items, looked.isBatch, client)
    })
  }

  /** Each step pays before it is taken and has a turn of the event loop to itself. Whoever is refused gets one error. */
  async #respondToLarge(body: string, client: Client, paid: Paid): Promise<Answer> {
    await this.#turnOfBody()
    const looked = scan(body, this.#scanLimits)
    const calls = this.#isFit(looked, ANY) ? looked.items : 1
    const cost = Math.max(paid.least, pointsOf(body, looked), calls)
    const first = await this.#taken({ cost, paid }, client)
    if ('refused' in first) return tooMany(first.refused, ANY, false)
    await this.#turnOfBody()
    const items = this.#itemsOf(body, looked, client)
    if (!this.#isFit(looked, items)) return this.#refuseWhole(looked, items)
    const rest = await this.#taken({ cost: this.#costOf(items), paid: first.paid }, client)
    if ('refused' in rest) return tooMany(rest.refused, ANY, false)
    await this.#turnOfBody()
    if (client.isGone) return nothing(200)
    return this.#run(items, looked.isBatch, client)
  }

  #costOf(items: readonly Item[]): number {
    const { limits, price } = this.#options
    let cost = 0
    for (const item of items) cost += isReady(item) ? price(item.found, item.params, limits) : 1
    return cost
  }

  #itemsOf(body: string, looked: Scan, { endpoint }: Client): Item[] | undefined {
    if (looked.fault !== undefined) return undefined
    const { limits, methods } = this.#options
    return parse(body, looked, { methods: methods[endpoint], idCharacters: limits.idCharacters })
  }

  #isFit(looked: Scan, items: readonly Item[] | undefined): items is readonly Item[] {
    const isRead = looked.fault === undefined && items !== undefined && items.length > 0
    return isRead && looked.items <= this.#options.limits.batchItems
  }

  /** `paid` of the cost was taken while the body came in. */
  #charged(
    { cost, paid }: Points,
    client: Client,
    go: (refused: Refused | undefined) => Answer | Promise<Answer>,
  ): Answer | Promise<Answer> {
    if (cost <= paid.points) return go(undefined)
    const judge = (charge: Charge) =>
      go(charge.isAllowed ? undefined : this.#refused(charge, cost, client))
    const charge = this.#options.limiter.charge(client.address, cost - paid.points)
    return charge instanceof Promise ? charge.then(judge) : judge(charge)
  }
  /** The same; gives what is paid then. */
  async #taken(
    { cost, paid }: Points,
    client: Client,
  ): Promise<{ readonly paid: Paid } | { readonly refused: Refused }> {
    const points = cost - paid.points
    if (points <= 0) return { paid }
    const charge = await this.#options.limiter.charge(client.address, points)
    if (!charge.isAllowed) return { refused: this.#refused(charge, cost, client) }
    return { paid: paidMore(paid, points) }
  }
  /** What was paid for the bytes that came in stays paid: they were read. */
  #refused(refusal: Refusal, cost: number, { address }: Client): Refused {
    const holdMs = this.#options.limiter.held(address)?.retryAfterMs
    return { ...refusal, cost, holdMs }
  }

  #run(items: readonly Item[], isBatch: boolean, client: Client): Answer | Promise<Answer> {
    let needed: Needed | undefined
    try {
      needed = neededBy(items, client)
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      return this.#refuse({ items, isBatch, client }, error)
    }
    if (needed === undefined) return this.#runHeld({ items, isBatch, client })
    const asked = { items, isBatch, client, needed }
    const waited = this.#options.places.before(needed, client)
    const go = (lack: RpcError | undefined) =>
      lack === undefined ? this.#runHeld(asked) : this.#refuse(asked, lack)
    return waited instanceof Promise ? waited.then(go) : go(waited)
  }

  #runHeld({ items, isBatch, client, needed }: Asked): Answer | Promise<Answer> {
    const runner = this.#runners[client.endpoint]
    const run = () => runner.run(items, isBatch, client, needed)
    if (client.endpoint === 'standard') return run()
    const { hold, shown } = this.#options
    const ready = items.filter(isReady)
    const held = hold?.before(ready, client)
    if (held !== undefined) return held.then(() => shown?.before(ready, client)).then(run)
    const waiting = shown?.before(ready, client)
    return waiting === undefined ? run() : waiting.then(run)
  }

  /** Nothing of it runs; what is wrong with single items is said of these. */
  #refuse({ items, isBatch, client }: Asked, error: RpcError): Answer | Promise<Answer> {
    const said = error.toObject()
    const refused = items.map((item) => (isReady(item) ? { id: item.id, error: said } : item))
    return this.#runners[client.endpoint].run(refused, isBatch, client)
  }

  /** What is wrong with all of it. */
  #refuseWhole(looked: Scan, items: readonly Item[] | undefined): Answer {
    const { batchItems } = this.#options.limits
    if (looked.items > batchItems * HOPELESS)
      return reply(errorText('null', batchTooLarge(looked.items, batchItems).toObject()))
    if (items === undefined)
      return reply(errorText('null', parseError(looked.fault || undefined).toObject()))
    if (items.length === 0) return reply(errorText('null', emptyBatch().toObject()))
    const error = batchTooLarge(items.length, batchItems).toObject()
    return reply(`[${errorTexts(idsOf(items), error).join(',')}]`)
  }
}

/** A body, and the places that its view has to have reached. */
type Asked = {
  readonly items: readonly Item[]
  readonly isBatch: boolean
  readonly client: Client
  readonly needed?: Needed | undefined
}

/** Of the header and of all items: they have one view. @throws {RpcError} */
function neededBy(items: readonly Item[], { minFlashblock }: Client): Needed | undefined {
  /** Texts, and where they came from: most batches have the same one in each item. */
  let asked: Map<unknown, string> | undefined
  if (minFlashblock !== undefined) asked = new Map([[minFlashblock, 'X-Min-Flashblock']])
  for (const item of items) {
    if (!isReady(item) || item.minFlashblock === undefined || item.minFlashblock === null) continue
    asked ??= new Map()
    if (!asked.has(item.minFlashblock)) asked.set(item.minFlashblock, 'minFlashblock')
  }
  return asked && ([...asked].map(([wire, name]) => decodeMinFlashblock(wire, name)) as [Needed[0]])
}

/** Of a request: what it costs, and how much of that is paid. */
type Points = { readonly cost: number; readonly paid: Paid }
type Refused = Refusal & { readonly holdMs: number | undefined }

/** Its started 64 kB, or its started 5,000 values; what is no single call is answered in many pieces even where it is refused. */
const pointsOf = (body: string, { values, items }: Scan): number =>
  Math.max(
    1,
    Math.ceil(body.length / POINT_BYTES),
    Math.ceil(values / POINT_VALUES),
    Math.ceil(items / POINT_REFUSALS),
  )

/** Lets whoever waits through one by one, each in a turn of the event loop of its own. */
function createTurnstile(): () => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  return () => {
    last = last.then(() => new Promise((resolve) => setImmediate(resolve)))
    return last
  }
}

type Reading = { readonly methods: Methods; readonly idCharacters: number }

function parse(body: string, looked: Scan, reading: Reading): Item[] | undefined {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return undefined
  }
  if (!Array.isArray(value)) return [itemOf(value, 0, looked, reading)]
  return value.map((one: unknown, at) => itemOf(one, at, looked, reading))
}

function itemOf(value: unknown, at: number, looked: Scan, reading: Reading): Item {
  const { methods, idCharacters } = reading
  const request = readRequest(value, {
    id: looked.ids[at],
    params: looked.params[at],
    idCharacters,
  })
  if ('error' in request) return request
  const { id, method, params, text, minFlashblock } = request
  const found = methods.get(method)
  if (found === undefined) return { id, error: unknownMethod(method, methods).toObject() }
  return { id, method, params, text, minFlashblock, found }
}

/** @param methods those that are served: where one is a control, others of these names are unknown everywhere */
const unknownMethod = (name: string, methods: Methods) =>
  isControl(name) && ![...methods.keys()].some(isControl)
    ? controlElsewhere(name)
    : methodNotFound(name)

/** Stands for a body that is not parsed, or of which nothing can be said. */
const ANY: readonly Item[] = [{ id: 'null', error: parseError().toObject() }]

const nothing = (status: number): Answer => ({ text: undefined, status, headers: NO_HEADERS })
const reply = (text: string, status = 200, headers = NO_HEADERS): Answer => ({
  text,
  status,
  headers,
})

const idsOf = (items: readonly Item[]) => items.map(({ id }) => id)

/** Nothing of it runs. A batch gets an error per item: client libraries do not understand a single one. */
function tooMany(refused: Refused, items: readonly Item[], isBatch: boolean): Answer {
  const error = rateLimited(refused).toObject()
  const texts = errorTexts(idsOf(items), error)
  const headers = headersOfRefusal(refused)
  const text = isBatch ? `[${texts.join(',')}]` : texts[0]!
  return { ...reply(text, 429, headers), holdMs: refused.holdMs }
}
