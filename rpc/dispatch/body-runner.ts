/** Runs the calls of one body, single or batch, and makes its answer. */
import { readNewest } from '../../engine/chain/newest.ts'
import type { Endpoint } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Engine } from '../../engine/evm/engine.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { Needed } from '../events/min-flashblock.ts'
import type { Method, MethodLimits } from '../method/method.ts'
import type { FrontServices } from '../method/services.ts'
import type { Client } from '../seam/client.ts'
import { RpcError } from '../seam/errors.ts'
import type { Answer } from '../seam/exchange.ts'
import type { Executor, PoolReply } from '../seam/executor.ts'
import { laneMs } from '../seam/lane.ts'
import type { Provenance } from '../seam/provenance.ts'
import { NO_HEADERS, singleAnswer } from './answers.ts'
import { Batch, type BatchOptions } from './batch.ts'
import type { ResultCache } from './cache.ts'
import { type Caller, createCaller, type Legacy, outOfTime } from './call.ts'
import { type Item, isReady, type Ready } from './items.ts'
import { noTries, type Rounds } from './rounds.ts'
import { type Read, Scope, type ScopeOptions } from './scope.ts'
import type { Slices } from './slices.ts'
import type { SlowCalls } from './slow-calls.ts'

export type BodyRunnerOptions = {
  readonly services: FrontServices
  readonly executor: Executor
  readonly rounds: Rounds
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: MethodLimits
  /** Of the thread. */
  readonly slices: Slices
  /** undefined: there is no chain before this one, or nobody has it. */
  readonly legacy?: Legacy | undefined
  /** A thrown thing that is no answer: for the log. */
  readonly onBug: (error: unknown, method: string) => void
  /** After each call; `method` is 'unknown' for a name that is not served, `code` undefined for a result. */
  readonly onCall?: (method: string, ms: number, code: number | undefined) => void
  /** undefined: nobody asks how long calls take. */
  readonly slow?: SlowCalls | undefined
  /** undefined: nobody asks where answers come from. */
  readonly provenance?: Pick<Provenance, 'read'> | undefined
}

type Trying = {
  readonly item: Ready
  readonly scope: Scope
  readonly startedAt: number
  readonly call: Caller
}

/** Of one endpoint. */
export class BodyRunner {
  readonly #options: BodyRunnerOptions
  readonly #endpoint: Endpoint
  readonly #local: Caller
  /** The same, with the legacy chain where there is one. */
  readonly #call: Caller
  readonly #rounds: Rounds
  readonly #scopes: ScopeOptions
  readonly #batches: BatchOptions
  /** Of the record that was asked for last. */
  #place: Place | undefined

