/** What the loops on bytes and on streams do each in its way: jumps, and handing a frame to the other. */
import { F_CODE, F_CODE_LENGTH, F_GAS, F_IP, F_JUMPS, F_SP, F_STREAM } from './frames'
import { gas, spendFuel } from './machine'
import { isStream, plain, T_PLACES } from './stream'
import { isTraced } from './trace'
import { hi3 } from './u256'

const JUMP_TICKS: u32 = 16

/** Where a jump to the word goes: code, or the block of a stream; 0: nowhere. */
// @ts-ignore: decorator
@inline
export function destination<T>(frame: usize, word: usize): usize {
  const to = load<u64>(word)
  if (hi3(word) != 0 || to >= <u64>load<u32>(frame, F_CODE_LENGTH)) return 0
  if (isStream<T>()) return load<u32>(<usize>load<u32>(frame, F_STREAM) + T_PLACES + (<usize>to << 2))
  const marks = load<u8>(<usize>load<u32>(frame, F_JUMPS) + <usize>(to >> 3))
  return (marks >> (<u8>to & 7)) & 1 ? <usize>load<u32>(frame, F_CODE) + <usize>to : 0
}

// @ts-ignore: decorator
@inline
export function spendJump<T>(ip: usize, to: usize): void {
  if (to <= ip) spendFuel(JUMP_TICKS + <u32>((ip - to) / plain<T>()))
}

/** The frame is for this kind of loop. */
// @ts-ignore: decorator
@inline
export function isOwn<T>(frame: usize): bool {
  return isTraced<T>() || (load<u32>(frame, F_STREAM) != 0) == isStream<T>()
}

/** The frame goes on opcode by opcode, with the gas in the register, at the pc that ends the instruction before `ip`. */
export function leaveStream(frame: usize, ip: usize, sp: usize): void {
  store<u32>(frame, load<u32>(frame, F_CODE) + load<u32>(ip - 4), F_IP)
  store<u32>(frame, <u32>sp, F_SP)
  store<i64>(frame, gas, F_GAS)
  store<u32>(frame, 0, F_STREAM)
}
