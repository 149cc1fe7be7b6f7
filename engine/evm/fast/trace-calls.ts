/** Converts the module's trace events to calls of a TraceSink. */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import type { Log } from '../../primitives/receipt.ts'
import { createAddress } from '../../primitives/transaction-codec.ts'
import { concatBytes } from '../../primitives/words.ts'
import type { Touch, TraceSink, TraceStep } from '../engine.ts'
import { OPCODES } from '../opcodes.ts'
import { HALT_NONE } from './halt-words.ts'
import type { HostCalls, Instance } from './instance.ts'
import { ROW_BYTES, TOUCHING } from './opcode-rows.ts'

export type TraceCalls = Pick<HostCalls, 'enter' | 'exit' | 'step' | 'text' | 'log'>

/** @param wordsOf converts a halt number to go-ethereum's words */
export function traceCallsOf(
  instance: Instance,
  options: { readonly sink: TraceSink; wordsOf(halt: number): string },
): TraceCalls {
  const { sink, wordsOf } = options
  const { TOLD } = instance.layout
  return {
    enter(kind, input, length) {
      if (sink.enter === undefined) return
      const { data } = instance
      sink.enter(
        OPCODES[kind]!.name,
        instance.address(TOLD),
        data.getUint32(TOLD + 104, true) === 0 ? undefined : instance.address(TOLD + 32),
        instance.number(TOLD + 64),
        data.getBigInt64(TOLD + 96, true),
        length === 0 ? NO_BYTES : instance.slice(input, length),
      )
    },
    exit(halt, output, length) {
      sink.exit?.(
        halt === HALT_NONE ? undefined : wordsOf(halt),
        instance.data.getBigInt64(TOLD + 96, true),
        length === 0 ? NO_BYTES : instance.slice(output, length),
      )
    },
    step(frame, op, halt) {
      const isFailed = halt !== HALT_NONE
      // A failing touch is reported before its step, as the reference engine does.
      if (isFailed) traceTouch({ frame, op, isFailed })
      sink.step?.(stepOf(instance, { frame, op, halt, wordsOf }))
      if (!isFailed) traceTouch({ frame, op, isFailed })
    },
    text(at, length, steps) {
      sink.stepText?.write(instance.bytes.subarray(at, at + length), steps)
    },
    log(at) {
      sink.log?.(logAt(instance, at))
    },
  }

  function traceTouch(step: { frame: number; op: number; isFailed: boolean }): void {
    if (sink.touch !== undefined && TOUCHING.has(step.op)) sink.touch(touchOf(instance, step))
  }
}

function stepOf(
  instance: Instance,
  step: { frame: number; op: number; halt: number; wordsOf(halt: number): string },
): TraceStep {
  const { data, layout, exports } = instance
  const { frame, op, halt, wordsOf } = step
  const field = (name: 'F_IP' | 'F_CODE') => data.getUint32(frame + layout[name], true)
  const gas = exports.stepGas.value
  const unpaid = BigInt.asUintN(64, exports.unpaid.value)
  const spent = gas - exports.gas.value + unpaid
  return {
    pc: field('F_IP') - field('F_CODE'),
    op,
    gas,
    cost: spent === 0n ? BigInt(data.getUint16(layout.OPCODES + op * ROW_BYTES, true)) : spent,
    depth: exports.depth.value,
    address: instance.address(data.getUint32(frame + layout.F_ACCOUNT, true) + layout.A_WORD),
    refund: exports.refund.value,
    error: halt === HALT_NONE ? undefined : wordsOf(halt),
    stack: () => stackOf(instance, instance.data.getUint32(frame + layout.F_SP, true), frame),
    memory: () =>
      instance.slice(
        instance.data.getUint32(frame + layout.F_MEMORY, true),
        instance.data.getUint32(frame + layout.F_SIZE, true),
      ),
    returnData: () =>
      instance.slice(instance.data.getUint32(layout.RETURN, true), exports.returnLength.value),
  }
}

