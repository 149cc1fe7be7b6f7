/** Runs the calls of one body, single or batch, and builds the response. */
import type { Endpoint } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Engine } from '../../engine/evm/engine.ts'
import { ViewError } from '../../engine/state/reader.ts'
import type { Client } from '../core/client.ts'
import { RpcError } from '../core/errors.ts'
import type { RpcResponse } from '../core/exchange.ts'
import type { Executor, PoolReply } from '../core/executor.ts'
import { timeoutMsOf } from '../core/queue-class.ts'
import type { Method, MethodLimits } from '../method/method.ts'
import type { FrontServices } from '../method/services.ts'
import { Batch, type BatchOptions } from './batch.ts'
import type { ResultCache } from './cache.ts'
import { type Caller, createCaller, type Forwarding, outOfTime } from './call.ts'
import { type Item, isReady, type Ready } from './items.ts'
import type { Provenance } from './provenance.ts'
import { NO_HEADERS, singleResponse } from './responses.ts'
import { noTries, type Rounds } from './rounds.ts'
import { type Pin, type Read, Scope, type ScopeOptions } from './scope.ts'
import type { Slices } from './slices.ts'
import type { SlowCalls } from './slow-calls.ts'

export type BodyRunnerOptions = {
  readonly services: FrontServices
  readonly executor: Executor
  readonly rounds: Rounds
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: MethodLimits
  /** Time slices of the thread. */
  readonly slices: Slices
  /** undefined: no earlier chain, or no node that has it. */
  readonly forwarding?: Forwarding | undefined
  /** Logs an exception that is no response. */
  readonly onBug: (error: unknown, method: string) => void
  /**
   * Called after each call. `method` is 'unknown' for a method that is not served; `code` is
   * undefined for a result.
   */
  readonly onCall?: (method: string, ms: number, code: number | undefined) => void
  /** undefined: slow calls are not reported. */
  readonly slow?: SlowCalls | undefined
  /** undefined: the sources of responses are not recorded. */
  readonly provenance?: Pick<Provenance, 'read'> | undefined
}

type Trying = {
  readonly item: Ready
  readonly scope: Scope
  readonly startedAt: number
  readonly call: Caller
}

/** Runner of one endpoint. */
export class BodyRunner {
  readonly #options: BodyRunnerOptions
  readonly #endpoint: Endpoint
  readonly #local: Caller
  /** Caller that also uses the legacy chain, if there is one. */
  readonly #call: Caller
  readonly #rounds: Rounds
  readonly #scopes: ScopeOptions
  readonly #batches: BatchOptions
  /** Headers of the snapshot that was used last. */
  #headers: SnapshotHeaders | undefined

