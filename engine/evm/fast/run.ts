/** Runs of one session: the message goes in, the module runs, the outcome comes out. */
import type { Bytes } from '../../primitives/bytes.ts'
import type { CodeCache } from '../code-cache.ts'
import type { StateReader } from '../../state/reader.ts'
import type { Limits, Message, Outcome } from '../engine.ts'
import { haltWords } from './halt-words.ts'
import type { HostCalls, Instance } from './instance.ts'
import { Ended, makeReads } from './reads.ts'
import type { FastRules } from './rules.ts'
import { logsOf, tellerOf, type TouchSink } from './tell.ts'

/** Of all frames of a run together, and of one where the limits say nothing. */
export const MOST_MEMORY_BYTES = 64 << 20
/** Gas that the module counts; nobody can use more. */
const MOST_GAS = 1n << 62n

/** The module trapped: the session is lost, with its instance. A bug of the engine's; the other engine can do the same work. */
export class TrapError extends Error {
  override name = 'TrapError'
}

export type Runner = {
  readonly calls: HostCalls
  /** @throws {TrapError} {ViewError} and what hooks throw; of all but the first, the session is as before the run. */
  run(message: Message, options: RunOptions): Outcome
  setTrace(sink: TouchSink | undefined): void
}
type RunOptions = { readonly baseFee: bigint; readonly limits: Limits | undefined }

export function makeRunner(
  instance: Instance,
  options: { readonly fast: FastRules; readonly codes: CodeCache; readonly reader: () => StateReader },
): Runner {
  const { exports } = instance
  const reads = makeReads(instance, options)
  const contracts = [...options.fast.precompiles.values()]
  const bounds: { isExpired: (() => boolean) | undefined } = { isExpired: undefined }
  /** What the last precompiled contract that failed said. */
  let ofPrecompile = ''
  let isTraced = false
  const wordsOf = (halt: number): string =>
    haltWords(halt, {
      first: exports.haltFirst.value,
      second: exports.haltSecond.value,
      ofPrecompile,
    })
  const poll = (): void => {
    if (bounds.isExpired?.() === true) throw new Ended('deadline')
  }
  const calls = {
    ...reads.calls,
    ...NO_TELLER,
    poll,
    stop(why: number) {
      throw new Ended(STOPS[why]!)
    },
    precompile(id: number, input: number, length: number) {
      const { layout } = instance
      const gas = instance.data.getBigInt64(layout.GAS, true)
      const result = contracts[id - 1]!(instance.slice(input, length), gas, poll)
      if ('error' in result) {
        ofPrecompile = result.error
        return 1
      }
      putOutput(instance, result.output)
      instance.data.setBigInt64(layout.GAS, gas - result.gasUsed, true)
      return 0
    },
  }

  function run(message: Message, { baseFee, limits }: RunOptions): Outcome {
    const mark = exports.checkpoint()
    bounds.isExpired = limits?.isExpired
    putMessage(instance, message, baseFee)
    reads.begin()
    let ended: Ended['why'] | undefined
    let status = HALTED
    try {
      const fuel = limits?.fuel ?? Number.POSITIVE_INFINITY
      exports.prepare(fuel, Math.min(limits?.memoryBytes ?? MOST_MEMORY_BYTES, MOST_MEMORY_BYTES), MOST_MEMORY_BYTES)
      const { length } = message.input
      status =
        message.to === undefined
          ? exports.runCreate(length, Number(isTraced))
          : exports.runCall(length, Number(isTraced))
    } catch (error) {
      ended = endOf(error, mark)
    }
    const missing = reads.end()
    bounds.isExpired = undefined
    if (missing.length > 0) {
      exports.revert(mark)
      return { status: 'missing', what: missing[0]! }
    }
    if (ended !== undefined && ended !== 'missing') return { status: 'stopped', why: ended }
    return outcomeOf(instance, status, { message, wordsOf })
  }

  /** Why the run was ended, with the session as before it. */
  function endOf(error: unknown, mark: number): Ended['why'] {
    if (error instanceof WebAssembly.RuntimeError) {
      instance.isBroken = true
      throw new TrapError('the engine trapped', { cause: error })
    }
    exports.revert(mark)
    if (error instanceof Ended) return error.why
    reads.end()
    throw error
  }

  return {
    calls,
    run,
    setTrace(sink) {
      isTraced = sink !== undefined
      const teller = sink === undefined ? NO_TELLER : tellerOf(instance, { sink, wordsOf })
      Object.assign(calls, teller)
      exports.setWants(Number(sink?.step !== undefined), Number(sink?.touch !== undefined))
    },
  }
}

const HALTED = 2
const STOPS = ['fuel', 'deadline', 'memory'] as const
const NO_TELLER = { enter() {}, exit() {}, step() {}, log() {} }

function putOutput(instance: Instance, output: Bytes): void {
  if (output.length > 0) instance.bytes.set(output, instance.exports.returnArea(output.length))
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
  data.setBigInt64(GAS, message.gas < MOST_GAS ? message.gas : MOST_GAS, true)
}

function outcomeOf(
  instance: Instance,
  status: number,
  { message, wordsOf }: { readonly message: Message; wordsOf(halt: number): string },
): Outcome {
  const { layout, exports, data } = instance
  if (status === HALTED) return { status: 'halt', reason: wordsOf(exports.halt.value) }
  const counted = data.getBigInt64(layout.GAS, true)
  const gasLeft = counted + (message.gas < MOST_GAS ? 0n : message.gas - MOST_GAS)
  const output = instance.slice(data.getUint32(layout.RETURN, true), exports.returnLength.value)
  if (status === 1) return { status: 'revert', gasLeft, output }
  const created = message.to === undefined ? { created: instance.address(layout.CREATED) } : {}
  const logs = logsOf(instance)
  return { status: 'success', gasLeft, refund: exports.refund.value, output, logs, ...created }
}
