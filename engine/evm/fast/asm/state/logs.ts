/**
 * Logs of a run in sequence. A log has a header of 16 bytes, {account, topics, length, size}, then
 * topics and data. Sizes are multiples of 16.
 */
import { AREA_BYTES, areaOf, reserve, shrink } from '../memory/heap'
import { F_ACCOUNT, F_MEMORY, F_STATIC, grow } from '../frames/frames'
import { hostLog } from '../host/imports'
import { charge, fail, HALT_OVERFLOW, HALT_PRICE_OVERFLOW, HALT_WRITE, spend } from '../interpreter/machine'
import { BEYOND, endOf, priceOfMemory, TOO_MUCH } from '../memory/memory-ops'
import { isTraced, emit } from '../host/trace'
import { bswapCopy } from '../primitives/u256'

export const LOGS: usize = memory.data(AREA_BYTES, 4)
/** Bytes in use. */
export let logsEnd: usize = 0
const RETAINED_BYTES: usize = 1 << 16

export function startLogs(): void {
  logsEnd = 0
  shrink(LOGS, RETAINED_BYTES)
}
export function forgetLogs(end: usize): void {
  logsEnd = end
}

export function opLog<T>(frame: usize, sp: usize, topics: u32): bool {
  const end = endOf(sp, sp + 32)
  if (end == BEYOND) return fail(HALT_OVERFLOW)
  const price = priceOfMemory(frame, end)
  if (price == TOO_MUCH) return fail(HALT_PRICE_OVERFLOW)
  const length = load<u64>(sp, 32)
  if (!charge(price + 375 * <u64>(topics + 1) + 8 * length)) return false
  emit<T>(frame)
  if (load<u32>(frame, F_STATIC)) return fail(HALT_WRITE)
  grow(frame, end)
  spend(<u32>length >> 6)
  const size: usize = (<usize>16 + (<usize>topics << 5) + <usize>length + 15) & ~15
  reserve(LOGS, logsEnd, logsEnd + size)
  const at = areaOf(LOGS) + logsEnd
  store<u32>(at, load<u32>(frame, F_ACCOUNT))
  store<u32>(at, topics, 4)
  store<u32>(at, <u32>length, 8)
  store<u32>(at, <u32>size, 12)
  for (let topic: usize = 0; topic < <usize>topics; topic++) bswapCopy(at + 16 + (topic << 5), sp + 64 + (topic << 5))
  if (length > 0) memory.copy(at + 16 + (<usize>topics << 5), <usize>load<u32>(frame, F_MEMORY) + <usize>load<u64>(sp), <usize>length)
  logsEnd += size
  if (isTraced<T>()) hostLog(at)
  return true
}
