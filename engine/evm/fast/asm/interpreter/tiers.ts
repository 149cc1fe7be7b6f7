/**
 * The parts that differ between loops on bytes and on streams: jumps, and the change from one to
 * the other.
 */
import { F_CODE, F_CODE_LENGTH, F_GAS, F_IP, F_JUMPS, F_SP, F_STREAM } from '../frames/frames'
import { gas, spendFuel } from './machine'
import { isStream, plain, T_OFFSETS } from '../translation/stream'
import { isTraced } from '../host/trace'
import { hi3 } from '../primitives/u256'

const JUMP_TICKS: u32 = 16

/**
 * Returns the destination of a jump: an address in the code or a block of the stream; 0 if it is
 * invalid.
 */
// @ts-ignore: decorator
@inline
export function destination<T>(frame: usize, word: usize): usize {
  const to = load<u64>(word)
  if (hi3(word) != 0 || to >= <u64>load<u32>(frame, F_CODE_LENGTH)) return 0
  if (isStream<T>()) return load<u32>(<usize>load<u32>(frame, F_STREAM) + T_OFFSETS + (<usize>to << 2))
  const jumpBits = load<u8>(<usize>load<u32>(frame, F_JUMPS) + <usize>(to >> 3))
  return (jumpBits >> (<u8>to & 7)) & 1 ? <usize>load<u32>(frame, F_CODE) + <usize>to : 0
}

// @ts-ignore: decorator
@inline
export function spendJump<T>(ip: usize, to: usize): void {
  if (to <= ip) spendFuel(JUMP_TICKS + <u32>((ip - to) / plain<T>()))
}

/** True if the frame belongs to this kind of loop. */
// @ts-ignore: decorator
@inline
export function isOwn<T>(frame: usize): bool {
  return isTraced<T>() || (load<u32>(frame, F_STREAM) != 0) == isStream<T>()
}

/**
 * Continues the frame opcode by opcode, with the gas in the register. The pc is the last operand of
 * the instruction before `ip`.
 */
export function leaveStream(frame: usize, ip: usize, sp: usize): void {
  store<u32>(frame, load<u32>(frame, F_CODE) + load<u32>(ip - 4), F_IP)
  store<u32>(frame, <u32>sp, F_SP)
  store<i64>(frame, gas, F_GAS)
  store<u32>(frame, 0, F_STREAM)
}
