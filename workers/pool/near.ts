/**
 * Short calls run where they arrive: what lately took less than the way to a worker and back. Each under a hard bound of time, and with
 * what the threads have read before: the first row beyond sends it to the pool, as what is not known does (ADR 49).
 */
import type { ChainReader } from '../../engine/chain/types.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Engine } from '../../engine/evm/engine.ts'
import { makeFastEngine } from '../../engine/evm/fast/fast.ts'
import type { Gate } from '../../engine/storage/blocks/gate.ts'
import { createCallRunner } from '../../rpc/dispatch/worker-call.ts'
import type { MethodLimits, Methods } from '../../rpc/method/method.ts'
import { isBecause } from '../../rpc/seam/errors.ts'
import type { PoolCall, PoolReply } from '../../rpc/seam/executor.ts'
import type { Prediction } from './costs.ts'

export interface Near {
  /** At once; undefined: it is the pool's. @param isAlone no worker has anything to do */
  run(call: PoolCall, prediction: Prediction, isAlone: boolean): NearReply | undefined
  readonly stats: NearStats
  close(): void
}
export type NearReply = { readonly reply: PoolReply; readonly micros: number }
export type NearStats = {
  /** Calls since the start. */
  readonly answered: number
  /** Begun here and sent to the pool: at a row that nobody has read lately, or for their time. */
  readonly passedOn: number
}

export type NearOptions = {
  /** Of this thread, on the gate's store. */
  readonly reader: ChainReader
  readonly gate: Gate
  readonly chain: ChainSpec
  readonly methods: Methods
  readonly limits: MethodLimits
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly onBug: (error: unknown, method: string) => void
  readonly onTrap: (reason: string) => void
}

/** Longer parameters are decoded elsewhere. */
const MOST_TEXT = 4_096
/** Microseconds of the mean: the bound of one run is twice that. */
const MOST_MEAN_US = 150
/** Contracts whose code a run may fetch: 20 to 50 µs each from the block cache, once. */
const MOST_CODES = 4
/** Of a call that is alone: then a row is nearer than a worker, but for a disk that is slow. */
const MOST_ROWS = 4
const SLOW_MS = 2
const SLOW_REST_MS = 1_000
/** The engine ends by itself, after 0.5 ms of plain opcodes or 2 of the dearest; this is for what is around it. */
const CALL_MS = 1
const MOST_KEYS = 4_096
/** What nobody has used for so long is given back. */
const REST_MS = 50
/** A function that was sent on is not tried again for so many calls at most; each time twice as many. */
const MOST_SKIPPED = 256

export function createNear(options: NearOptions): Near {
  const { gate, reader, limits, now, onBug, onTrap } = options
  const stats = { answered: 0, passedOn: 0 }
  const runner = createCallRunner({
    ...options,
    engine: makeFastEngine(NOBODY, { onTrap }),
    isShort: true,
    onBug(error, method) {
      if (!gate.wasMet && !(error instanceof NobodyError)) onBug(error, method)
    },
  })
  const tries = createTries()
  const turn = createTurn(limits.nearTurnMs)
  const hold = createHold(runner.endTask)
  /** When rows may be read again. */
  let rowsFrom = 0

  function answer(
    { method, text, endpoint, record, wantsReads }: PoolCall,
    rows: number,
  ): PoolReply | undefined {
    const end = now() + CALL_MS
    // One that is named is not looked for again, when it has gone.
    const named = { method: method.name, text, endpoint, record: record ?? reader.newestRecord() }
    hold.hold(named.record)
    const call = { ...named, wantsReads: wantsReads === true }
    const bounds = { isExpired: () => now() >= end, put() {} }
    const reply = gate.shutFor(() => runner.run(call, bounds), { codes: MOST_CODES, rows })
    if (gate.wasMet || reply instanceof Promise || 'written' in reply || 'stale' in reply)
      return undefined
    return 'error' in reply && isOfNear(reply.error) ? undefined : reply
  }

  return {
    run(call, prediction, isAlone) {
      if (turn.leftMs <= 0 || !isNear(call, prediction)) return undefined
      const begun = now()
      const rows = turn.hasBegun || !isAlone || begun < rowsFrom ? 0 : MOST_ROWS
      const kind = `${rows} ${prediction.key}`
      if (!tries.mayTry(kind)) return undefined
      turn.begin()
      const reply = answer(call, rows)
      const ms = now() - begun
      if (rows > 0 && ms > SLOW_MS) rowsFrom = begun + SLOW_REST_MS
      turn.leftMs -= ms
      tries.tried(kind, reply !== undefined)
      if (reply === undefined) stats.passedOn++
      else stats.answered++
      return reply && { reply, micros: Math.round(ms * 1_000) }
    },
    stats,
    close: hold.close,
  }
}

const isNear = ({ method, text }: PoolCall, { expected, predicted, isShared }: Prediction) =>
  method.isSingleRun === true &&
  expected === 'quick' &&
  isShared &&
  predicted <= MOST_MEAN_US &&
  text.length <= MOST_TEXT

/** What the bounds here have brought about, and those of a worker would not. */
const isOfNear = (error: Parameters<typeof isBecause>[0]): boolean =>
  isBecause(error, 'timeout') || isBecause(error, 'internal')

/** One of the event loop: whoever comes when its time is used up goes to the pool, and others have their turn. */
function createTurn(turnMs: number) {
  const turn = {
    leftMs: turnMs,
    hasBegun: false,
    begin(): void {
      if (turn.hasBegun) return
      turn.hasBegun = true
      setImmediate(over)
    },
  }
  function over(): void {
    turn.hasBegun = false
    turn.leftMs = turnMs
  }
  return turn
}

/** The view and the session of a record are kept for the calls that follow, until another one is newer or nobody asks. */
function createHold(end: () => void) {
  let held = 0
  let isUsed = false
  let timer: NodeJS.Timeout | undefined
  function rest(): void {
    timer = undefined
    if (isUsed) watch()
    else giveBack()
  }
  function giveBack(): void {
    held = 0
    end()
  }
  function watch(): void {
    isUsed = false
    timer ??= setTimeout(rest, REST_MS).unref()
  }
  return {
    hold(record: number): void {
      if (held !== 0 && held !== record) end()
      held = record
      if (timer === undefined) watch()
      isUsed = true
    },
    close: () => clearTimeout(timer),
  }
}

/** By function, and rows that may be read: whether it is worth a try. */
function createTries() {
  type Try = { skipped: number; left: number }
  const tries = new Map<string, Try>()
  return {
    mayTry(key: string): boolean {
      const known = tries.get(key)
      if (known === undefined || known.left <= 0) return true
      known.left--
      return false
    },
    tried(key: string, isAnswered: boolean): void {
      const known = tries.get(key)
      if (isAnswered) {
        if (known === undefined) return
        known.skipped >>= 1
        if (known.skipped === 0) tries.delete(key)
        return
      }
      const skipped = Math.min(MOST_SKIPPED, 2 * (known?.skipped ?? 0) + 1)
      tries.set(key, { skipped, left: skipped })
      if (tries.size > MOST_KEYS) tries.delete(tries.keys().next().value!)
    },
  }
}

/** Behind the engine here is none: what it cannot run, the pool runs. */
class NobodyError extends Error {}
const refuse = (): never => {
  throw new NobodyError('not here')
}
const NOBODY: Engine = { name: 'nobody', openSession: refuse, precompiles: refuse }