  constructor(options: BodyRunnerOptions, cache: ResultCache, endpoint: Endpoint) {
    const { limits, services, slices, executor, onBug, chain, engine, legacy, slow } = options
    const { now } = services
    this.#options = options
    this.#endpoint = endpoint
    this.#local = createCaller({ endpoint, limits, executor, cache, onBug, slow })
    this.#call = (legacy && neverThrowing(legacy.callerOver(this.#local))) ?? this.#local
    const callPool = async (scope: Scope, found: Method, params: readonly unknown[]) => {
      const text = JSON.stringify(params)
      return this.#retried(
        { id: 'null', method: found.name, params, text, found, minFlashblock: undefined },
        scope,
        this.#local,
      )
    }
    const { rounds } = options
    this.#rounds = rounds
    this.#scopes = { endpoint, chain, engine, limits, services, rounds, slices, callPool }
    this.#batches = {
      ...{ limits, now, slices, rounds, call: this.#local },
      callApart: (item, scope) => this.#callApart(item, scope),
      isRouted: (item, scope) => legacy !== undefined && isRouted(legacy, item, scope),
      headersOf: (scope) => {
        this.#options.provenance?.read(scope.held?.record)
        return this.#headersOf(scope, scope.held)
      },
      onReply: (reply, item, ms) => this.#count(reply, item, ms),
    }
  }

  /**
   * At once where nothing has to be waited for, as most reads of the front. Throws bugs alone.
   * @param needed every view that is read has reached these places; each call that finds none is answered with why
   */
  run(
    items: readonly Item[],
    isBatch: boolean,
    client: Client,
    needed?: Needed,
  ): Answer | Promise<Answer> {
    const scope = new Scope(this.#scopes, client, this.#options.services.now(), { needed })
    if (isBatch) return new Batch(this.#batches, items, scope).answer()
    try {
      return this.#runSingle(items[0]!, scope)
    } catch (error) {
      scope.release()
      throw error
    }
  }

  #runSingle(item: Item, scope: Scope): Answer | Promise<Answer> {
    if (!isReady(item)) {
      const reply = { error: item.error }
      this.#count(reply, undefined, 0)
      return this.#single(item, reply, scope)
    }
    // The legacy chain is not asked for an answer that nobody gets.
    const reply = this.#retried(item, scope, item.id === undefined ? this.#local : this.#call)
    return reply instanceof Promise
      ? this.#later(item, reply, scope)
      : this.#single(item, reply, scope)
  }

  async #later(item: Item, waited: Promise<PoolReply>, scope: Scope): Promise<Answer> {
    try {
      const reply = await waited
      return this.#single(item, reply, scope, readFor(reply, scope))
    } finally {
      scope.release()
    }
  }

  /** @param read what it was read from, where that is known */
  #single(item: Item, reply: PoolReply, scope: Scope, read: Read | undefined = scope.read): Answer {
    this.#options.provenance?.read(read?.record)
    scope.answered()
    const headers = this.#headersOf(scope, read)
    scope.release()
    return singleAnswer(item, reply, headers)
  }

  /**
   * Of a batch, but with a lease of its own.
   * @param batch what waits for an event reads newer views; all else reads the view of the batch, whose place is named
   */
  async #callApart(item: Ready, batch: Scope): Promise<PoolReply> {
    const { client, startedAt, needed } = batch
    const record = item.found.isWaiting ? undefined : batch.held?.record
    const scope = new Scope(this.#scopes, client, startedAt, { needed, record })
    try {
      const call = item.id === undefined ? this.#local : this.#call
      const reply = await this.#retried(item, scope, call)
      const read = readFor(reply, scope)
      if (read !== undefined) this.#options.provenance?.read(read.record)
      return reply
    } finally {
      scope.release()
    }
  }

  /** Until the view stands still under the call and misses nothing, or its time is up. */
  #retried(item: Ready, scope: Scope, call: Caller): PoolReply | Promise<PoolReply> {
    const { now } = this.#options.services
    const startedAt = now()
    const reply = call(item, scope, scope.isPinned)
    if (reply instanceof Promise || 'stale' in reply)
      return this.#again(reply, { item, scope, startedAt, call })
    this.#count(reply, item, now() - startedAt)
    return reply
  }

  async #again(
    first: PoolReply | Promise<PoolReply>,
    { item, scope, startedAt, call }: Trying,
  ): Promise<PoolReply> {
    const { limits, services } = this.#options
    const limitMs = laneMs(item.found.runs, limits)
    const deadline = scope.startedAt + limitMs
    const tries = noTries()
    let reply = await first
    while ('stale' in reply) {
      scope.release()
      const now = services.now()
      const { missing } = reply
      const waiting = { client: scope.client, deadline, for: 'caller' } as const
      const problem = missing && (await this.#rounds.fetchFor(missing, tries, waiting))
      if (problem !== undefined) reply = { error: problem }
      else if (now > deadline) reply = { error: outOfTime({ scope, now, limitMs }).toObject() }
      else reply = await call(item, scope, scope.isPinned)
    }
    this.#count(reply, item, services.now() - startedAt)
    return reply
  }

  /** @param item undefined: its method is not served */
  #count(reply: PoolReply, item: Ready | undefined, ms: number): void {
    if ('stale' in reply) return
    const { onCall, slow } = this.#options
    onCall?.(item?.method ?? 'unknown', ms, 'error' in reply ? reply.error.code : undefined)
    if (slow !== undefined && item !== undefined) slow.answered(item, reply, ms)
  }

  /**
   * Where the answer stands in the flashblocks.
   * @param read what it was read from; undefined: nothing was read
   */
  #headersOf({ client }: Scope, read: Read | undefined): Answer['headers'] {
    const endpoint = this.#endpoint
    if (endpoint !== 'flashblocks' || client.notify !== undefined) return NO_HEADERS
    const { reader } = this.#options.services
    if (this.#place?.record !== (read?.record ?? reader.newestRecord()))
      this.#place = read === undefined ? readNewest(reader, endpoint, placeOf) : placeOf(read)
    return this.#place.headers
  }
}

/**
 * The view that a reply was made from, after a wait. A worker, or the question to another node, may have read another one than is held,
 * unless the scope is pinned.
 */
function readFor(reply: PoolReply, scope: Scope): Read | undefined {
  const { held, isPinned, read } = scope
  return (isPinned ? held : undefined) ?? readBy(reply) ?? read
}

/** undefined: the reply does not say. */
function readBy(reply: PoolReply): Read | undefined {
  if ('stale' in reply) return undefined
  const { record, pending } = reply
  return record === undefined || pending === undefined ? undefined : { record, pending }
}

type Place = { readonly record: number; readonly headers: Answer['headers'] }
const placeOf = ({ record, pending }: Read): Place => ({
  record,
  headers: { 'X-Flashblock': `${pending.number}:${pending.index}:${pending.payloadId ?? ''}` },
})

/** A view that is not as new as it has to be is an answer, wherever it is asked for. */
const neverThrowing =
  (call: Caller): Caller =>
  (asked, scope, isPinned) => {
    try {
      return call(asked, scope, isPinned)
    } catch (error) {
      if (error instanceof RpcError) return { error: error.toObject() }
      if (error instanceof ViewError) return { stale: true }
      throw error
    }
  }
function isRouted(legacy: Legacy, item: Ready, scope: Scope): boolean {
  try {
    // The question has the view of the batch, which is leased here where no hash was looked up.
    return legacy.isRouted(item, scope) && scope.view !== undefined
  } catch (error) {
    if (error instanceof RpcError || error instanceof ViewError) return false
    throw error
  }
}
