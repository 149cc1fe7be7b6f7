/** Runs one call: on the front or through the executor, from the cache where its answer depends on the view alone. */

import { hash } from 'node:crypto'
import type { ChainView, Endpoint, HeadBasis } from '../../engine/chain/types.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import { MissingError, PlaceError, ViewError } from '../../engine/state/reader.ts'
import { SchemaError } from '../json/schema.ts'
import { POINT_BYTES } from '../limiter/points.ts'
import type { Method, MethodLimits, OfLong } from '../method/method.ts'
import {
  flashblockGone,
  historyPruned,
  internalError,
  isBecause,
  RpcError,
  responseTooLarge,
  timedOut,
} from '../seam/errors.ts'
import type { Executor, PoolCall, PoolReply, RunTimes } from '../seam/executor.ts'
import { laneMs } from '../seam/lane.ts'
import type { Following, ResultCache } from './cache.ts'
import { Flights, isLasting, type Subject } from './flights.ts'
import { Lineage } from './lineage.ts'
import { createLongTexts } from './long-texts.ts'
import type { Scope } from './scope.ts'
import type { SlowCalls } from './slow-calls.ts'

/** A method with its parameters, as values and as the text they were cut from. */
export type Call = {
  readonly found: Method
  readonly params: readonly unknown[]
  readonly text: string
  /** Its worker shall tell what it reads. */
  readonly wantsReads?: boolean
  /** As it was asked, where this is another form of it. */
  readonly asked?: object
}
export type CallerOptions = {
  readonly endpoint: Endpoint
  readonly limits: MethodLimits
  readonly executor: Executor
  readonly cache: ResultCache
  /** undefined: nobody asks how long calls take. */
  readonly slow?: SlowCalls | undefined
  /** A thrown thing that is no answer: for the log. */
  readonly onBug: (error: unknown, method: string) => void
}
/** Never throws. `stale`: the view is gone, or misses state: start again on a newer one. */
export type Caller = (call: Call, scope: Scope, isPinned: boolean) => PoolReply | Promise<PoolReply>

/** The chain before this one, whose node answers for its blocks. */
export interface Legacy {
  /** Whether the answer takes the other node. */
  isRouted(call: Call, scope: Scope): boolean
  /** Answers every call: what is of this chain through `local`. */
  callerOver(local: Caller): Caller
  readonly stats: LegacyStats
}
export type LegacyStats = {
  readonly calls: number
  /** Answers that are errors, the other node's own included. */
  readonly errors: number
  readonly inFlight: number
}

/** Parameters up to this length are decoded before a worker sees them. */
const DECODE_FIRST_CHARACTERS = 16_384
/** Parameters up to this length are remembered with their answer, and equal ones of a moment run once: a multicall of 50 balances has 23,000. Long ones from their second time on. */
const KEY_CHARACTERS = 65_536
/** Longer ones stand in a key by their hash: V8 takes the length of a string beyond 16,383 characters for its hash, and a map of them is a list. */
const WHOLE_CHARACTERS = 16_000

const keyTextOf = ({ text }: Pick<Call, 'text'>): string =>
  text.length <= WHOLE_CHARACTERS ? text : `#${hash('sha256', text, 'base64')}`

/** @returns what runs calls of this chain */
export function createCaller(options: CallerOptions): Caller {
  const calls = new Calls(options)
  return (call, scope, isPinned) => calls.run(call, scope, isPinned)
}

class Calls {
  readonly #options: CallerOptions
  readonly #longTexts = createLongTexts(KEY_CHARACTERS)
  readonly #flights: Flights
  /** undefined: no answer outlives its head. */
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
      // A long key takes as much of the cache as its answer.
      if (method.basis === undefined || !this.#mayHaveKey(call))
        return this.#start(call, scope, isPinned)
      const keyText = keyTextOf(call)
      const following = this.#followingOf(call, keyText, scope)
      const found = following && this.#options.cache.follow(following)
      if (found?.reply !== undefined) {
        if (found.isCarried) this.#tellCarried(call, scope, found.reply)
        return found.reply
      }
      const { view } = scope
      const basis = method.basis(view, call.params)
      const basisKey = view.cacheKey(basis)
      const key = `${basisKey} ${method.name} ${keyText}`
      const known = following === undefined ? this.#options.cache.get(key) : undefined
      if (known !== undefined) return known
      if (method.runs !== 'front') {
        // Telling costs a session of its own: it is for what has been asked before, and so may be asked again.
        const asked = { ...call, wantsReads: found?.isKnown === true, asked: call }
        return this.#share(asked, scope, { key, basis, basisKey, following }, isPinned)
      }
      const reply = this.#start(call, scope, isPinned)
      return reply instanceof Promise
        ? reply.then((one) => this.#keep(one, key))
        : this.#keep(reply, key)
    } catch (error) {
      return this.#failure(error, call, scope)
    }
  }

