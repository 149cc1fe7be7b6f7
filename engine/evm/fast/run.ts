/** Runs messages in a session: writes the message, runs the module, reads the outcome. */
import type { Bytes } from '../../primitives/bytes.ts'
import { MissingError, type MissingKey, type StateReader } from '../../state/reader.ts'
import type { CodeCache } from '../code-cache.ts'
import { type Limits, type Message, missingOf, type Outcome, type TraceSink } from '../engine.ts'
import { haltWords } from './halt-words.ts'
import type { HostCalls, Instance } from './instance.ts'
import { memoryOfGas } from './memory-bound.ts'
import { Ended, makeReads } from './reads.ts'
import type { FastRules } from './rules.ts'
import { writeSteps } from './step-texts.ts'
import { logsOf, traceCallsOf } from './trace-calls.ts'

/** Maximum memory of all frames of a call together, and of one frame. */
const CALL_MEMORY_BYTES = 64 << 20
/** Maximum linear memory of an instance, for a call and for a transaction in a block. */
const CALL_LINEAR_BYTES = 256 << 20
const BLOCK_LINEAR_BYTES = 1 << 30
/** Maximum gas that the module counts; no run can use more. */
const MAX_GAS = (1n << 63n) - 1n

export type Runner = {
  readonly calls: HostCalls
  /**
   * Runs a message. After any error but a RuntimeError the session is as before the run.
   * @throws {WebAssembly.RuntimeError} {ViewError} and errors of hooks
   */
  run(message: Message, options: RunOptions): Outcome
  setTrace(sink: TraceSink | undefined): void
}
type RunOptions = { readonly baseFee: bigint; readonly limits: Limits | undefined }

/** State that hooks of a run share. */
type Running = {
  isExpired: (() => boolean) | undefined
  /** Error of the last precompiled contract that failed. */
  ofPrecompile: string
  isTraced: boolean
}

export function makeRunner(
  instance: Instance,
  options: {
    readonly fast: FastRules
    readonly codes: CodeCache
    readonly reader: () => StateReader
  },
): Runner {
  const { exports } = instance
  const reads = makeReads(instance, options)
  const running: Running = { isExpired: undefined, ofPrecompile: '', isTraced: false }
  const calls = {
    ...reads.calls,
    ...NO_TRACE_CALLS,
    ...boundCalls(instance, options.fast, running),
  }
  const wordsOf = (halt: number): string =>
    haltWords(halt, {
      first: exports.haltFirst.value,
      second: exports.haltSecond.value,
      ofPrecompile: running.ofPrecompile,
    })
  return {
    calls,
    run(message, { baseFee, limits }) {
      const mark = exports.checkpoint()
      running.isExpired = limits?.isExpired
      reads.start(limits ?? {})
      let end: number | Ended['why']
      let missing: readonly MissingKey[] = []
      try {
        putMessage(instance, message, baseFee)
        prepare(instance, message.gas, limits)
        exports.refund.value = message.refund ?? 0n
        end = runMessage(instance, message, running.isTraced)
      } catch (error) {
        end = endOf(instance, error, mark)
      } finally {
        running.isExpired = undefined
        missing = reads.end()
      }
      const [first, ...others] = missing
      if (first !== undefined) {
        exports.revert(mark)
        return missingOf(new MissingError(first, ...others))
      }
      if (typeof end === 'string' && end !== 'missing') return { status: 'stopped', why: end }
      return outcomeOf(instance, Number(end), { message, wordsOf })
    },
    setTrace(sink) {
      running.isTraced = sink !== undefined
      Object.assign(
        calls,
        sink === undefined ? NO_TRACE_CALLS : traceCallsOf(instance, { sink, wordsOf }),
      )
      exports.setWants(Number(sink?.step !== undefined), Number(sink?.touch !== undefined))
      if (sink?.stepText !== undefined) writeSteps(instance, sink.stepText)
    },
  }
}

/**
 * Sets the memory limits. In a block only gas limits frame memory, so that no block lacks memory
 * for the fast engine.
 */
function prepare({ exports }: Instance, gas: bigint, limits: Limits = {}): void {
  const { fuel = Number.POSITIVE_INFINITY, memoryBytes } = limits
  if (memoryBytes === undefined) {
    const bytes = Math.min(memoryOfGas(gas), BLOCK_LINEAR_BYTES)
    exports.prepare(fuel, bytes, bytes, BLOCK_LINEAR_BYTES)
    return
  }
  const frameBytes = Math.min(memoryBytes, CALL_MEMORY_BYTES)
  exports.prepare(fuel, frameBytes, CALL_MEMORY_BYTES, CALL_LINEAR_BYTES)
}

