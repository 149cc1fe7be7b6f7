/** Runs one call: on the front or through the executor, from the cache where its answer depends on the view alone. */
import type { ChainView, Endpoint } from '../engine/chain/types.ts'
import { ViewError } from '../engine/state/reader.ts'
import type { ResultCache } from './cache.ts'
import { historyPruned, internalError, RpcError, responseTooLarge, timedOut } from './errors.ts'
import type { Executor, PoolReply } from './executor.ts'
import type { Limits } from './limits.ts'
import type { Method, Runs } from './method.ts'
import type { Scope } from './scope.ts'

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

type Flight = { readonly reply: Promise<PoolReply>; readonly signal: AbortSignal }

/** Parameters up to this length are decoded before a worker sees them. */
const DECODE_FIRST_CHARACTERS = 16_384

export function createCaller(options: CallerOptions): Caller {
  const { endpoint, cache, executor, limits } = options
  const flights = new Map<string, Flight>()

  return function run(call, scope, isPinned) {
    try {
      const method = call.found
      if (method.basis === undefined) return capped(start(call, scope, isPinned))
      const { view } = scope
      const basis = view.cacheKey(method.basis(view, call.params))
      const key = `${basis} ${method.name} ${call.text}`
      const known = cache.get(key)
      if (known !== undefined) return known
      return method.runs === 'front' || isPinned
        ? keep(capped(start(call, scope, isPinned)), key)
        : share(call, scope, key)
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
      const { signal } = scope.client
      return executor.execute({ method, params, text, endpoint, record, deadline, signal })
    }
    const result = method.invoke(scope, params)
    return typeof result === 'string'
      ? { result }
      : result.then(
          (settled): PoolReply => ({ result: settled }),
          (error: unknown) => failure(error, call, scope),
        )
  }

  function keep(
    reply: PoolReply | Promise<PoolReply>,
    key: string,
  ): PoolReply | Promise<PoolReply> {
    const set = (settled: PoolReply): PoolReply => {
      if (isLasting(settled)) cache.set(key, settled)
      return settled
    }
    return reply instanceof Promise ? reply.then(set) : set(reply)
  }

  /** One run for all equal calls of a moment. Its answer is of the same record or a newer one than each of them could have asked. */
  async function share(call: Call, scope: Scope, key: string): Promise<PoolReply> {
    const { reader } = scope.services
    const { record } = scope
    // A queued call holds no view: the worker takes the newest when it starts.
    scope.release()
    const flightKey = `${record} ${key}`
    const flown = flights.get(flightKey)
    if (flown !== undefined) {
      const reply = await flown.reply
      // The first caller went away and took its run along.
      if (!flown.signal.aborted || scope.client.signal.aborted) return reply
    }
    try {
      const reply = Promise.resolve(capped(start(call, scope, false)))
      flights.set(flightKey, { reply, signal: scope.client.signal })
      const settled = await reply
      // Only when no record came between is it certain that the worker read this one.
      if (isLasting(settled) && reader.newestRecord() === record) cache.set(key, settled)
      return settled
    } catch (error) {
      return failure(error, call, scope)
    } finally {
      flights.delete(flightKey)
    }
  }

  function capped(reply: PoolReply | Promise<PoolReply>): PoolReply | Promise<PoolReply> {
    return reply instanceof Promise ? reply.then(cap) : cap(reply)
  }
  function cap(reply: PoolReply): PoolReply {
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

/** Reverts and refusals that the view alone decides are answers like any other. */
function isLasting(reply: PoolReply): boolean {
  return (
    'result' in reply ||
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
  historyPruned(error.message, { oldest: view.oldestState, newest: view.latest.number })

/** Milliseconds that a lane's calls may take, time in the queue included. */
export function laneMs(runs: Runs, limits: Limits): number {
  if (runs === 'trace') return limits.traceMs
  return runs === 'logs' ? limits.logsMs : limits.callMs
}

export const outOfTime = (scope: Scope, now: number): RpcError =>
  timedOut({
    elapsedMs: Math.round(now - scope.startedAt),
    limitMs: Math.round(scope.deadline - scope.startedAt),
  })
