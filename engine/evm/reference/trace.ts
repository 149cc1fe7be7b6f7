/** What a TraceSink is told, from the events of @ethereumjs/evm and from around its call opcodes. */
import { EVMError, type EVMResult, type InterpreterStep, type Message } from '@ethereumjs/evm'
import type { Bytes } from '../../primitives/bytes.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { createAddress } from '../../primitives/transaction-codec.ts'
import { bigintToBytes, concatBytes } from '../../primitives/words.ts'
import type { TraceSink } from '../engine.ts'
import { isMemoryOverflow, stackFault } from '../halt-reason.ts'
import type { JournaledState } from '../journal/journaled-state.ts'
import { OPCODES } from '../opcodes.ts'
import type { MeteredEvm, RunState, RunTrace } from './kernel.ts'
import { haltReason, isUnpaidCode, outputOf } from './outcome.ts'

/** Listens only to what the sink wants: a hook that is absent costs nothing. */
export function traceEvents(evm: MeteredEvm, state: JournaledState, trace: TraceSink): RunTrace {
  const steps = trace.step === undefined ? undefined : traceSteps(evm, trace)
  const frames =
    trace.enter === undefined && trace.exit === undefined
      ? undefined
      : traceFrames(evm, state, trace)
  return {
    seen: (runState) => steps?.seen(runState),
    ran: (runState) => steps?.ran(runState),
    async gasFailed(error, costOf) {
      await steps?.gasFailed(error, costOf)
    },
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

type Steps = Pick<RunTrace, 'seen' | 'gasFailed' | 'ran'>

function traceSteps(evm: MeteredEvm, trace: TraceSink): Steps {
  /** Of the open frames by depth; undefined before a frame's first opcode with a price to compute. */
  const frames: (RunState | undefined)[] = []
  /** Of the step that comes next, where its gas could not be computed. */
  let failure: { readonly error: string | undefined; readonly cost: bigint | undefined } | undefined

  evm.events.on('beforeMessage', ({ depth }: Message) => {
    frames.length = depth
  })
  evm.events.on('step', (event: InterpreterStep) => {
    const { depth, stack, opcode, gasLeft } = event
    const constant = BigInt(opcode.fee)
    const fault = stackFault(opcode.code, stack.length)
    const failed = failure
    failure = undefined
    const isOverflow = isMemoryOverflow(opcode.code, stack)
    const isUnpriced = fault !== undefined || isOverflow
    const cost = isUnpriced ? constant : (failed?.cost ?? opcode.dynamicFee ?? constant)
    const outOfGas = isOverflow ? 'gas uint64 overflow' : gasLeft < cost ? 'out of gas' : undefined
    trace.step!({
      pc: event.pc,
      op: opcode.code,
      gas: gasLeft,
      cost,
      depth,
      address: event.address.bytes,
      refund: event.gasRefund,
      error: fault ?? failed?.error ?? outOfGas,
      stack: () => stack,
      memory: () => event.memory,
      returnData: () => frames[depth]?.returnBytes ?? NOTHING,
    })
  })
  return {
    seen(runState) {
      frames[runState.env.depth] = runState
    },
    /** The package ends the frame there; to go-ethereum every code ends in STOP. */
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
    async gasFailed(error, costOf) {
      const runState = frames.at(-1)!
      const { opCode, stack, env } = runState
      if (!(error instanceof EVMError)) return
      if (error.error !== EVMError.errorMessages.STATIC_STATE_CHANGE) {
        const isOverflow = isMemoryOverflow(opCode, stack.getStack())
        failure = { error: isOverflow ? 'gas uint64 overflow' : 'out of gas', cost: undefined }
        return
      }
      // go-ethereum prices the opcode first and refuses it when it runs: its step is one like others.
      const { isStatic } = env
      env.isStatic = false
      const cost = await costOf().catch(() => undefined)
      env.isStatic = isStatic
      failure = { error: undefined, cost }
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
    data: length === 0 ? NOTHING : memory.read(Number(operands[0]!), length),
  }
}

function traceFrames(
  evm: MeteredEvm,
  state: JournaledState,
  trace: TraceSink,
): RunTrace['aroundCall'] {
  let entered = 0
  /** Of the frame about to begin. */
  let kind = 'CALL'
  evm.events.on('beforeMessage', (message: Message) => {
    entered++
    const isTop = message.depth === 0
    if (isTop) kind = message.to === undefined ? 'CREATE' : 'CALL'
    // A delegate call runs in the name of the contract that makes it.
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
    if (runState.opCode === SELFDESTRUCT) tellDestruction(runState, trace)
    const before = entered
    kind = OPCODES[runState.opCode]!.name
    const attempt = attemptOf(runState)
    await run()
    if (entered === before && attempt !== undefined) tellAttempt(attempt, trace)
  }
}

const STOP = 0x00
const SELFDESTRUCT = 0xff

function tellDestruction({ stack, env }: RunState, trace: TraceSink): void {
  const beneficiary = lowAddress(stack.peek()[0]!)
  const { balance } = env.contract
  trace.enter?.('SELFDESTRUCT', env.address.bytes, beneficiary, balance, 0n, NOTHING)
  trace.exit?.(undefined, 0n, NOTHING)
}

type Attempt = {
  readonly kind: string
  readonly from: Bytes
  readonly to: Bytes | undefined
  readonly value: bigint
  readonly gas: bigint
  readonly input: Bytes
  readonly isTooDeep: boolean
}

/** Where the operands of a call lie: whether there is a value, and where memory begins. */
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
  return {
    kind: name,
    from: env.address.bytes,
    to: isCreation ? undefined : lowAddress(operands[1]!),
    value: isCreation ? operands[0]! : hasValue ? operands[2]! : 0n,
    gas: messageGasLimit,
    input: length === 0n ? NOTHING : memory.read(Number(offset), Number(length)),
    isTooDeep: env.depth >= MOST_DEPTH,
  }
}

/** A call that its caller could not make: go-ethereum tells of it all the same. */
function tellAttempt(attempt: Attempt, trace: TraceSink): void {
  const { kind, from, to, value, gas, input, isTooDeep } = attempt
  trace.enter?.(kind, from, to, value, gas, input)
  const error = isTooDeep ? 'max call depth exceeded' : 'insufficient balance for transfer'
  trace.exit?.(error, 0n, NOTHING)
}

const MOST_DEPTH = 1024
const NOTHING: Bytes = new Uint8Array(0)

const lowAddress = (value: bigint): Bytes => bigintToBytes(value & ((1n << 160n) - 1n), 20)

function createdBy(message: Message, state: JournaledState): Bytes {
  const from = message.caller.bytes
  if (message.salt === undefined) return createAddress(from, state.entry(from).nonce - 1n)
  const seed = concatBytes(Uint8Array.of(0xff), from, message.salt, keccak256(message.data))
  return keccak256(seed).slice(12)
}

function errorOf(result: EVMResult, evm: MeteredEvm): string | undefined {
  const { execResult, createdAddress } = result
  if (execResult.exceptionError === undefined || isUnpaidCode(execResult, evm.common))
    return undefined
  const isRevert = execResult.exceptionError.error === 'revert' && execResult.runState !== undefined
  return isRevert ? 'execution reverted' : haltReason(execResult, createdAddress !== undefined)
}
