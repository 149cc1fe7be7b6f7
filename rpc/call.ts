/** Runs one call: on the front or through the executor, from the cache where its answer depends on the view alone. */
import type { Basis, ChainView, Endpoint } from '../engine/chain/types.ts'
import { ViewError } from '../engine/state/reader.ts'
import type { ResultCache } from './cache.ts'
import { historyPruned, internalError, RpcError, responseTooLarge, timedOut } from './errors.ts'
import type { Executor, PoolReply } from './executor.ts'
import type { Limits } from './limits.ts'
import type { Method, Runs } from './method.ts'
import { SchemaError } from './schema.ts'
import { readNewest, type Scope } from './scope.ts'

/** A method with its parameters, as values and as the text they were cut from. */
export type Call = {
  readonly found: Method
  readonly params: readonly unknown[]
  readonly text: string
}
export type CallerOptions = {
  readonly endpoint: Endpoint
  readonly limits: Limits
  readonly executor: Executor
  readonly cache: ResultCache
  /** A thrown thing that is no answer: for the log. */
  readonly onBug: (error: unknown, method: string) => void
}
/** Never throws. `stale`: the view is gone, start again on a newer one. */
export type Caller = (call: Call, scope: Scope, isPinned: boolean) => PoolReply | Promise<PoolReply>

/** What an answer is of: its key in the cache, and the view's own part of it. */
type Subject = { readonly key: string; readonly basis: Basis; readonly basisKey: string }
/** A run that equal calls may share. */
type Flight = { readonly landing: Promise<Landed>; readonly client: { readonly isGone: boolean } }
/** `isKept`: it is of its subject for certain, and in the cache. */
type Landed = { readonly reply: PoolReply; readonly isKept: boolean }

/** Parameters up to this length are decoded before a worker sees them. */
const DECODE_FIRST_CHARACTERS = 16_384

