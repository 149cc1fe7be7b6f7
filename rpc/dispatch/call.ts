/**
 * Runs one call: on the front or through the executor. If the response depends only on the view,
 * the cache may have it.
 */

import { hash } from 'node:crypto'
import type { ChainView, Endpoint, HeadBasis } from '../../engine/chain/types.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { FlashblockUnavailableError, MissingError, ViewError } from '../../engine/state/reader.ts'
import {
  flashblockGone,
  historyPruned,
  internalError,
  isBecause,
  RpcError,
  responseTooLarge,
  timedOut,
} from '../core/errors.ts'
import type { Executor, PoolCall, PoolReply, RunTimes } from '../core/executor.ts'
import { timeoutMsOf } from '../core/queue-class.ts'
import { SchemaError } from '../json/schema.ts'
import { POINT_BYTES } from '../limiter/points.ts'
import type { Method, MethodLimits, OfLong } from '../method/method.ts'
import type { Following, ResultCache } from './cache.ts'
import { Flights, isLasting, type Subject } from './flights.ts'
import { Lineage } from './lineage.ts'
import { createLongTexts } from './long-texts.ts'
import type { Scope } from './scope.ts'
import type { SlowCalls } from './slow-calls.ts'

/** A method with its parameters, as values and as their original text. */
export type Call = {
  readonly found: Method
  readonly params: readonly unknown[]
  readonly text: string
  /** The worker must report the state that the call reads. */
  readonly wantsReads?: boolean
  /** The original call, if this call is a variant of it. */
  readonly requested?: object
}
export type CallerOptions = {
  readonly endpoint: Endpoint
  readonly limits: MethodLimits
  readonly executor: Executor
  readonly cache: ResultCache
  /** undefined: slow calls are not reported. */
  readonly slow?: SlowCalls | undefined
  /** Logs an exception that is no response. */
  readonly onBug: (error: unknown, method: string) => void
}
/**
 * Runs a call and never throws. `stale`: the view is void or misses state, so the call must start
 * again.
 */
export type Caller = (call: Call, scope: Scope, isPinned: boolean) => PoolReply | Promise<PoolReply>

/** The chain before this one. Another node serves its blocks. */
export interface Forwarding {
  /** Tells whether the other node must answer the call. */
  isRouted(call: Call, scope: Scope): boolean
  /** Returns a caller for every call. Calls of this chain run through `local`. */
  callerOver(local: Caller): Caller
  readonly stats: ForwardingStats
}
export type ForwardingStats = {
  readonly calls: number
  /** Responses with an error, including the other node's own errors. */
  readonly errors: number
  readonly inFlight: number
}

/** Maximum characters of parameters that the front decodes before a worker does. */
const DECODE_FIRST_CHARACTERS = 16_384
/**
 * Maximum characters of parameters that are cached and shared; a multicall of 50 balances has
 * 23,000. Long parameters are cached from their second request on.
 */
const KEY_CHARACTERS = 65_536
/**
 * Longer parameters are hashed for the key. V8 uses the length of a string beyond 16,383 characters
 * as its hash. A map of such strings degrades to a list.
 */
const UNHASHED_CHARACTERS = 16_000

const keyTextOf = ({ text }: Pick<Call, 'text'>): string =>
  text.length <= UNHASHED_CHARACTERS ? text : `#${hash('sha256', text, 'base64')}`

/** Creates the caller for calls of this chain. */
export function createCaller(options: CallerOptions): Caller {
  const calls = new Calls(options)
  return (call, scope, isPinned) => calls.run(call, scope, isPinned)
}

class Calls {
  readonly #options: CallerOptions
  readonly #longTexts = createLongTexts(KEY_CHARACTERS)
  readonly #flights: Flights
  /** undefined: responses are valid for one head only. */
  readonly #lineages: Readonly<Record<HeadBasis, Lineage>> | undefined

