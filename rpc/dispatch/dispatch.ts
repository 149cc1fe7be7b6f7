/** JSON-RPC 2.0: scans a body, parses it once, charges for it, and runs it over one view. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Client } from '../core/client.ts'
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
} from '../core/errors.ts'
import { LARGE, type Responder, type RpcResponse } from '../core/exchange.ts'
import type { Limits } from '../core/limits.ts'
import { addPrepaid, NOTHING_PREPAID, type Prepaid } from '../core/prepaid.ts'
import type { FlashblockWaits, Needed, NotReached } from '../events/min-flashblock.ts'
import type { ReceiptHold } from '../events/receipt-hold.ts'
import type { SeenReceipts } from '../events/seen-receipts.ts'
import { errorText, errorTexts, readRequest } from '../json/envelope.ts'
import { decodeMinFlashblock } from '../json/min-flashblock.ts'
import { type Scan, scan } from '../json/scan.ts'
import { headersOfRefusal } from '../limiter/headers.ts'
import type { Charge, Limiter } from '../limiter/limiter.ts'
import { POINT_BYTES, POINT_REFUSALS, POINT_VALUES } from '../limiter/points.ts'
import type { Methods } from '../method/method.ts'
import type { Price } from '../method/price.ts'
import { BodyRunner, type BodyRunnerOptions } from './body-runner.ts'
import { createResultCache, type ResultCache } from './cache.ts'
import { type Item, isReady } from './items.ts'
import { NO_HEADERS } from './responses.ts'
import type { Read } from './scope.ts'
import { Slices } from './slices.ts'

export type ResponderOptions = Omit<BodyRunnerOptions, 'slices'> & {
  readonly methods: Readonly<Record<Endpoint, Methods>>
  readonly limiter: Pick<Limiter, 'charge' | 'throttled'>
  /** Points of a call. */
  readonly price: Price
  /** Waits for views that are as new as a request requires. */
  readonly flashblockWaits: FlashblockWaits
  /** Receipt hold of the flashblocks endpoint. undefined: receipts are never held. */
  readonly hold: ReceiptHold | undefined
  /** Preconfirmed receipts on the flashblocks endpoint. undefined: `latest` never waits. */
  readonly seen?: SeenReceipts | undefined
}

/** Factor of the item limit above which a batch gets one error instead of one per item. */
const HOPELESS = 10
/** Maximum characters of a blank body without response, as in go-ethereum; longer is an error. */
const SHORT_CHARACTERS = 32

