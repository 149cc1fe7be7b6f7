/** Converts results of @ethereumjs/evm to go-ethereum's words. */
import type { Common } from '@ethereumjs/common'
import { EVMError, type EVMResult, type ExecResult } from '@ethereumjs/evm'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Log } from '../../primitives/receipt.ts'
import type { Outcome } from '../engine.ts'
import { invalidOpcode, RETURN_DATA_BOUNDS, stackFault, WRITE_PROTECTION } from '../halt-reason.ts'
import { Fault } from './gas.ts'

/** @param gas gas of the message */
export function outcomeOf(result: EVMResult, gas: bigint, common: Common): Outcome {
  const { execResult } = result
  const { exceptionError: error, executionGasUsed, returnValue, runState } = execResult
  const gasLeft = gas - executionGasUsed
  if (error === undefined || isUnpaidCode(execResult, common)) {
    const created = result.createdAddress?.bytes
    return {
      status: 'success',
      gasLeft,
      refund: execResult.gasRefund ?? 0n,
      output: outputOf(execResult, common),
      logs: (execResult.logs ?? []).map(toLog),
      ...(created === undefined ? {} : { created }),
    }
  }
  // A failed precompiled contract can report REVERT, but it has no frame and uses up all gas.
  if (error.error === ERRORS.REVERT && runState !== undefined)
    return { status: 'revert', gasLeft, output: returnValue }
  return {
    status: 'halt',
    reason: haltReason(execResult, result.createdAddress !== undefined, common),
  }
}

const ERRORS = EVMError.errorMessages

/**
 * Before EIP-2 (Homestead, EIP-606) a creation whose code cannot be paid for succeeds without code.
 */
export const isUnpaidCode = ({ exceptionError }: ExecResult, common: Common): boolean =>
  exceptionError?.error === ERRORS.CODESTORE_OUT_OF_GAS && !common.isActivatedEIP(606)

/** The reason of a frame that failed other than by REVERT. */
export function haltReason(execResult: ExecResult, isCreation: boolean, common: Common): string {
  const { exceptionError, runState } = execResult
  if (exceptionError instanceof Fault) return exceptionError.words
  const { error } = exceptionError!
  if (error === ERRORS.CODESIZE_EXCEEDS_MAXIMUM) {
    const size = BigInt(codeReturned(runState ?? {})?.length ?? 0)
    if (runState !== undefined && runState.gasLeft < size * common.param('createDataGas'))
      return CODE_OUT_OF_GAS
    return `max code size exceeded: code size ${size} limit ${common.param('maxCodeSize')}`
  }
  if (runState === undefined) return GETH_WORDS[error] ?? error
  const { opCode, stack } = runState
  if (
    error === ERRORS.OUT_OF_GAS ||
    error === ERRORS.STACK_UNDERFLOW ||
    error === ERRORS.STACK_OVERFLOW
  ) {
    // Init code that ran to its end did not fail itself. The gas did not cover storing the code.
    if (isCreation && error === ERRORS.OUT_OF_GAS && hasReturned(runState))
      return isReservedCode(runState, common) ? RESERVED_CODE : CODE_OUT_OF_GAS
    const fault = stackFault(opCode, stack.length)
    if (fault !== undefined) return fault
  }
  if (error === ERRORS.INVALID_OPCODE) return invalidOpcode(opCode)
  // The package appends the position of the jump.
  return error.startsWith(ERRORS.INVALID_JUMP)
    ? 'invalid jump destination'
    : (GETH_WORDS[error] ?? error)
}

/** go-ethereum makes this check before it charges for the code (EIP-3541; initNewContract). */
const isReservedCode = (runState: object, common: Common): boolean =>
  common.isActivatedEIP(3541) && codeReturned(runState)?.[0] === 0xef

const hasReturned = (runState: object): boolean => codeReturned(runState) !== undefined

const codeReturned = (runState: object): Bytes | undefined =>
  'returnValue' in runState ? (runState.returnValue as Bytes | undefined) : undefined

/** The output of a frame. Code that could not be paid for is included. */
export const outputOf = (execResult: ExecResult, common: Common): Bytes =>
  isUnpaidCode(execResult, common)
    ? (codeReturned(execResult.runState ?? {}) ?? execResult.returnValue)
    : execResult.returnValue

const RESERVED_CODE = 'invalid code: must not begin with 0xef'
const NO_BALANCE = 'insufficient balance for transfer'
const CODE_OUT_OF_GAS = 'contract creation code storage out of gas'
const GETH_WORDS: Readonly<Record<string, string>> = {
  [ERRORS.STATIC_STATE_CHANGE]: WRITE_PROTECTION,
  [ERRORS.OUT_OF_RANGE]: RETURN_DATA_BOUNDS,
  [ERRORS.CODESTORE_OUT_OF_GAS]: CODE_OUT_OF_GAS,
  [ERRORS.INVALID_BYTECODE_RESULT]: RESERVED_CODE,
  [ERRORS.INITCODE_SIZE_VIOLATION]: 'max initcode size exceeded',
  [ERRORS.CREATE_COLLISION]: 'contract address collision',
  [ERRORS.INSUFFICIENT_BALANCE]: NO_BALANCE,
  // This overflow cannot happen with real balances; the package checks the receiver's balance
  // first.
  [ERRORS.VALUE_OVERFLOW]: NO_BALANCE,
}

const toLog = ([address, topics, data]: [Uint8Array, Uint8Array[], Uint8Array]): Log => ({
  address,
  topics,
  data,
})