  constructor(options: CallerOptions) {
    const { endpoint, limits, cache } = options
    this.#options = options
    this.#flights = new Flights(endpoint, cache)
    if (limits.resultCacheReads > 0)
      this.#lineages = {
        latest: new Lineage(endpoint, 'latest'),
        pending: new Lineage(endpoint, 'pending'),
      }
  }

  run(call: Call, scope: Scope, isPinned: boolean): PoolReply | Promise<PoolReply> {
    try {
      const method = call.found
      // A long key takes as much of the cache as its response.
      if (method.basis === undefined || !this.#mayHaveKey(call))
        return this.#start(call, scope, isPinned)
      const keyText = keyTextOf(call)
      const following = this.#followingOf(call, keyText, scope)
      const found = following && this.#options.cache.follow(following)
      if (found?.reply !== undefined) {
        if (found.isCarried) this.#reportCarried(call, scope, found.reply)
        return found.reply
      }
      const { view } = scope
      const basis = method.basis(view, call.params)
      const basisKey = view.cacheKey(basis)
      const key = `${basisKey} ${method.name} ${keyText}`
      const known = following === undefined ? this.#options.cache.get(key) : undefined
      if (known !== undefined) return known
      if (method.runs !== 'front') {
        // Reporting reads needs a separate session, so only repeated calls do so. They are likely
        // to be repeated again.
        const requested = { ...call, wantsReads: found?.isKnown === true, requested: call }
        return this.#share(requested, scope, { key, basis, basisKey, following }, isPinned)
      }
      const reply = this.#start(call, scope, isPinned)
      return reply instanceof Promise
        ? reply.then((one) => this.#store(one, key))
        : this.#store(reply, key)
    } catch (error) {
      return this.#failure(error, call, scope)
    }
  }

  #mayHaveKey({ text }: Call): boolean {
    if (text.length <= UNHASHED_CHARACTERS) return true
    return text.length <= KEY_CHARACTERS && this.#longTexts.wasSeen(text)
  }

  /**
   * Returns the key of a response that follows a head. undefined: the response follows no head, or
   * the view is older than the newest seen.
   * @throws {ViewError}
   */
  #followingOf(
    { found, params }: Call,
    keyText: string,
    { view, chain }: Scope,
  ): Following | undefined {
    const head = this.#lineages && found.follows?.(params)
    if (head === undefined) return undefined
    const lineage = this.#lineages![head]
    const step = lineage.stepOf(view, chain)
    if (step === undefined) return undefined
    return { key: `${lineage.name} ${found.name} ${keyText}`, lineage, step }
  }

  /** @param isPinned the call must read the leased snapshot of its batch */
  #start(call: Call, scope: Scope, isPinned: boolean): PoolReply | Promise<PoolReply> {
    const { found: method, params, text } = call
    if (method.runs !== 'front' || (method.isPure && text.length > POINT_BYTES))
      return this.#execute(call, scope, isPinned)
    if (method.ofLong !== undefined && text.length > POINT_BYTES)
      return this.#runLong(call, method.ofLong, scope)
    const result = method.invoke(scope, params)
    return typeof result === 'string'
      ? this.#capped({ result })
      : result.then(
          (settled) => this.#capped({ result: settled }),
          (error: unknown) => this.#failure(error, call, scope),
        )
  }

  /** Lets a worker process long parameters; the front builds the response from the result. */
  async #runLong(call: Call, { first, finish }: OfLong, scope: Scope): Promise<PoolReply> {
    const reply = await this.#execute({ ...call, found: first, requested: call }, scope, false)
    if (!('result' in reply)) return reply
    try {
      return { result: finish(scope, reply.result) }
    } catch (error) {
      return this.#failure(error, call, scope)
    }
  }

  /** Runs the call in a worker. */
  #execute(call: Call, scope: Scope, isPinned: boolean): Promise<PoolReply> {
    const { found: method, params, text } = call
    const { executor, limits, slow } = this.#options
    const isLong = text.length > DECODE_FIRST_CHARACTERS
    const values = isLong ? undefined : method.decode(params, limits)
    const replayed = values && replayedBy(method, values, scope)
    const snapshot = isPinned ? scope.snapshot : undefined
    const onRun = slow && ((times: RunTimes) => slow.ran(call.requested ?? call, times))
    return executor
      .execute({ ...this.#poolCall(call, scope), snapshot, replayed, onRun })
      .then((reply) => this.#capped(this.#withLateData(reply, call, scope)))
  }

  #poolCall({ found: method, params, text, wantsReads }: Call, scope: Scope): PoolCall {
    const { endpoint, limits } = this.#options
    const deadline = scope.startedAt + timeoutMsOf(method.runs, limits)
    const { client } = scope
    return { method, params, text, endpoint, snapshot: undefined, deadline, client, wantsReads }
  }

  #reportCarried(call: Call, scope: Scope, reply: PoolReply): void {
    const { snapshot } = scope
    this.#options.executor.carried?.({ ...this.#poolCall(call, scope), snapshot }, reply)
  }

  async #share(call: Call, scope: Scope, subject: Subject, isPinned: boolean): Promise<PoolReply> {
    try {
      return await this.#flights.share({ subject, scope, isPinned }, () =>
        this.#start(call, scope, isPinned),
      )
    } catch (error) {
      return this.#failure(error, call, scope)
    }
  }

  #store(reply: PoolReply, key: string): PoolReply {
    if (isLasting(reply)) this.#options.cache.set(key, reply)
    return reply
  }

  /** Adds data to a timeout error of a call that did not run to its end in a worker. */
  #withLateData(reply: PoolReply, { found, params }: Call, scope: Scope): PoolReply {
    if (found.lateData === undefined || !('error' in reply)) return reply
    const { error } = reply
    const known = error.data as { readonly suggestedRange?: unknown } | undefined
    if (!isBecause(error, 'timeout') || known?.suggestedRange !== undefined) return reply
    const { lateData } = found
    try {
      const more = scope.readNewest((view) => lateData(view, params, this.#options.limits))
      return { ...reply, error: { ...error, data: { ...known, ...more } } }
    } catch (problem) {
      if (isResponse(problem)) return reply
      throw problem
    }
  }

  #capped(reply: PoolReply): PoolReply {
    const max = this.#options.limits.responseBytes
    if (!('result' in reply) || reply.result.length <= max) return reply
    return { error: responseTooLarge(reply.result.length, max).toObject() }
  }

  #failure(error: unknown, { found: method }: Call, scope: Scope): PoolReply {
    if (error instanceof RpcError) return { error: error.toObject() }
    if (error instanceof ViewError) {
      if (error.reason !== 'pruned') return { stale: true }
      return { error: pruned(error, scope).toObject() }
    }
    if (error instanceof MissingError) return { stale: true, missing: error.missing }
    this.#options.onBug(error, method.name)
    return { error: internalError().toObject() }
  }
}

