/** Feeds a TraceSink from the events of @ethereumjs/evm and the wrapped call opcodes. */
import { EVMError, type EVMResult, type InterpreterStep, type Message } from '@ethereumjs/evm'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { createAddress } from '../../primitives/transaction-codec.ts'
import { bigintToBytes } from '../../primitives/words.ts'
import type { TraceSink } from '../engine.ts'
import { NONCE_OVERFLOW, OUT_OF_GAS, stackFault } from '../halt-reason.ts'
import type { JournaledState } from '../journal/journaled-state.ts'
import { OPCODES } from '../opcodes.ts'
import { CALLS, constantGas, Fault, lowAddress, type RunState, UnpaidCall } from './gas.ts'
import type { MeteredEvm, RunTrace } from './kernel.ts'
import { haltReason, isUnpaidCode, outputOf } from './outcome.ts'
import { saltedAddress, traceTouch } from './touches.ts'

/** Subscribes only to events that the sink has hooks for. */
export function traceEvents(evm: MeteredEvm, state: JournaledState, trace: TraceSink): RunTrace {
  const steps = trace.step === undefined ? undefined : traceSteps(evm, trace)
  const frames =
    trace.enter === undefined && trace.exit === undefined
      ? undefined
      : traceFrames(evm, state, trace)
  return {
    seen: (runState) => steps?.seen(runState),
    ran: (runState) => steps?.ran(runState),
    priced(runState, cost) {
      steps?.priced(runState, cost)
      if (runState.gasLeft < cost) traceTouch(trace, runState, { state, isFailed: true })
    },
    gasFailed(runState, error) {
      if (!(error instanceof EVMError)) return
      steps?.gasFailed(runState, error)
      traceTouch(trace, runState, { state, isFailed: true })
    },
    running: (runState) => traceTouch(trace, runState, { state, isFailed: false }),
    async aroundCall(runState, run) {
      steps?.seen(runState)
      if (frames === undefined) await run()
      else await frames(runState, run)
    },
    aroundLog(runState, run) {
      steps?.seen(runState)
      const log = trace.log === undefined ? undefined : logOf(runState)
      run()
      if (log !== undefined) trace.log!(log)
    },
  }
}

type Steps = Pick<RunTrace, 'seen' | 'priced' | 'gasFailed' | 'ran'>

function traceSteps(evm: MeteredEvm, trace: TraceSink): Steps {
  /** Open frames by depth; undefined before a frame's first opcode with dynamic gas. */
  const frames: (RunState | undefined)[] = []
  /** Price of the next step, and the reason if it will fail. */
  let price: bigint | undefined
  let failure: string | undefined
  const constantOf = (code: number, fee: number) => constantGas(code, BigInt(fee), evm.common)

  evm.events.on('beforeMessage', ({ depth }: Message) => {
    frames.length = depth
  })
  evm.events.on('step', (event: InterpreterStep) => {
    const { depth, stack, opcode, gasLeft } = event
    // An opcode that the fork does not have costs nothing and needs no stack.
    const isInvalid = opcode.name === 'INVALID'
    const fault = isInvalid ? undefined : stackFault(opcode.code, stack.length)
    const cost =
      fault === undefined
        ? (price ?? opcode.dynamicFee ?? BigInt(opcode.fee))
        : constantOf(opcode.code, opcode.fee)
    const error = fault ?? failure ?? (gasLeft < cost ? OUT_OF_GAS : undefined)
    price = undefined
    failure = undefined
    trace.step!({
      pc: event.pc,
      op: opcode.code,
      gas: gasLeft,
      cost,
      depth,
      address: event.address.bytes,
      refund: event.gasRefund,
      error,
      stack: () => stack,
      memory: () => grown(event.memory, Number(event.memoryWordCount) * 32),
      returnData: () => frames[depth]?.returnBytes ?? NO_BYTES,
    })
  })
  return {
    seen(runState) {
      frames[runState.env.depth] = runState
    },
    /** The package ends the frame at the end of the code, where go-ethereum runs a STOP. */
    ran(runState) {
      const { programCounter, code, stack, memory, memoryWordCount, gasRefund } = runState
      if (programCounter < code.length) return
      const { interpreter, env } = runState
      trace.step!({
        pc: programCounter,
        op: STOP,
        gas: interpreter.getGasLeft(),
        cost: 0n,
        depth: env.depth,
        address: env.address.bytes,
        refund: gasRefund,
        error: undefined,
        stack: () => stack.getStack(),
        memory: () => memory.read(0, Number(memoryWordCount) * 32),
        returnData: () => runState.returnBytes,
      })
    },
    /** go-ethereum counts the gas for a call's frame as part of its price. */
    priced(runState, cost) {
      if (runState.opCode === REVERT) hideOperands(runState)
      price = CALLS.has(runState.opCode) ? cost + (runState.messageGasLimit ?? 0n) : cost
    },
    gasFailed(runState, error) {
      const { opCode, interpreter } = runState
      if (opCode === REVERT) hideOperands(runState)
      if (!(error instanceof Fault)) return
      failure = error.words
      price =
        error instanceof UnpaidCall
          ? error.cost
          : constantOf(opCode, interpreter.lookupOpInfo(opCode).opcodeInfo.fee)
    },
  }
}

