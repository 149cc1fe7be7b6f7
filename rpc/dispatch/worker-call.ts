/** The worker's side of a pool call: decodes, runs over a leased view, gives the result as text. */
import type { Block, ChainReader, Endpoint } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import { type Engine, TrapError } from '../../engine/evm/engine.ts'
import { type KeptReplays, keptReplays } from '../../engine/execution/call/kept-replays.ts'
import { noSession } from '../../engine/execution/call/kept-session.ts'
import { MissingError, ViewError } from '../../engine/state/reader.ts'
import type { CallState, MethodLimits, Methods, PoolContext } from '../method/method.ts'
import {
  internalError,
  methodNotFound,
  RpcError,
  responseTooLarge,
  timedOut,
} from '../seam/errors.ts'
import type { PoolReply, ReadFrom } from '../seam/executor.ts'
import { type Piece, PieceWriter } from '../seam/pieces.ts'
import { prunedHistory } from './call.ts'
import { type Kept, type TaskView, taskViews } from './task-views.ts'
import { ToldReads } from './told-reads.ts'

export type WorkerCall = {
  readonly method: string
  /** Parameters as JSON. */
  readonly text: string
  readonly endpoint: Endpoint
  /** The record that the front holds for the call; undefined: the newest. */
  readonly record: number | undefined
  /** The reply shall say what was read: the call shares no session with others then. */
  readonly wantsReads?: boolean
}
/** `written`: bytes of the result, all of which went out in pieces before. */
export type WorkerReply = PoolReply | ({ readonly written: number } & ReadFrom)
/** How far a call may go, and where a result goes that is large. */
export type CallBounds = {
  readonly isExpired: () => boolean
  readonly put: (piece: Piece) => void
}
export interface CallRunner {
  /** Never throws. */
  run(call: WorkerCall, bounds: CallBounds): WorkerReply | Promise<WorkerReply>
  /** Gives every view back: to be called after the last call of a task. */
  endTask(): void
}

/** What is different where state is fetched as it is read. */
export type LazyCalls = Kept & {
  readonly replays: (kept: KeptReplays) => KeptReplays
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
  /** State is fetched as it is read (collecting.ts); undefined: all of it is there. */
  readonly lazy?: LazyCalls | undefined
}

export function createCallRunner(parts: RunnerParts): CallRunner {
  const { reader, chain, engine, limits, methods, now, lazy } = parts
  const views = taskViews({ reader, chain, engine, kept: lazy })
  /** Of the running call. */
  const [output, reads] = [new PieceWriter(), new ToldReads(limits.resultCacheReads)]
  const replays = lazy?.replays(keptReplays()) ?? keptReplays()
  const shared = { chain, limits, now, output, replays, ...ofLazy(lazy) }

  /** @param on another one than the calls' own: the call shares no session with others then */
  function run(
    call: WorkerCall,
    bounds: CallBounds,
    on = engine,
  ): WorkerReply | Promise<WorkerReply> {
    const { isExpired } = bounds
    output.begin(limits.responseBytes, bounds.put)
    try {
      const method = methods.get(call.method)
      if (method === undefined) return { error: methodNotFound(call.method).toObject() }
      if (isExpired()) return late()
      const leased = views.lease(call)
      if (leased === undefined) return { stale: true }
      const { view } = leased
      const told = call.wantsReads ? reads : undefined
      const stateOf = on === engine && !told ? leased.states.of : apart(leased, told)
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
      if (call.record !== undefined) return { stale: true }
      // Once more on a newer view, until the deadline.
      output.cutTo(0)
      return Promise.resolve().then(() => run(call, bounds, on))
    }
    if (error instanceof TrapError && on.fallback !== undefined) {
      on.fallback.tell(`${call.method}: ${error.message}`)
      // All of it, within the same deadline.
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
  ...{ isLazy: lazy !== undefined, expects: lazy?.expects, isLost: lazy?.isLost },
})

/** For a call that shares no session with others: on another engine than theirs, or because what it reads is told. */
const apart =
  ({ states, view }: TaskView, reads: ToldReads | undefined) =>
  (block: Block): CallState => {
    const state = states.of(block)
    const own = reads === undefined ? state : reads.noted(state, view)
    return { ...own, kept: noSession(own.reader) }
  }

/** Without a text it is written. */
function settled(
  text: string,
  { output, limits }: { readonly output: PieceWriter; readonly limits: MethodLimits },
) {
  if (text !== '') return { result: text }
  if (output.isFull)
    return { error: responseTooLarge(output.length, limits.responseBytes).toObject() }
  const whole = output.end()
  return whole === undefined ? { written: output.length } : { result: whole }
}

const readFrom = ({ record, view }: TaskView): ReadFrom => ({
  record,
  pending: view.pending,
})

/** The front knows how long the call took; here only that it is over. */
const late = (): WorkerReply => ({ error: timedOut().toObject() })