/** Returns the hash of the block that a worker replays for the call. */
function replayedBy(
  { replays }: Method,
  values: readonly unknown[],
  scope: Scope,
): string | undefined {
  if (replays === undefined) return undefined
  try {
    const hash = scope.readNewest((view) => replays(view, values))
    return hash && bytesToHex(hash)
  } catch (error) {
    // The worker meets the same error and reports it.
    if (isResponse(error)) return undefined
    throw error
  }
}

/** Tells whether an error is a response to the caller and not a bug. */
const isResponse = (error: unknown): boolean =>
  error instanceof RpcError || error instanceof ViewError || error instanceof SchemaError

function pruned(error: ViewError, scope: Scope): RpcError {
  const view = scope.leased
  return view === undefined
    ? scope.readNewest((newest) => prunedHistory(error, newest))
    : prunedHistory(error, view)
}

export const prunedHistory = (error: ViewError, view: ChainView): RpcError =>
  error instanceof FlashblockUnavailableError
    ? flashblockGone(error)
    : historyPruned(error.message, {
        oldest: error.oldest ?? view.oldestState,
        newest: view.latest.number,
      })

/**
 * Makes the timeout error of a call.
 * @param options `limitMs` is the time that the call may take
 */
export const outOfTime = ({
  scope,
  now,
  limitMs,
}: {
  readonly scope: Scope
  readonly now: number
  readonly limitMs: number
}): RpcError => timedOut({ elapsedMs: Math.round(now - scope.startedAt), limitMs })