/** Returns SUCCESS, REVERTED or HALTED (asm/frames/ends.ts). */
function runMessage({ exports }: Instance, { input, to }: Message, isTraced: boolean): number {
  const run = to === undefined ? exports.runCreate : exports.runCall
  return run(input.length, Number(isTraced))
}

/** Returns why the run ended, and reverts the session to the state before the run. */
function endOf(instance: Instance, error: unknown, mark: number): Ended['why'] {
  if (error instanceof WebAssembly.RuntimeError) throw error
  instance.exports.revert(mark)
  if (error instanceof Ended) return error.why
  throw error
}

/** Host calls for limits and precompiled contracts. */
function boundCalls(
  instance: Instance,
  fast: FastRules,
  running: Running,
): Pick<HostCalls, 'poll' | 'stop' | 'precompile'> {
  const contracts = [...fast.precompiles.values()]
  const poll = (): void => {
    if (running.isExpired?.() === true) throw new Ended('deadline')
  }
  return {
    poll,
    stop(why) {
      throw new Ended(STOPS[why]!)
    },
    precompile(id, input, length) {
      const { layout } = instance
      const gas = instance.data.getBigInt64(layout.GAS, true)
      const result = contracts[id - 1]!(instance.slice(input, length), gas, poll)
      if ('error' in result) {
        running.ofPrecompile = result.error
        return 1
      }
      putOutput(instance, result.output)
      instance.data.setBigInt64(layout.GAS, gas - result.gasUsed, true)
      return 0
    },
  }
}

const HALTED = 2
const STOPS = ['fuel', 'deadline', 'memory'] as const
const NO_TRACE_CALLS = { enter() {}, exit() {}, step() {}, text() {}, log() {} }

function putOutput(instance: Instance, output: Bytes): void {
  if (output.length > 0) {
    // The area may grow the memory, which replaces the views.
    const area = instance.exports.returnArea(output.length)
    instance.bytes.set(output, area)
  }
  instance.exports.setReturnLength(output.length)
}

function putMessage(instance: Instance, message: Message, baseFee: bigint): void {
  const { layout, exports } = instance
  const { input, blobHashes = [] } = message
  const at = exports.inputArea(input.length + 32 * blobHashes.length)
  const blobsAt = at + input.length
  const { bytes, data } = instance
  bytes.set(input, at)
  for (const [index, hash] of blobHashes.entries()) bytes.set(hash, blobsAt + 32 * index)
  const { ENVIRONMENT, MESSAGE, GAS } = layout
  instance.putWord(MESSAGE, message.from)
  if (message.to !== undefined) instance.putWord(MESSAGE + 32, message.to)
  instance.putNumber(MESSAGE + 64, message.value)
  instance.putNumber(ENVIRONMENT + 192, baseFee)
  instance.putWord(ENVIRONMENT + 256, message.origin)
  instance.putNumber(ENVIRONMENT + 288, message.gasPrice)
  data.setUint32(ENVIRONMENT + 320, blobHashes.length, true)
  data.setUint32(ENVIRONMENT + 324, blobsAt, true)
  data.setBigInt64(GAS, message.gas < MAX_GAS ? message.gas : MAX_GAS, true)
}

function outcomeOf(
  instance: Instance,
  status: number,
  { message, wordsOf }: { readonly message: Message; wordsOf(halt: number): string },
): Outcome {
  const { layout, exports, data } = instance
  if (status === HALTED) return { status: 'halt', reason: wordsOf(exports.halt.value) }
  const counted = data.getBigInt64(layout.GAS, true)
  const gasLeft = counted + (message.gas < MAX_GAS ? 0n : message.gas - MAX_GAS)
  const output = instance.slice(data.getUint32(layout.RETURN, true), exports.returnLength.value)
  if (status === 1) return { status: 'revert', gasLeft, output }
  const created = message.to === undefined ? { created: instance.address(layout.CREATED) } : {}
  const logs = logsOf(instance)
  return { status: 'success', gasLeft, refund: exports.refund.value, output, logs, ...created }
}