export function createCaller(options: CallerOptions): Caller {
  const { endpoint, cache, executor, limits } = options
  const flights = new Map<string, Flight>()

  return function run(call, scope, isPinned) {
    try {
      const method = call.found
      if (method.basis === undefined) return start(call, scope, isPinned)
      const { view } = scope
      const basis = method.basis(view, call.params)
      const basisKey = view.cacheKey(basis)
      const key = `${basisKey} ${method.name} ${call.text}`
      const known = cache.get(key)
      if (known !== undefined) return known
      if (method.runs !== 'front') return share(call, scope, { key, basis, basisKey }, isPinned)
      const reply = start(call, scope, isPinned)
      return reply instanceof Promise ? reply.then((one) => keep(one, key)) : keep(reply, key)
    } catch (error) {
      return failure(error, call, scope)
    }
  }

  /** @param isPinned the call belongs to a batch that holds a record. */
  function start(call: Call, scope: Scope, isPinned: boolean): PoolReply | Promise<PoolReply> {
    const { found: method, params, text } = call
    if (method.runs !== 'front') {
      if (text.length <= DECODE_FIRST_CHARACTERS) method.decode(params)
      const record = isPinned ? scope.record : undefined
      const deadline = scope.startedAt + laneMs(method.runs, limits)
      const { client } = scope
      return executor
        .execute({ method, params, text, endpoint, record, deadline, client })
        .then((reply) => capped(withLateData(reply, call, scope)))
    }
    const result = method.invoke(scope, params)
    return typeof result === 'string'
      ? capped({ result })
      : result.then(
          (settled) => capped({ result: settled }),
          (error: unknown) => failure(error, call, scope),
        )
  }

  function keep(reply: PoolReply, key: string): PoolReply {
    if (isLasting(reply)) cache.set(key, reply)
    return reply
  }

  /** One run in the pool for all equal calls of a moment. */
  async function share(
    call: Call,
    scope: Scope,
    subject: Subject,
    isPinned: boolean,
  ): Promise<PoolReply> {
    const { key } = subject
    const { record, client } = scope
    // A queued call holds no view: the worker takes the newest when it starts.
    if (!isPinned) scope.release()
    try {
      for (let flight = flights.get(key); flight !== undefined; flight = flights.get(key)) {
        const { reply, isKept } = await flight.landing
        if (isKept) return reply
        // The first caller went away and took its run along.
        if (flight.client.isGone && !client.isGone) continue
        if (!isLasting(reply)) return reply
        // From a newer record: that does for who holds no view.
        if (!isPinned && (reply.record ?? 0) >= record) return reply
        break
      }
      const running = Promise.resolve(start(call, scope, isPinned))
      const landing = running.then((reply) => {
        if (flights.get(key) === flight) flights.delete(key)
        const isKept = isLasting(reply) && isOf(subject, reply.record, { scope, record })
        if (isKept) cache.set(key, reply)
        return { reply, isKept }
      })
      const flight = { landing, client }
      flights.set(key, flight)
      return (await landing).reply
    } catch (error) {
      return failure(error, call, scope)
    }
  }

  /** Whether the record that a worker read stands for the subject: the one that was seen, or the newest when it has the same heads. */
  function isOf(
    { basis, basisKey }: Subject,
    read: number | undefined,
    seen: { readonly scope: Scope; readonly record: number },
  ): boolean {
    if (read === undefined || read === seen.record) return read !== undefined
    const { reader } = seen.scope.services
    if (read !== reader.newestRecord()) return false
    return readNewest(
      reader,
      endpoint,
      (view) => view.record === read && view.cacheKey(basis) === basisKey,
    )
  }

  /** A call that waited in vain for a worker, or whose worker was ended: the method itself could say nothing. */
  function withLateData(reply: PoolReply, { found, params }: Call, scope: Scope): PoolReply {
    if (found.lateData === undefined || !('error' in reply)) return reply
    const { error } = reply
    const known = error.data as { readonly suggestedRange?: unknown } | undefined
    if (error.code !== timedOut().code || known?.suggestedRange !== undefined) return reply
    const { lateData } = found
    try {
      const more = scope.readNewest((view) => lateData(view, params, limits))
      return { ...reply, error: { ...error, data: { ...known, ...more } } }
    } catch (problem) {
      if (isAnswer(problem)) return reply
      throw problem
    }
  }

  function capped(reply: PoolReply): PoolReply {
    if (!('result' in reply) || reply.result.length <= limits.responseBytes) return reply
    return { error: responseTooLarge(reply.result.length, limits.responseBytes).toObject() }
  }

  function failure(error: unknown, { found: method }: Call, scope: Scope): PoolReply {
    if (error instanceof RpcError) return { error: error.toObject() }
    if (error instanceof ViewError) {
      if (error.reason !== 'pruned') return { stale: true }
      return { error: pruned(error, scope).toObject() }
    }
    options.onBug(error, method.name)
    return { error: internalError().toObject() }
  }
}

/** Thrown at whom it concerns, as against a bug. */
const isAnswer = (error: unknown): boolean =>
  error instanceof RpcError || error instanceof ViewError || error instanceof SchemaError

/** Reverts and refusals that the view alone decides are answers like any other. */
function isLasting(reply: PoolReply): reply is Exclude<PoolReply, { stale: true }> {
  return (
    'result' in reply ||
    'pieces' in reply ||
    ('error' in reply && (reply.error.code === 3 || reply.error.code === -32000))
  )
}

function pruned(error: ViewError, scope: Scope): RpcError {
  const view = scope.held
  return view === undefined
    ? scope.readNewest((newest) => prunedHistory(error, newest))
    : prunedHistory(error, view)
}

export const prunedHistory = (error: ViewError, view: ChainView): RpcError =>
  historyPruned(error.message, {
    oldest: error.oldest ?? view.oldestState,
    newest: view.latest.number,
  })

/** Milliseconds that a lane's calls may take, time in the queue included. */
export function laneMs(runs: Runs, limits: Limits): number {
  if (runs === 'trace') return limits.traceMs
  if (runs === 'sidecar') return limits.sidecarMs
  return runs === 'logs' ? limits.logsMs : limits.callMs
}

export const outOfTime = (scope: Scope, now: number): RpcError =>
  timedOut({
    elapsedMs: Math.round(now - scope.startedAt),
    limitMs: Math.round(scope.deadline - scope.startedAt),
  })
