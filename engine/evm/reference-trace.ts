/** Events of @ethereumjs/evm as calls of a TraceSink. */
import type { EVM, EVMResult, InterpreterStep, Message } from '@ethereumjs/evm'
import type { TraceSink } from './engine.ts'
import { haltReason } from './reference-outcome.ts'

/** Listens only to what the sink wants: a hook that is absent costs nothing. */
export function traceEvents(evm: EVM, trace: TraceSink): void {
  const { enter, exit, step } = trace
  if (enter !== undefined || exit !== undefined) {
    evm.events.on('beforeMessage', (message: Message) => {
      enter?.call(
        trace,
        kindOf(message),
        message.caller.bytes,
        message.to === undefined ? undefined : message.codeAddress.bytes,
        message.value,
        message.gasLimit,
        message.data,
      )
    })
    evm.events.on('afterMessage', (result: EVMResult) => {
      const { execResult } = result
      exit?.call(trace, errorOf(result), execResult.executionGasUsed, execResult.returnValue)
    })
  }
  if (step !== undefined)
    evm.events.on('step', (event: InterpreterStep) => {
      step.call(trace, {
        pc: event.pc,
        op: event.opcode.code,
        gas: event.gasLeft,
        cost: event.opcode.dynamicFee ?? BigInt(event.opcode.fee),
        depth: event.depth,
        stack: () => event.stack,
        memory: () => event.memory,
      })
    })
}

function kindOf(message: Message): string {
  if (message.to === undefined) return message.salt === undefined ? 'CREATE' : 'CREATE2'
  if (message.delegatecall) return 'DELEGATECALL'
  if (message._codeAddress !== undefined) return 'CALLCODE'
  return message.isStatic ? 'STATICCALL' : 'CALL'
}

function errorOf(result: EVMResult): string | undefined {
  const { execResult, createdAddress } = result
  if (execResult.exceptionError === undefined) return undefined
  const isRevert = execResult.exceptionError.error === 'revert' && execResult.runState !== undefined
  return isRevert ? 'execution reverted' : haltReason(execResult, createdAddress !== undefined)
}
