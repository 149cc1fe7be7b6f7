/** Ends a frame: deploys code, reverts changes, stores the output and returns to the caller. */
import { A_WORD } from '../state/accounts'
import { CREATE, CREATE2 } from './calls'
import { deploy } from './creates'
import {
  F_ACCOUNT, F_GAS, F_GIVEN, F_JOURNAL, F_KIND, F_LOGS, F_MEMORY, F_OUTPUT, F_OUTPUT_LENGTH, F_REFUND, F_SP, FRAME_BYTES, leaveMemory,
  RETURN, returnArea,
} from './frames'
import { areaOf } from '../memory/heap'
import { forgetLogs } from '../state/logs'
import { depth, gas, halt, HALT_NONE, HALT_REVERT, refund, returnLength } from '../interpreter/machine'
import { isTraced, emitExit, emitStep } from '../host/trace'
import { copy, set64, zero } from '../primitives/u256'
import { revertTo } from '../state/undo'

export const SUCCESS: i32 = 0
export const REVERTED: i32 = 1
export const HALTED: i32 = 2

/**
 * Ends a frame whose remaining gas is in `gas`.
 * @returns the final status; a deployment may halt the frame
 */
export function endFrame<T>(frame: usize, ended: i32, output: usize, length: u32): i32 {
  let status = ended
  if (isTraced<T>() && status == HALTED) emitStep(frame, halt)
  const kind = load<u32>(frame, F_KIND)
  const isCreation = kind == CREATE || kind == CREATE2
  if (status == SUCCESS && isCreation && !deploy(load<u32>(frame, F_ACCOUNT), output, length)) status = HALTED
  if (status == HALTED) gas = 0
  if (status != SUCCESS) {
    revertTo(load<u32>(frame, F_JOURNAL))
    forgetLogs(load<u32>(frame, F_LOGS))
    refund = load<i64>(frame, F_REFUND)
  }
  const outputLength: u32 = status == HALTED ? 0 : length
  if (outputLength > 0) memory.copy(returnArea(outputLength), output, outputLength)
  returnLength = outputLength
  if (isTraced<T>()) {
    const why = status == SUCCESS ? HALT_NONE : status == REVERTED ? HALT_REVERT : halt
    emitExit(why, load<i64>(frame, F_GIVEN) - gas, areaOf(RETURN), outputLength)
  }
  leaveMemory(frame)
  if (depth > 0) giveBack(frame, status, isCreation)
  return status
}

/** Returns gas, result and output to the caller. */
function giveBack(frame: usize, status: i32, isCreation: bool): void {
  depth--
  const caller = frame - FRAME_BYTES
  store<i64>(caller, load<i64>(caller, F_GAS) + gas, F_GAS)
  const result = <usize>load<u32>(caller, F_SP)
  if (isCreation) {
    if (status != SUCCESS) return zero(result)
    copy(result, <usize>load<u32>(frame, F_ACCOUNT) + A_WORD)
    returnLength = 0
    return
  }
  set64(result, u64(status == SUCCESS))
  const wanted = min(load<u32>(frame, F_OUTPUT_LENGTH), returnLength)
  if (wanted > 0) memory.copy(<usize>load<u32>(caller, F_MEMORY) + <usize>load<u32>(frame, F_OUTPUT), areaOf(RETURN), wanted)
}
