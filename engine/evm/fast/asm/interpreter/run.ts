/** Runs a message whose frame has started, and selects the loop for each frame. */
import { HALTED } from '../frames/ends'
import { F_STREAM, FRAME_BYTES, frames } from '../frames/frames'
import { LEAVES, loop } from './loop'
import { depth } from './machine'

/**
 * Runs frames from the innermost until the frame of depth 0 ends. Remaining gas, output and halt
 * reason are in the registers.
 */
export function run(isTraced: bool): i32 {
  while (true) {
    let status: i32
    if (isTraced) status = loop<u8>()
    else status = load<u32>(frames + <usize>depth * FRAME_BYTES, F_STREAM) != 0 ? loop<u32>() : loop<u64>()
    if (status != LEAVES) return status
  }
  return HALTED
}
