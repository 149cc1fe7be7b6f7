/** The tree of call frames that callTracer and flatCallTracer are made of. */
import type { TraceSink } from '../evm/engine.ts'
import { revertReason } from '../evm/revert-reason.ts'
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import type { Log } from '../primitives/receipt.ts'
import { type TraceBudget, TracerError, type TraceScene } from './types.ts'

export type Frame = {
  /** The opcode that made it. */
  readonly kind: string
  readonly from: Bytes
  /** undefined: a creation that failed. */
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
export type PacketLog = Log & {
  /** In the block. */
  readonly index: number
  /** Calls of the frame before it. */
  readonly position: number
}

export type FrameOptions = {
  /** Frames below the first are not kept. */
  readonly onlyTop: boolean
  readonly withLogs: boolean
  readonly firstLog: number
  readonly budget: TraceBudget
  /** Says of a frame that has ended whether its caller keeps it; all of them by default. */
  readonly isKept?: (frame: Frame) => boolean
}

export class Frames {
  readonly sink: TraceSink
  readonly #options: FrameOptions
  readonly #open: Frame[] = []
  /** Logs that stand, at the begin of each open frame and now. */
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

  /** @throws {TracerError} when the transaction did not end */
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
    else if (this.#options.isKept?.(frame) ?? true) caller.calls.push(frame)
  }

  #log({ address, topics, data }: Log): void {
    const index = this.#logs++
    if (this.#options.onlyTop && this.#depth > 1) return
    const frame = this.#open.at(-1)!
    this.#options.budget.spend(FRAME_BYTES + data.length)
    frame.logs.push({ address, topics, data, index, position: frame.calls.length })
  }

  /** A deposit that failed before its message ran: a frame like that of a call refused for its balance. */
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

/** About what a frame takes as text without its data. */
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

/** What fails leaves no logs, nor does what it called. */
function dropFailedLogs(frame: Frame, isFailed: boolean): void {
  const failed = isFailed || frame.error !== undefined
  if (failed) frame.logs = []
  for (const call of frame.calls) dropFailedLogs(call, failed)
}
