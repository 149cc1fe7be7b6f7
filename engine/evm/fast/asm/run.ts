/** Runs a message whose frame has begun, on the loops that its frames are for. */
import { HALTED } from './ends'
import { F_STREAM, FRAME_BYTES, frames } from './frames'
import { LEAVES, loop } from './loop'
import { depth } from './machine'

/** Runs frames from the innermost until that of depth 0 ended. Gas left, output and halt reason are in the registers. */
export function run(isTraced: bool): i32 {
  while (true) {
    let status: i32
    if (isTraced) status = loop<u8>()
    else status = load<u32>(frames + <usize>depth * FRAME_BYTES, F_STREAM) != 0 ? loop<u32>() : loop<u64>()
    if (status != LEAVES) return status
  }
  return HALTED
}