  constructor(options: BodyRunnerOptions, cache: ResultCache, endpoint: Endpoint) {
    const { limits, services, slices, executor, onBug, chain, engine, forwarding, slow } = options
    const { now } = services
    this.#options = options
    this.#endpoint = endpoint
    this.#local = createCaller({ endpoint, limits, executor, cache, onBug, slow })
    this.#call = (forwarding && neverThrowing(forwarding.callerOver(this.#local))) ?? this.#local
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
      limits,
      now,
      slices,
      rounds,
      call: this.#local,
      callApart: (item, scope) => this.#callApart(item, scope),
      isRouted: (item, scope) => forwarding !== undefined && isRouted(forwarding, item, scope),
      headersOf: (scope) => {
        const read = scope.leased ?? scope.refusedAt
        this.#options.provenance?.read(read?.snapshot)
        return this.#headersOf(scope, read)
      },
      onReply: (reply, item, ms) => this.#count(reply, item, ms),
    }
  }

  /**
   * Runs the items, synchronously if no item has to wait, as with most front reads. Only bugs are
   * thrown.
   * @param pin the flashblocks that every view must have reached, or the view that has refused the
   *   items. A call whose view lacks these flashblocks gets an error.
   */
  run(
    items: readonly Item[],
    isBatch: boolean,
    client: Client,
    pin: Pick<Pin, 'needed' | 'read'> = {},
  ): RpcResponse | Promise<RpcResponse> {
    const scope = new Scope(this.#scopes, client, this.#options.services.now(), pin)
    if (isBatch) return new Batch(this.#batches, items, scope).respond()
    try {
      return this.#runSingle(items[0]!, scope)
    } catch (error) {
      scope.release()
      throw error
    }
  }

  #runSingle(item: Item, scope: Scope): RpcResponse | Promise<RpcResponse> {
    if (!isReady(item)) {
      const reply = { error: item.error }
      this.#count(reply, undefined, 0)
      return this.#single(item, reply, scope)
    }
    // A notification has no response, so no request goes to the legacy chain.
    const reply = this.#retried(item, scope, item.id === undefined ? this.#local : this.#call)
    return reply instanceof Promise
      ? this.#later(item, reply, scope)
      : this.#single(item, reply, scope)
  }

  async #later(item: Item, waited: Promise<PoolReply>, scope: Scope): Promise<RpcResponse> {
    try {
      const reply = await waited
      return this.#single(item, reply, scope, readFor(reply, scope))
    } finally {
      scope.release()
    }
  }

  /** @param read view that the reply was read from, if known */
  #single(
    item: Item,
    reply: PoolReply,
    scope: Scope,
    read: Read | undefined = scope.read,
  ): RpcResponse {
    this.#options.provenance?.read(read?.snapshot)
    scope.onResponded()
    const headers = this.#headersOf(scope, read)
    scope.release()
    return singleResponse(item, reply, headers)
  }

  /**
   * Runs an item of a batch with a lease of its own.
   * @param batch scope of the batch; items that wait for an event read newer views, all others the
   *   view of the batch
   */
  async #callApart(item: Ready, batch: Scope): Promise<PoolReply> {
    const { client, startedAt, needed } = batch
    const snapshot = item.found.isWaiting ? undefined : batch.leased?.snapshot
    const scope = new Scope(this.#scopes, client, startedAt, { needed, snapshot })
    try {
      const call = item.id === undefined ? this.#local : this.#call
      const reply = await this.#retried(item, scope, call)
      const read = readFor(reply, scope)
      if (read !== undefined) this.#options.provenance?.read(read.snapshot)
      return reply
    } finally {
      scope.release()
    }
  }

  /** Runs a call until its view stays valid and no state is missing, or until its deadline. */
  #retried(item: Ready, scope: Scope, call: Caller): PoolReply | Promise<PoolReply> {
    const { now } = this.#options.services
    const startedAt = now()
    const reply = call(item, scope, scope.isPinned)
    if (reply instanceof Promise || 'stale' in reply)
      return this.#rerun(reply, { item, scope, startedAt, call })
    this.#count(reply, item, now() - startedAt)
    return reply
  }

  async #rerun(
    first: PoolReply | Promise<PoolReply>,
    { item, scope, startedAt, call }: Trying,
  ): Promise<PoolReply> {
    const { limits, services } = this.#options
    const limitMs = timeoutMsOf(item.found.runs, limits)
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

  /** @param item undefined if the method is not served */
  #count(reply: PoolReply, item: Ready | undefined, ms: number): void {
    if ('stale' in reply) return
    const { onCall, slow } = this.#options
    onCall?.(item?.method ?? 'unknown', ms, 'error' in reply ? reply.error.code : undefined)
    if (slow !== undefined && item !== undefined) slow.onResponse(item, reply, ms)
  }

  /**
   * Returns headers with the flashblock that the response was read at.
   * @param read view of the response; undefined if no view was read
   */
  #headersOf({ client }: Scope, read: Read | undefined): RpcResponse['headers'] {
    const endpoint = this.#endpoint
    if (endpoint !== 'flashblocks' || client.notify !== undefined) return NO_HEADERS
    const { reader } = this.#options.services
    if (this.#headers?.snapshot !== (read?.snapshot ?? reader.newestSnapshot()))
      this.#headers = read === undefined ? readNewest(reader, endpoint, headersAt) : headersAt(read)
    return this.#headers.headers
  }
}

/**
 * Returns the view of a reply after a wait. A worker or the other node may have read another view
 * than the leased one, unless the scope is pinned.
 */
function readFor(reply: PoolReply, scope: Scope): Read | undefined {
  const { leased, isPinned, read } = scope
  return (isPinned ? leased : undefined) ?? readBy(reply) ?? read
}

/** Returns the view that a reply names. undefined: the reply names none. */
function readBy(reply: PoolReply): Read | undefined {
  if ('stale' in reply) return undefined
  const { snapshot, pending } = reply
  return snapshot === undefined || pending === undefined ? undefined : { snapshot, pending }
}

type SnapshotHeaders = { readonly snapshot: number; readonly headers: RpcResponse['headers'] }
const headersAt = ({ snapshot, pending }: Read): SnapshotHeaders => ({
  snapshot,
  headers: { 'X-Flashblock': `${pending.number}:${pending.index}:${pending.payloadId ?? ''}` },
})

/** Converts errors of a view into replies. */
const neverThrowing =
  (call: Caller): Caller =>
  (request, scope, isPinned) => {
    try {
      return call(request, scope, isPinned)
    } catch (error) {
      if (error instanceof RpcError) return { error: error.toObject() }
      if (error instanceof ViewError) return { stale: true }
      throw error
    }
  }
function isRouted(forwarding: Forwarding, item: Ready, scope: Scope): boolean {
  try {
    // `scope.view` leases the view of the batch, which the request to the other node needs.
    return forwarding.isRouted(item, scope) && scope.view !== undefined
  } catch (error) {
    if (error instanceof RpcError || error instanceof ViewError) return false
    throw error
  }
}