export function createResponder(
  options: ResponderOptions,
): Responder & { readonly cache: ResultCache } {
  const { limits } = options
  const cache = createResultCache({
    items: limits.resultCacheItems,
    bytes: limits.resultCacheBytes,
  })
  const bodies = new Bodies(options, cache)
  const respond: Responder = (body, client, prepaid = NOTHING_PREPAID) =>
    bodies.respond(body, client, prepaid)
  return Object.assign(respond, { cache })
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

/** Answers bodies, from text to response. */
class Bodies {
  readonly #options: ResponderOptions
  readonly #scanLimits: ReturnType<typeof scanLimitsOf>
  readonly #runners: Readonly<Record<Endpoint, BodyRunner>>
  readonly #responseTurn = createTurnstile()
  readonly #turnOfBody = createTurnstile()

  constructor(options: ResponderOptions, cache: ResultCache) {
    this.#options = options
    this.#scanLimits = scanLimitsOf(options.limits)
    const running = { ...options, slices: new Slices(options.services.now) }
    this.#runners = {
      standard: new BodyRunner(running, cache, 'standard'),
      flashblocks: new BodyRunner(running, cache, 'flashblocks'),
    }
  }

  respond(body: string, client: Client, prepaid: Prepaid): RpcResponse | Promise<RpcResponse> {
    try {
      const response =
        body.length > POINT_BYTES
          ? this.#respondToLarge(body, client, prepaid)
          : this.#respond(body, client, prepaid)
      if (response instanceof Promise)
        return response.then((one) => this.#inTurn(one)).catch((error) => this.#bug(error))
      return this.#inTurn(response)
    } catch (error) {
      return this.#bug(error)
    }
  }
  #inTurn(response: RpcResponse): RpcResponse | Promise<RpcResponse> {
    if (response.parts === undefined && (response.text?.length ?? 0) < LARGE) return response
    return this.#responseTurn().then(() => response)
  }
  #bug(error: unknown): RpcResponse {
    this.#options.onBug(error, 'dispatch')
    return reply(errorText('null', internalError().toObject()))
  }

  /** Answers a short body. It is parsed before the charge, so that a refusal names each item. */
  #respond(body: string, client: Client, prepaid: Prepaid): RpcResponse | Promise<RpcResponse> {
    if (body.length < SHORT_CHARACTERS && body.trim() === '')
      return this.#charged({ cost: prepaid.min, prepaid }, client, (refused) =>
        refused === undefined ? nothing(200) : tooMany(refused, ANY, false),
      )
    const scanned = scan(body, this.#scanLimits)
    const items = this.#itemsOf(body, scanned, client)
    const isWithinLimits = this.#isWellFormed(scanned, items)
    const points = {
      cost: Math.max(
        prepaid.min,
        pointsOf(body, scanned),
        isWithinLimits ? this.#costOf(items) : 1,
      ),
      prepaid,
    }
    return this.#charged(points, client, (refused) => {
      if (!isWithinLimits)
        return refused ? tooMany(refused, ANY, false) : this.#refuseRequest(scanned, items)
      return refused
        ? tooMany(refused, items, scanned.isBatch)
        : this.#run(items, scanned.isBatch, client)
    })
  }

  /**
   * Answers a large body. Each step is paid before it runs and has its own turn of the event loop.
   * A refusal is a single error.
   */
  async #respondToLarge(body: string, client: Client, prepaid: Prepaid): Promise<RpcResponse> {
    await this.#turnOfBody()
    const scanned = scan(body, this.#scanLimits)
    const calls = this.#isWellFormed(scanned, ANY) ? scanned.items : 1
    const cost = Math.max(prepaid.min, pointsOf(body, scanned), calls)
    const first = await this.#taken({ cost, prepaid }, client)
    if ('refused' in first) return tooMany(first.refused, ANY, false)
    await this.#turnOfBody()
    const items = this.#itemsOf(body, scanned, client)
    if (!this.#isWellFormed(scanned, items)) return this.#refuseRequest(scanned, items)
    const rest = await this.#taken({ cost: this.#costOf(items), prepaid: first.prepaid }, client)
    if ('refused' in rest) return tooMany(rest.refused, ANY, false)
    await this.#turnOfBody()
    if (client.isGone) return nothing(200)
    return this.#run(items, scanned.isBatch, client)
  }

  #costOf(items: readonly Item[]): number {
    const { limits, price } = this.#options
    let cost = 0
    for (const item of items) cost += isReady(item) ? price(item.found, item.params, limits) : 1
    return cost
  }

  #itemsOf(body: string, scanned: Scan, { endpoint }: Client): Item[] | undefined {
    if (scanned.fault !== undefined) return undefined
    const { limits, methods } = this.#options
    return parse(body, scanned, { methods: methods[endpoint], idCharacters: limits.idCharacters })
  }

  #isWellFormed(scanned: Scan, items: readonly Item[] | undefined): items is readonly Item[] {
    const isRead = scanned.fault === undefined && items !== undefined && items.length > 0
    return isRead && scanned.items <= this.#options.limits.batchItems
  }

  /** Charges the rest of a cost and continues. `prepaid` was taken while the body came in. */
  #charged(
    { cost, prepaid }: Points,
    client: Client,
    go: (refused: Refused | undefined) => RpcResponse | Promise<RpcResponse>,
  ): RpcResponse | Promise<RpcResponse> {
    if (cost <= prepaid.points) return go(undefined)
    const judge = (charge: Charge) =>
      go(charge.isAllowed ? undefined : this.#refused(charge, cost, client))
    const charge = this.#options.limiter.charge(client.address, cost - prepaid.points)
    return charge instanceof Promise ? charge.then(judge) : judge(charge)
  }
  /** Charges the rest of a cost. @returns all points paid, or the refusal */
  async #taken(
    { cost, prepaid }: Points,
    client: Client,
  ): Promise<{ readonly prepaid: Prepaid } | { readonly refused: Refused }> {
    const points = cost - prepaid.points
    if (points <= 0) return { prepaid }
    const charge = await this.#options.limiter.charge(client.address, points)
    if (!charge.isAllowed) return { refused: this.#refused(charge, cost, client) }
    return { prepaid: addPrepaid(prepaid, points) }
  }
  /** Points for received bytes stay paid, because the bytes were read. */
  #refused(refusal: Refusal, cost: number, { address }: Client): Refused {
    const throttleMs = this.#options.limiter.throttled(address)?.retryAfterMs
    return { ...refusal, cost, throttleMs }
  }

  #run(
    items: readonly Item[],
    isBatch: boolean,
    client: Client,
  ): RpcResponse | Promise<RpcResponse> {
    let needed: Needed | undefined
    try {
      needed = neededBy(items, client)
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      return this.#refuse({ items, isBatch, client }, error)
    }
    if (needed === undefined) return this.#runAfterWaits({ items, isBatch, client })
    const request = { items, isBatch, client, needed }
    const waited = this.#options.flashblockWaits.before(needed, client)
    const go = (refusal: NotReached | undefined) =>
      refusal === undefined
        ? this.#runAfterWaits(request)
        : this.#refuse(request, refusal.error, refusal.read)
    return waited instanceof Promise ? waited.then(go) : go(waited)
  }

  #runAfterWaits({
    items,
    isBatch,
    client,
    needed,
  }: BodyRequest): RpcResponse | Promise<RpcResponse> {
    const runner = this.#runners[client.endpoint]
    const run = () => runner.run(items, isBatch, client, { needed })
    if (client.endpoint === 'standard') return run()
    const { hold, seen } = this.#options
    const ready = items.filter(isReady)
    const receipts = hold?.before(ready, client)
    if (receipts !== undefined) return receipts.then(() => seen?.before(ready, client)).then(run)
    const waiting = seen?.before(ready, client)
    return waiting === undefined ? run() : waiting.then(run)
  }

  /**
   * Refuses all items without running them. Items with errors of their own retain these.
   * @param read the view that the error describes, if any
   */
  #refuse(
    { items, isBatch, client }: BodyRequest,
    error: RpcError,
    read?: Read,
  ): RpcResponse | Promise<RpcResponse> {
    const said = error.toObject()
    const refused = items.map((item) => (isReady(item) ? { id: item.id, error: said } : item))
    return this.#runners[client.endpoint].run(refused, isBatch, client, { read })
  }

  /** Answers a body that is invalid as a whole. */
  #refuseRequest(scanned: Scan, items: readonly Item[] | undefined): RpcResponse {
    const { batchItems } = this.#options.limits
    if (scanned.items > batchItems * HOPELESS)
      return reply(errorText('null', batchTooLarge(scanned.items, batchItems).toObject()))
    if (items === undefined)
      return reply(errorText('null', parseError(scanned.fault || undefined).toObject()))
    if (items.length === 0) return reply(errorText('null', emptyBatch().toObject()))
    const error = batchTooLarge(items.length, batchItems).toObject()
    return reply(`[${errorTexts(idsOf(items), error).join(',')}]`)
  }
}