  #mayHaveKey({ text }: Call): boolean {
    if (text.length <= WHOLE_CHARACTERS) return true
    return text.length <= KEY_CHARACTERS && this.#longTexts.wasSeen(text)
  }

  /** undefined: the answer follows no head, or the view's is older than what was seen. @throws {ViewError} */
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

  /** @param isPinned the call belongs to a batch that holds a record. */
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

  /** A worker looks at the parameters, and the front makes the answer of what it has found. */
  async #runLong(call: Call, { first, finish }: OfLong, scope: Scope): Promise<PoolReply> {
    const reply = await this.#execute({ ...call, found: first, asked: call }, scope, false)
    if (!('result' in reply)) return reply
    try {
      return { result: finish(scope, reply.result) }
    } catch (error) {
      return this.#failure(error, call, scope)
    }
  }

  /** In a worker. */
  #execute(call: Call, scope: Scope, isPinned: boolean): Promise<PoolReply> {
    const { found: method, params, text } = call
    const { executor, limits, slow } = this.#options
    const isLong = text.length > DECODE_FIRST_CHARACTERS
    const values = isLong ? undefined : method.decode(params, limits)
    const replayed = values && replayedBy(method, values, scope)
    const record = isPinned ? scope.record : undefined
    const onRun = slow && ((times: RunTimes) => slow.ran(call.asked ?? call, times))
    return executor
      .execute({ ...this.#poolCall(call, scope), record, replayed, onRun })
      .then((reply) => this.#capped(this.#withLateData(reply, call, scope)))
  }

  #poolCall({ found: method, params, text, wantsReads }: Call, scope: Scope): PoolCall {
    const { endpoint, limits } = this.#options
    const deadline = scope.startedAt + laneMs(method.runs, limits)
    const { client } = scope
    return { method, params, text, endpoint, record: undefined, deadline, client, wantsReads }
  }

  #tellCarried(call: Call, scope: Scope, reply: PoolReply): void {
    const { record } = scope
    this.#options.executor.carried?.({ ...this.#poolCall(call, scope), record }, reply)
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

  #keep(reply: PoolReply, key: string): PoolReply {
    if (isLasting(reply)) this.#options.cache.set(key, reply)
    return reply
  }

  /** A call that waited in vain for a worker, or whose worker was ended: the method itself could say nothing. */
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
      if (isAnswer(problem)) return reply
      throw problem
    }
  }

  #capped(reply: PoolReply): PoolReply {
    const most = this.#options.limits.responseBytes
    if (!('result' in reply) || reply.result.length <= most) return reply
    return { error: responseTooLarge(reply.result.length, most).toObject() }
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

/** Of the block that a worker replays for the call. */
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
    // The worker is told the same.
    if (isAnswer(error)) return undefined
    throw error
  }
}

/** Thrown at whom it concerns, as against a bug. */
const isAnswer = (error: unknown): boolean =>
  error instanceof RpcError || error instanceof ViewError || error instanceof SchemaError

function pruned(error: ViewError, scope: Scope): RpcError {
  const view = scope.held
  return view === undefined
    ? scope.readNewest((newest) => prunedHistory(error, newest))
    : prunedHistory(error, view)
}

export const prunedHistory = (error: ViewError, view: ChainView): RpcError =>
  error instanceof PlaceError
    ? flashblockGone(error)
    : historyPruned(error.message, {
        oldest: error.oldest ?? view.oldestState,
        newest: view.latest.number,
      })

/** @param limitMs how long what was asked may take */
export const outOfTime = ({
  scope,
  now,
  limitMs,
}: {
  readonly scope: Scope
  readonly now: number
  readonly limitMs: number
}): RpcError => timedOut({ elapsedMs: Math.round(now - scope.startedAt), limitMs })