/** The stack with its top last. */
function stackOf(instance: Instance, sp: number, frame: number): bigint[] {
  const stack = []
  for (let at = instance.data.getUint32(frame + instance.layout.F_STACK, true); at > sp; at -= 32)
    stack.push(instance.number(at - 32))
  return stack
}

function touchOf(
  instance: Instance,
  options: { readonly frame: number; readonly op: number; readonly isFailed: boolean },
): Touch {
  const { frame, op, isFailed } = options
  const { layout, data } = instance
  const sp = data.getUint32(frame + layout.F_SP, true)
  const count = (data.getUint32(frame + layout.F_STACK, true) - sp) / 32
  const address = instance.address(data.getUint32(frame + layout.F_ACCOUNT, true) + layout.A_WORD)
  const touch = { op, address, isFailed }
  switch (op) {
    case 0x54: // SLOAD
    case 0x55: // SSTORE
      return count < 1 ? touch : { ...touch, key: instance.word(sp) }
    case 0xf0: // CREATE
      if (isFailed) return touch
      return { ...touch, target: createAddress(address, nonceOf(instance, frame)) }
    case 0xf5: // CREATE2
      return isFailed ? touch : { ...touch, target: saltedAddress(instance, frame, address) }
    case 0xf1: // CALL
    case 0xf2: // CALLCODE
    case 0xf4: // DELEGATECALL
    case 0xfa: // STATICCALL
      // go-ethereum's tracers inspect a call only with five words on the stack
      // (eth/tracers/native/prestate.go).
      return count < 5 ? touch : { ...touch, target: instance.address(sp + 32) }
    default: // BALANCE, EXTCODESIZE, EXTCODECOPY, EXTCODEHASH, SELFDESTRUCT
      return count < 1 ? touch : { ...touch, target: instance.address(sp) }
  }
}

const nonceOf = ({ data, layout }: Instance, frame: number): bigint =>
  data.getBigUint64(data.getUint32(frame + layout.F_ACCOUNT, true) + layout.A_NONCE, true)

/**
 * Computes keccak256(0xff ‖ creator ‖ salt ‖ keccak256(init code))[12:]. Memory has not expanded
 * yet, so bytes beyond its end are zero.
 */
function saltedAddress(instance: Instance, frame: number, creator: Bytes): Bytes {
  const { data, layout } = instance
  const sp = data.getUint32(frame + layout.F_SP, true)
  const [offset, length] = [instance.number(sp + 32), instance.number(sp + 64)]
  const code = new Uint8Array(Number(length))
  const size = BigInt(data.getUint32(frame + layout.F_SIZE, true))
  if (offset < size) {
    const from = data.getUint32(frame + layout.F_MEMORY, true) + Number(offset)
    const end = offset + length < size ? offset + length : size
    code.set(instance.slice(from, Number(end - offset)))
  }
  const seed = concatBytes(Uint8Array.of(0xff), creator, instance.word(sp + 96), keccak256(code))
  return keccak256(seed).slice(12)
}

export function logAt(instance: Instance, at: number): Log {
  const { data, layout } = instance
  const account = data.getUint32(at, true)
  const count = data.getUint32(at + 4, true)
  const topics = Array.from({ length: count }, (_, topic) =>
    instance.slice(at + 16 + 32 * topic, 32),
  )
  return {
    address: instance.address(account + layout.A_WORD),
    topics,
    data: instance.slice(at + 16 + 32 * count, data.getUint32(at + 8, true)),
  }
}

/** Reads the logs of the run that ended. */
export function logsOf(instance: Instance): Log[] {
  const { data, layout, exports } = instance
  const logs: Log[] = []
  const from = data.getUint32(layout.LOGS, true)
  const end = from + exports.logsEnd.value
  for (let at = from; at < end; at += data.getUint32(at + 12, true)) logs.push(logAt(instance, at))
  return logs
}