/** A body, and the flashblocks that its view must have reached. */
type BodyRequest = {
  readonly items: readonly Item[]
  readonly isBatch: boolean
  readonly client: Client
  readonly needed?: Needed | undefined
}

/** Collects the flashblocks named by the header and all items of a view. @throws {RpcError} */
function neededBy(items: readonly Item[], { minFlashblock }: Client): Needed | undefined {
  /** Distinct texts with their sources, because most batches repeat one text in each item. */
  let requested: Map<unknown, string> | undefined
  if (minFlashblock !== undefined) requested = new Map([[minFlashblock, 'X-Min-Flashblock']])
  for (const item of items) {
    if (!isReady(item) || item.minFlashblock === undefined || item.minFlashblock === null) continue
    requested ??= new Map()
    if (!requested.has(item.minFlashblock)) requested.set(item.minFlashblock, 'minFlashblock')
  }
  return (
    requested &&
    ([...requested].map(([wire, name]) => decodeMinFlashblock(wire, name)) as [Needed[0]])
  )
}

/** Cost of a request, and the part already paid. */
type Points = { readonly cost: number; readonly prepaid: Prepaid }
type Refused = Refusal & { readonly throttleMs: number | undefined }

/**
 * Returns the points of a body's size: per started 64 kB or 5,000 values. A batch is charged for
 * its length, because a refusal has many pieces too.
 */
