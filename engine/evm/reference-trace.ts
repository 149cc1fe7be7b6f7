/** What a TraceSink is told, from the events of @ethereumjs/evm and from around its call opcodes. */
import type { EVMResult, InterpreterStep, Message } from '@ethereumjs/evm'
import type { Bytes } from '../primitives/bytes.ts'
import { keccak256 } from '../primitives/keccak.ts'
import { createAddress } from '../primitives/transaction-codec.ts'
import { bigintToBytes, concatBytes } from '../primitives/words.ts'
import type { TraceSink } from './engine.ts'
import type { JournaledState } from './journaled-state.ts'
import { OPCODES } from './opcodes.ts'
import type { CallTrace, MeteredEvm, RunState } from './reference-kernel.ts'
import { haltReason } from './reference-outcome.ts'

/** Listens only to what the sink wants: a hook that is absent costs nothing. */
export function traceEvents(
  evm: MeteredEvm,
  state: JournaledState,
  trace: TraceSink,
): CallTrace | undefined {
  if (trace.step !== undefined)
    evm.events.on('step', (event: InterpreterStep) => {
      trace.step!({
        pc: event.pc,
        op: event.opcode.code,
        gas: event.gasLeft,
        cost: event.opcode.dynamicFee ?? BigInt(event.opcode.fee),
        depth: event.depth,
        stack: () => event.stack,
        memory: () => event.memory,
      })
    })
  return trace.enter === undefined && trace.exit === undefined
    ? undefined
    : traceFrames(evm, state, trace)
}

function traceFrames(evm: MeteredEvm, state: JournaledState, trace: TraceSink): CallTrace {
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
    const { executionGasUsed, returnValue } = result.execResult
    trace.exit?.(errorOf(result), executionGasUsed, returnValue)
  })
  return {
    async around(runState, run) {
      if (runState.opCode === SELFDESTRUCT) tellDestruction(runState, trace)
      const before = entered
      kind = OPCODES[runState.opCode]!.name
      const attempt = attemptOf(runState)
      await run()
      if (entered === before && attempt !== undefined) tellAttempt(attempt, trace)
    },
  }
}

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

function errorOf(result: EVMResult): string | undefined {
  const { execResult, createdAddress } = result
  if (execResult.exceptionError === undefined) return undefined
  const isRevert = execResult.exceptionError.error === 'revert' && execResult.runState !== undefined
  return isRevert ? 'execution reverted' : haltReason(execResult, createdAddress !== undefined)
}
