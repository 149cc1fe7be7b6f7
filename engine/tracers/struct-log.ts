/**
 * The struct logger, which debug_trace* uses if no tracer is named. It writes every step during the
 * run.
 */
import type { StepText, TraceStep } from '../evm/engine.ts'
import { opcodeName } from '../evm/opcodes.ts'
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { bigintToBytes } from '../primitives/words.ts'
import { hexText, quantityText, stringText, writeHex } from './json.ts'
import type { TraceContext, TracedState, TraceOutput, Tracer } from './types.ts'

export type StructLogOptions = {
  readonly enableMemory: boolean
  readonly disableStack: boolean
  readonly disableStorage: boolean
  readonly enableReturnData: boolean
  /** Characters of steps after which further steps are dropped; 0 means no limit. */
  readonly limit: number
}

/**
 * Gas, status and return value follow the steps, because they are known last. JSON members have no
 * order.
 */
export function structLogger(options: StructLogOptions, context: TraceContext): Tracer {
  const { budget, output: to } = context
  const storage: SeenSlots = new Map()
  let state: TracedState
  let length = 0
  let count = 0
  let depth = 0
  let gas = 0n
  let error: string | undefined
  let output: Bytes = NO_BYTES

  /** Writes steps whose text the engine has made. */
  function write(text: Bytes, steps: number): void {
    budget.step(steps)
    if (count === 0) to.write(HEAD)
    // Each step starts with a comma, which the first step drops.
    to.writeBytes(count === 0 ? text.subarray(1) : text)
    count += steps
  }

  return {
    sink: {
      ...(options.limit === 0 ? { stepText: stepTextOf(options, write) } : {}),
      step(step) {
        budget.step()
        if (options.limit !== 0 && length > options.limit) return
        if (count === 0) to.write(HEAD)
        const before = to.length
        const touched = options.disableStorage ? undefined : touchedBy(step, storage, state)
        writeStep(to, { step, options, storage: touched, isFirst: count === 0 })
        length += to.length - before
        count++
      },
      enter() {
        depth++
      },
      exit(why, _gasUsed, data) {
        depth--
        if (depth > 0) return
        error = why
        output = why === undefined || why === 'execution reverted' ? data.slice() : output
      },
    },
    start(scene) {
      state = scene.state
    },
    end(gasUsed) {
      gas = gasUsed
    },
    writeResult() {
      if (count === 0) to.write(HEAD)
      to.write(`],"gas":${gas},"failed":${error !== undefined},"returnValue":`)
      writeHex(to, output)
      to.write('}')
    },
  }
}

const HEAD = '{"structLogs":['
const SLOAD = 0x54
const SSTORE = 0x55

/** Slots by contract; keys and values in hex. */
type SeenSlots = Map<string, Map<string, string>>

/**
 * For a step that reads or writes a slot, returns all slots that its contract has accessed so far.
 */
function touchedBy(
  step: TraceStep,
  seen: SeenSlots,
  state: TracedState,
): ReadonlyMap<string, string> | undefined {
  const isRead = step.op === SLOAD
  if (!isRead && step.op !== SSTORE) return undefined
  const stack = step.stack()
  if (stack.length < (isRead ? 1 : 2)) return undefined
  const contract = bytesToHex(step.address)
  let slots = seen.get(contract)
  if (slots === undefined) {
    slots = new Map()
    seen.set(contract, slots)
  }
  const key = bigintToBytes(stack.at(-1)!, 32)
  const value = isRead ? state.slot(step.address, key) : bigintToBytes(stack.at(-2)!, 32)
  slots.set(bytesToHex(key), bytesToHex(value))
  return slots
}

const stepTextOf = (
  { disableStack, disableStorage, enableMemory, enableReturnData }: StructLogOptions,
  write: StepText['write'],
): StepText => ({
  hasStack: !disableStack,
  hasStorage: !disableStorage,
  hasMemory: enableMemory,
  hasReturnData: enableReturnData,
  write,
})

function writeStep(
  to: TraceOutput,
  logged: {
    readonly step: TraceStep
    readonly options: StructLogOptions
    readonly storage: ReadonlyMap<string, string> | undefined
    readonly isFirst: boolean
  },
): void {
  const { step, options, storage, isFirst } = logged
  const { pc, op, gas, cost, depth, error, refund } = step
  let text = `${isFirst ? '' : ','}{"pc":${pc},"op":"${opcodeName(op)}","gas":${gas},"gasCost":${cost},"depth":${depth + 1}`
  if (error !== undefined) text += `,"error":${stringText(error)}`
  if (!options.disableStack) text += `,"stack":[${step.stack().map(quantityText).join(',')}]`
  if (options.enableReturnData || options.enableMemory || storage !== undefined) {
    to.write(text)
    text = ''
    if (options.enableReturnData) writeReturnData(to, step.returnData())
    if (options.enableMemory) writeMemory(to, step.memory())
    if (storage !== undefined) writeStorage(to, storage)
  }
  to.write(`${text}${refund === 0n ? '' : `,"refund":${refund}`}}`)
}

function writeReturnData(to: TraceOutput, data: Bytes): void {
  if (data.length === 0) return
  to.write(',"returnData":')
  writeHex(to, data)
}

/** Writes the memory in words, some at a time. */
function writeMemory(to: TraceOutput, memory: Bytes): void {
  if (memory.length === 0) return
  to.write(',"memory":[')
  for (let from = 0; from < memory.length && !to.isFull; from += MEMORY_BYTES) {
    const words: string[] = []
    for (let at = from; at < Math.min(memory.length, from + MEMORY_BYTES); at += 32)
      words.push(hexText(memory.subarray(at, at + 32)))
    to.write(`${from === 0 ? '' : ','}${words.join(',')}`)
  }
  to.write(']')
}
const MEMORY_BYTES = 4_096

function writeStorage(to: TraceOutput, slots: ReadonlyMap<string, string>): void {
  let separator = ',"storage":{'
  for (const [key, value] of slots) {
    to.write(`${separator}"${key}":"${value}"`)
    separator = ','
  }
  if (slots.size > 0) to.write('}')
}