const pointsOf = (body: string, { values, items }: Scan): number =>
  Math.max(
    1,
    Math.ceil(body.length / POINT_BYTES),
    Math.ceil(values / POINT_VALUES),
    Math.ceil(items / POINT_REFUSALS),
  )

/** Lets waiting callers through one by one, each in its own turn of the event loop. */
function createTurnstile(): () => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  return () => {
    last = last.then(() => new Promise((resolve) => setImmediate(resolve)))
    return last
  }
}

type Reading = { readonly methods: Methods; readonly idCharacters: number }

function parse(body: string, scanned: Scan, reading: Reading): Item[] | undefined {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return undefined
  }
  if (!Array.isArray(value)) return [itemOf(value, 0, scanned, reading)]
  return value.map((one: unknown, at) => itemOf(one, at, scanned, reading))
}

function itemOf(value: unknown, at: number, scanned: Scan, reading: Reading): Item {
  const { methods, idCharacters } = reading
  const request = readRequest(value, {
    id: scanned.ids[at],
    params: scanned.params[at],
    idCharacters,
  })
  if ('error' in request) return request
  const { id, method, params, text, minFlashblock } = request
  const found = methods.get(method)
  if (found === undefined) return { id, error: unknownMethod(method, methods).toObject() }
  return { id, method, params, text, minFlashblock, found }
}

/**
 * Makes the error of an unknown method.
 * @param methods served methods; if they have no control, the error says where controls are served
 */
const unknownMethod = (name: string, methods: Methods) =>
  isControl(name) && ![...methods.keys()].some(isControl)
    ? controlElsewhere(name)
    : methodNotFound(name)

/** Placeholder for a body that is not parsed. */
const ANY: readonly Item[] = [{ id: 'null', error: parseError().toObject() }]

const nothing = (status: number): RpcResponse => ({ text: undefined, status, headers: NO_HEADERS })
const reply = (text: string, status = 200, headers = NO_HEADERS): RpcResponse => ({
  text,
  status,
  headers,
})

const idsOf = (items: readonly Item[]) => items.map(({ id }) => id)

/** Refuses all items. A batch gets an error per item, because client libraries expect it. */
function tooMany(refused: Refused, items: readonly Item[], isBatch: boolean): RpcResponse {
  const error = rateLimited(refused).toObject()
  const texts = errorTexts(idsOf(items), error)
  const headers = headersOfRefusal(refused)
  const text = isBatch ? `[${texts.join(',')}]` : texts[0]!
  return { ...reply(text, 429, headers), throttleMs: refused.throttleMs }
}