function logOf({ opCode, stack, memory, env }: RunState) {
  const count = opCode - 0xa0
  const operands = stack.peek(count + 2)
  const length = Number(operands[1]!)
  return {
    address: env.address.bytes,
    topics: operands.slice(2).map((topic) => bigintToBytes(topic, 32)),
    data: length === 0 ? NO_BYTES : memory.read(Number(operands[0]!), length),
  }
}

function traceFrames(
  evm: MeteredEvm,
  state: JournaledState,
  trace: TraceSink,
): RunTrace['aroundCall'] {
  let entered = 0
  /** Opcode of the next frame. */
  let kind = 'CALL'
  evm.events.on('beforeMessage', (message: Message) => {
    entered++
    const isTop = message.depth === 0
    if (isTop) kind = message.to === undefined ? 'CREATE' : 'CALL'
    // A delegate call is reported as made by the contract that makes it.
    const from = kind === 'DELEGATECALL' ? message.to!.bytes : message.caller.bytes
    const to = message.to === undefined ? createdBy(message, state) : message.codeAddress.bytes
    trace.enter?.(kind, from, to, message.value, message.gasLimit, message.data)
  })
  evm.events.on('afterMessage', (result: EVMResult) => {
    const { execResult } = result
    const output = outputOf(execResult, evm.common)
    trace.exit?.(errorOf(result, evm), execResult.executionGasUsed, output)
  })
  return async (runState, run) => {
    if (runState.opCode === SELFDESTRUCT) traceDestruction(runState, trace)
    const before = entered
    kind = OPCODES[runState.opCode]!.name
    const attempt = attemptOf(runState)
    await run()
    if (entered === before && attempt !== undefined) traceAttempt(attempt, trace)
  }
}

const STOP = 0x00
const SELFDESTRUCT = 0xff
const REVERT = 0xfd

function traceDestruction({ stack, env }: RunState, trace: TraceSink): void {
  const beneficiary = lowAddress(stack.peek()[0]!)
  const { balance } = env.contract
  trace.enter?.('SELFDESTRUCT', env.address.bytes, beneficiary, balance, 0n, NO_BYTES)
  trace.exit?.(undefined, 0n, NO_BYTES)
}

type Attempt = {
  readonly kind: string
  readonly from: Bytes
  readonly to: Bytes | undefined
  readonly value: bigint
  readonly gas: bigint
  readonly input: Bytes
  /** Reason if no frame starts. */
  readonly refusal: string
}

/** Reads the operands of a call or creation before it runs. */
function attemptOf(runState: RunState): Attempt | undefined {
  const { opCode, stack, memory, env, messageGasLimit = 0n } = runState
  const name = OPCODES[opCode]!.name
  if (opCode === SELFDESTRUCT) return undefined
  const isCreation = name.startsWith('CREATE')
  const operands = stack.peek(isCreation ? 3 : 5)
  const hasValue = name === 'CALL' || name === 'CALLCODE'
  const [offset, length] = isCreation
    ? [operands[1]!, operands[2]!]
    : hasValue
      ? [operands[3]!, operands[4]!]
      : [operands[2]!, operands[3]!]
  const value = isCreation ? operands[0]! : hasValue ? operands[2]! : 0n
  return {
    kind: name,
    from: env.address.bytes,
    to: isCreation ? undefined : lowAddress(operands[1]!),
    value,
    gas: messageGasLimit + (hasValue && operands[2] !== 0n ? STIPEND : 0n),
    input: length === 0n ? NO_BYTES : memory.read(Number(offset), Number(length)),
    refusal: refusalOf(runState, value),
  }
}

/** The checks come in this order: depth, balance, nonce of a creating contract. */
function refusalOf({ env }: RunState, value: bigint): string {
  if (env.depth >= MAX_DEPTH) return 'max call depth exceeded'
  return env.contract.balance < value ? 'insufficient balance for transfer' : NONCE_OVERFLOW
}

/** Reports a call that its caller could not make, as go-ethereum does. */
function traceAttempt(attempt: Attempt, trace: TraceSink): void {
  const { kind, from, to, value, gas, input, refusal } = attempt
  trace.enter?.(kind, from, to, value, gas, input)
  trace.exit?.(refusal, 0n, NO_BYTES)
}

const MAX_DEPTH = 1024
/** Gas that comes with a value. */
const STIPEND = 2_300n

/**
 * Hides the operands of a REVERT from the package, which reads its data for the step event. The
 * package reads it before the data is checked or paid for, up to a gigabyte or a JavaScript error.
 */
function hideOperands({ stack }: RunState): void {
  Object.assign(stack, {
    peek(): bigint[] {
      Reflect.deleteProperty(stack, 'peek')
      return [0n, 0n]
    },
  })
}

/** The package expands a memory's buffer only at a write. */
function grown(memory: Bytes, length: number): Bytes {
  if (memory.length === length) return memory
  const full = new Uint8Array(length)
  full.set(memory)
  return full
}

function createdBy(message: Message, state: JournaledState): Bytes {
  const from = message.caller.bytes
  if (message.salt === undefined) return createAddress(from, state.entry(from).nonce - 1n)
  return saltedAddress(from, message.salt, message.data)
}

function errorOf(result: EVMResult, evm: MeteredEvm): string | undefined {
  const { execResult, createdAddress } = result
  if (execResult.exceptionError === undefined || isUnpaidCode(execResult, evm.common))
    return undefined
  const isRevert = execResult.exceptionError.error === 'revert' && execResult.runState !== undefined
  if (isRevert) return 'execution reverted'
  return haltReason(execResult, createdAddress !== undefined, evm.common)
}
