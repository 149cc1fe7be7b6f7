/** The struct logger: every step of the run, as debug_trace* shows it when no tracer is named. */
import type { TraceStep } from '../evm/engine.ts'
import { OPCODES } from '../evm/opcodes.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { bigintToBytes } from '../primitives/words.ts'
import { hexText, Pieces, quantityText, stringText } from './json.ts'
import type { TraceContext, TracedState, Tracer } from './types.ts'

export type StructLogOptions = {
  readonly enableMemory: boolean
  readonly disableStack: boolean
  readonly disableStorage: boolean
  readonly enableReturnData: boolean
  /** Characters of steps after which no further one is kept; 0: none. */
  readonly limit: number
}

export function structLogger(options: StructLogOptions, { budget }: TraceContext): Tracer {
  const steps = new Pieces()
  /** By contract: the slots read or written so far, all of them in each step that reads or writes one, keys and values in hex. */
  const storage = new Map<string, Map<string, string>>()
  let state: TracedState
  let length = 0
  let count = 0
  let depth = 0
  let gas = 0n
  let error: string | undefined
  let output: Bytes = new Uint8Array(0)

  function touchedBy(step: TraceStep): ReadonlyMap<string, string> | undefined {
    const isRead = step.op === SLOAD
    if (options.disableStorage || (!isRead && step.op !== SSTORE)) return undefined
    const stack = step.stack()
    if (stack.length < (isRead ? 1 : 2)) return undefined
    const contract = bytesToHex(step.address)
    let slots = storage.get(contract)
    if (slots === undefined) {
      slots = new Map()
      storage.set(contract, slots)
    }
    const key = bigintToBytes(stack.at(-1)!, 32)
    const value = isRead ? state.slot(step.address, key) : bigintToBytes(stack.at(-2)!, 32)
    slots.set(bytesToHex(key), bytesToHex(value))
    return slots
  }

  return {
    sink: {
      step(step) {
        if (options.limit !== 0 && length > options.limit) return
        const text = stepText(step, options, touchedBy(step))
        steps.push(count === 0 ? text : `,${text}`)
        length += text.length
        count++
        budget.spend(text.length)
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
    result: () => [
      `{"gas":${gas},"failed":${error !== undefined},"returnValue":${hexText(output)},"structLogs":[`,
      ...steps.take(),
      ']}',
    ],
  }
}

const SLOAD = 0x54
const SSTORE = 0x55

function stepText(
  step: TraceStep,
  options: StructLogOptions,
  storage: ReadonlyMap<string, string> | undefined,
): string {
  const { pc, op, gas, cost, depth, error, refund } = step
  let text = `{"pc":${pc},"op":"${nameOf(op)}","gas":${gas},"gasCost":${cost},"depth":${depth + 1}`
  if (error !== undefined) text += `,"error":${stringText(error)}`
  if (!options.disableStack) text += `,"stack":[${step.stack().map(quantityText).join(',')}]`
  if (options.enableReturnData) {
    const data = step.returnData()
    if (data.length > 0) text += `,"returnData":${hexText(data)}`
  }
  if (options.enableMemory) {
    const memory = step.memory()
    if (memory.length > 0) text += `,"memory":[${wordsOf(memory).join(',')}]`
  }
  if (storage !== undefined && storage.size > 0)
    text += `,"storage":{${[...storage].map(([key, value]) => `"${key}":"${value}"`).join(',')}}`
  if (refund !== 0n) text += `,"refund":${refund}`
  return `${text}}`
}

const nameOf = (op: number): string =>
  OPCODES[op]?.name ?? `opcode 0x${op.toString(16)} not defined`

function wordsOf(memory: Bytes): string[] {
  const words: string[] = []
  for (let at = 0; at < memory.length; at += 32) words.push(hexText(memory.subarray(at, at + 32)))
  return words
}
