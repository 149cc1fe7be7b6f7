/** The tree of call frames that callTracer and flatCallTracer share. */
import type { TraceSink } from '../evm/engine.ts'
import { revertReason } from '../evm/revert-reason.ts'
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import type { Log } from '../primitives/receipt.ts'
import { type TraceBudget, TracerError, type TraceScene } from './types.ts'

export type Frame = {
  /** The opcode that made the frame. */
  readonly kind: string
  readonly from: Bytes
  /** undefined for a failed creation. */
  to: Bytes | undefined
  readonly value: bigint
  readonly gas: bigint
  gasUsed: bigint
  readonly input: Bytes
  output: Bytes
  error: string | undefined
  revertReason: string | undefined
  readonly calls: Frame[]
  logs: PacketLog[]
}
/** A log of a call frame, with its location. */
export type PacketLog = Log & {
  /** Index of the log in the block. */
  readonly index: number
  /** Number of the frame's calls before the log. */
  readonly position: number
}

export type FrameOptions = {
  /** Drops frames below the first. */
  readonly onlyTop: boolean
  readonly withLogs: boolean
  readonly firstLog: number
  readonly budget: TraceBudget
  /** Decides whether the caller retains an ended frame; all are retained by default. */
  readonly isIncluded?: (frame: Frame) => boolean
}

export class Frames {
  readonly sink: TraceSink
  readonly #options: FrameOptions
  readonly #open: Frame[] = []
  /** Number of logs that have not been reverted, at the start of each open frame and now. */
  readonly #logsAt: number[] = []
  #logs: number
  #depth = 0
  #scene: TraceScene | undefined
  #top: Frame | undefined

  constructor(options: FrameOptions) {
    this.#options = options
    this.#logs = options.firstLog
    this.sink = {
      enter: (kind, from, to, value, gas, input) => this.#enter(kind, from, to, value, gas, input),
      exit: (error, gasUsed, output) => this.#exit(error, gasUsed, output),
      ...(options.withLogs ? { log: (log: Log) => this.#log(log) } : {}),
    }
  }

  start(scene: TraceScene): void {
    this.#scene = scene
  }

  end(gasUsed: bigint): void {
    this.#top ??= this.#unbegun()
    this.#top.gasUsed = gasUsed
    if (this.#options.withLogs) dropFailedLogs(this.#top, false)
  }

  /** @throws {TracerError} if the transaction did not end */
  get top(): Frame {
    if (this.#top === undefined || this.#open.length > 0)
      throw new TracerError('incorrect number of top-level calls')
    return this.#top
  }

  #enter(
    kind: string,
    from: Bytes,
    to: Bytes | undefined,
    value: bigint,
    gas: bigint,
    input: Bytes,
  ): void {
    const depth = this.#depth++
    this.#options.budget.step()
    this.#logsAt.push(this.#logs)
    if (depth > 0 && this.#options.onlyTop) return
    this.#options.budget.spend(FRAME_BYTES + input.length)
    this.#open.push({
      kind,
      from: from.slice(),
      to: to?.slice(),
      value,
      gas: depth === 0 ? (this.#scene?.gasLimit ?? gas) : gas,
      gasUsed: 0n,
      input: input.slice(),
      output: NO_BYTES,
      error: undefined,
      revertReason: undefined,
      calls: [],
      logs: [],
    })
  }

  #exit(error: string | undefined, gasUsed: bigint, output: Bytes): void {
    const depth = --this.#depth
    const logsBefore = this.#logsAt.pop()!
    if (error !== undefined) this.#logs = logsBefore
    if (depth > 0 && this.#options.onlyTop) return
    const frame = this.#open.pop()!
    frame.gasUsed = gasUsed
    this.#options.budget.spend(output.length)
    setOutcome(frame, error, output)
    const caller = this.#open.at(-1)
    if (caller === undefined) this.#top = frame
    else if (this.#options.isIncluded?.(frame) ?? true) caller.calls.push(frame)
  }

  #log({ address, topics, data }: Log): void {
    const index = this.#logs++
    if (this.#options.onlyTop && this.#depth > 1) return
    const frame = this.#open.at(-1)!
    this.#options.budget.spend(FRAME_BYTES + data.length)
    frame.logs.push({ address, topics, data, index, position: frame.calls.length })
  }

  /**
   * Makes the frame of a deposit that failed before its message ran. It resembles a call refused
   * for its balance.
   */
  #unbegun(): Frame {
    const scene = this.#scene
    if (scene === undefined) throw new TracerError('incorrect number of top-level calls')
    const { from, to, value, gasLimit, input } = scene
    return {
      kind: to === undefined ? 'CREATE' : 'CALL',
      from,
      to,
      value,
      gas: gasLimit,
      gasUsed: gasLimit,
      input,
      output: NO_BYTES,
      error: 'insufficient balance for transfer',
      revertReason: undefined,
      calls: [],
      logs: [],
    }
  }
}

/** Approximate bytes of a frame as text, without its data. */
const FRAME_BYTES = 300

function setOutcome(frame: Frame, error: string | undefined, output: Bytes): void {
  if (error === undefined) {
    frame.output = output.slice()
    return
  }
  frame.error = error
  if (frame.kind === 'CREATE' || frame.kind === 'CREATE2') frame.to = undefined
  if (error !== 'execution reverted') return
  frame.output = output.slice()
  frame.revertReason = revertReason(output)
}

/** Removes the logs of failed frames and of all frames below them. */
function dropFailedLogs(frame: Frame, isFailed: boolean): void {
  const failed = isFailed || frame.error !== undefined
  if (failed) frame.logs = []
  for (const call of frame.calls) dropFailedLogs(call, failed)
}
