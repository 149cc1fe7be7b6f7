/**
 * Worker side of a pool call: decodes the parameters, runs over a leased view, and returns the
 * result as text.
 */
import type { Block, ChainReader, ChainView, Endpoint } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { type Engine, TrapError } from '../../engine/evm/engine.ts'
import { noSession } from '../../engine/execution/call/cached-session.ts'
import { createReplayCache, type ReplayCache } from '../../engine/execution/call/replay-cache.ts'
import { MissingError, ViewError } from '../../engine/state/reader.ts'
import { ReadSet } from '../../engine/state/reads.ts'
import {
  internalError,
  methodNotFound,
  RpcError,
  responseTooLarge,
  timedOut,
} from '../core/errors.ts'
import type { PoolReply, ReadFrom } from '../core/executor.ts'
import { type Piece, PieceWriter } from '../core/pieces.ts'
import type { CallState, MethodLimits, Methods, PoolContext } from '../method/method.ts'
import { prunedHistory } from './call.ts'
import { type TaskCaches, type TaskView, taskViews } from './task-views.ts'

export type WorkerCall = {
  readonly method: string
  /** Parameters as JSON text. */
  readonly text: string
  readonly endpoint: Endpoint
  /** Snapshot that the front leases for the call. undefined: the newest. */
  readonly snapshot: number | undefined
  /** The reply must list the state that was read, so the call shares no session. */
  readonly wantsReads?: boolean
}
/** `written`: bytes of a result whose pieces were all sent before. */
export type WorkerReply = PoolReply | ({ readonly written: number } & ReadFrom)
/** Limits of a call, and the receiver of a large result's pieces. */
export type CallBounds = {
  readonly isExpired: () => boolean
  readonly put: (piece: Piece) => void
}
export interface CallRunner {
  /** Runs a call and never throws. */
  run(call: WorkerCall, bounds: CallBounds): WorkerReply | Promise<WorkerReply>
  /** Releases all views after the last call of a task. */
  endTask(): void
}

/** Hooks of a node that fetches state on read. */
export type LazyCalls = TaskCaches & {
  readonly replays: (cached: ReplayCache) => ReplayCache
  readonly expects: NonNullable<PoolContext['expects']>
  readonly isLost: () => boolean
}

type RunnerParts = {
  readonly reader: ChainReader
  readonly chain: ChainSpec
  readonly engine: Engine
  readonly limits: MethodLimits
  readonly methods: Methods
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly onBug: (error: unknown, method: string) => void
  /** Hooks of a lazy node (collecting.ts). undefined: all state is local. */
  readonly lazy?: LazyCalls | undefined
}

export function createCallRunner(parts: RunnerParts): CallRunner {
  const { reader, chain, engine, limits, methods, now, lazy } = parts
  const views = taskViews({ reader, chain, engine, cached: lazy })
  /** Output and reads of the running call. */
  const [output, reads] = [new PieceWriter(), new TrackedReads(limits.resultCacheReads)]
  const replays = lazy?.replays(createReplayCache()) ?? createReplayCache()
  const shared = { chain, limits, now, output, replays, ...ofLazy(lazy) }

  /** @param on engine of the call; another engine than the task's shares no session */
  function run(
    call: WorkerCall,
    bounds: CallBounds,
    on = engine,
  ): WorkerReply | Promise<WorkerReply> {
    const { isExpired } = bounds
    output.start(limits.responseBytes, bounds.put)
    try {
      const method = methods.get(call.method)
      if (method === undefined) return { error: methodNotFound(call.method).toObject() }
      if (isExpired()) return late()
      const leased = views.lease(call)
      if (leased === undefined) return { stale: true }
      const { view } = leased
      const tracked = call.wantsReads ? reads : undefined
      const stateOf = on === engine && !tracked ? leased.states.of : apart(leased, tracked)
      const context: PoolContext = { ...shared, engine: on, view, isExpired, stateOf }
      const result = method.invoke(context, JSON.parse(call.text) as readonly unknown[])
      const replied = (text: string) => ({ ...settled(text, shared), ...readFrom(leased) })
      return typeof result === 'string'
        ? replied(result)
        : result.then(
            (text) => replied(text),
            (error: unknown) => failure(error, call, { bounds, on }),
          )
    } catch (error) {
      return failure(error, call, { bounds, on })
    }
  }

  function failure(
    error: unknown,
    call: WorkerCall,
    { bounds, on }: { readonly bounds: CallBounds; readonly on: Engine },
  ): WorkerReply | Promise<WorkerReply> {
    const leased = views.known(call)
    if (error instanceof MissingError) return { stale: true, missing: error.missing }
    const from = leased && readFrom(leased)
    if (error instanceof RpcError) return { error: error.toObject(), ...from }
    if (error instanceof ViewError) {
      const view = leased?.view
      if (error.reason === 'pruned' && view !== undefined)
        return { error: prunedHistory(error, view).toObject(), ...from }
      views.drop(call)
      if (call.snapshot !== undefined) return { stale: true }
      // A void view is replaced by a newer one, until the deadline.
      output.cutTo(0)
      return Promise.resolve().then(() => run(call, bounds, on))
    }
    if (error instanceof TrapError && on.fallback !== undefined) {
      on.fallback.report(`${call.method}: ${error.message}`)
      // The fallback engine repeats the whole call within the same deadline.
      output.cutTo(0)
      return run(call, bounds, on.fallback.engine)
    }
    parts.onBug(error, call.method)
    return { error: internalError().toObject() }
  }

  return {
    run: (call, bounds) =>
      call.wantsReads ? reads.around(() => run(call, bounds)) : run(call, bounds),
    endTask: () => views.end(),
  }
}

const ofLazy = (lazy: LazyCalls | undefined) => ({
  isLazy: lazy !== undefined,
  expects: lazy?.expects,
  isLost: lazy?.isLost,
})

/** Returns states without a shared session, for a call on another engine or with recorded reads. */
const apart =
  ({ states, view }: TaskView, reads: TrackedReads | undefined) =>
  (block: Block): CallState => {
    const state = states.of(block)
    const own = reads === undefined ? state : reads.recordingReads(state, view)
    return { ...own, cached: noSession(own.reader) }
  }

/** Returns the result. An empty text means that the result was written to the output. */
function settled(
  text: string,
  { output, limits }: { readonly output: PieceWriter; readonly limits: MethodLimits },
) {
  if (text !== '') return { result: text }
  if (output.isFull)
    return { error: responseTooLarge(output.length, limits.responseBytes).toObject() }
  const full = output.end()
  return full === undefined ? { written: output.length } : { result: full }
}

const readFrom = ({ snapshot, view }: TaskView): ReadFrom => ({
  snapshot,
  pending: view.pending,
})

/** Makes a timeout error without times, because only the front knows them. */
const late = (): WorkerReply => ({ error: timedOut().toObject() })

/**
 * Records the reads of a call whose response may outlive a head. A thread runs one call at a time.
 */
class TrackedReads {
  readonly #reads: ReadSet

  /** @param max maximum accounts and slots of a call */
  constructor(max: number) {
    this.#reads = new ReadSet(max)
  }

  /** Runs a call and adds its reads to the reply, if they are known. */
  around<Reply extends object>(run: () => Reply | Promise<Reply>): Reply | Promise<Reply> {
    this.#reads.start()
    const running = run()
    return running instanceof Promise
      ? running.then((reply) => this.#withReads(reply))
      : this.#withReads(running)
  }
  /** Wraps a state so that the running call's reads are recorded. */
  recordingReads(state: CallState, view: ChainView): CallState {
    const reader = view.recordingReads(state.reader, this.#reads)
    return { ...state, reader, onFields: (fields) => this.#reads.fields(fields) }
  }

  #withReads<Reply extends object>(reply: Reply): Reply {
    return 'result' in reply || 'error' in reply ? { ...reply, reads: this.#reads.take() } : reply
  }
}
