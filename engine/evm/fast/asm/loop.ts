/**
 * The precise loop: opcode by opcode on the bytes of the code, each with its checks in go-ethereum's order: stack, constant gas, price,
 * work. Compiled twice, plain and traced (see trace.ts). Frames of any depth run in the one loop.
 */
import { A_BALANCE, A_WORD } from './accounts'
import { CALL_BEGUN, CALL_FAILED, CREATE, CREATE2, opCall } from './calls'
import { deploy, opCreate } from './creates'
import {
  BASE_FEE, BLOB_BASE_FEE, BLOBS, BLOBS_AT, CHAIN_ID, COINBASE, GAS_LIMIT, GAS_PRICE, NUMBER, ORIGIN, RANDOM, TIMESTAMP,
} from './environment'
import {
  F_ACCOUNT, F_CALLER, F_CODE, F_CODE_LENGTH, F_GAS, F_GIVEN, F_INPUT_LENGTH, F_IP, F_JOURNAL, F_JUMPS, F_KIND, F_LOGS, F_MEMORY,
  F_OUTPUT, F_OUTPUT_LENGTH, F_REFUND, F_SIZE, F_SP, F_STACK, F_VALUE, FRAME_BYTES, frames, leaveMemory, RETURN, returnArea,
} from './frames'
import { areaOf } from './heap'
import { forgetLogs, opLog } from './logs'
import {
  depth, fail, failWith, gas, halt, HALT_GAS, HALT_JUMP, HALT_NONE, HALT_OPCODE, HALT_REVERT, HALT_STACK, hasLeadingZeros, refund,
  returnLength, spendFuel, unpaid,
} from './machine'
import {
  opCalldataCopy, opCalldataLoad, opCodeCopy, opExp, opExtCodeCopy, opKeccak, opMemoryCopy, opReturnDataCopy, outputMemory, touchMemory,
} from './memory-ops'
import {
  opBalance, opBlockHash, opExtCodeHash, opExtCodeSize, opSelfdestruct, opSload, opSstore, opTload, opTstore,
} from './state-ops'
import { beginStep, isTraced, tell, tellExit, tellStep, TELLS_ITSELF } from './trace'
import { addmod, div, mod, mulmod, sdiv, smod } from './divide'
import { add, bswapCopy, copy, eq, hi3, isZero, leadingZeros, lt, mul, rev, sar, set64, shl, shr, signextend, slt, sub, zero } from './u256'
import { revertTo } from './undo'

/** A row of 8 bytes for each opcode: constant gas, bytes on the stack at least and at most, flags (trace.ts). */
export const OPCODES: usize = memory.data(256 * 8, 8)
/** Masks of PUSH0 to PUSH32. */
const MASKS: usize = memory.data(33 * 32, 16)

export const SUCCESS: i32 = 0
export const REVERTED: i32 = 1
export const HALTED: i32 = 2

const JUMP_TICKS: u32 = 16

export function makeMasks(): void {
  for (let bytes: usize = 1; bytes <= 32; bytes++) memory.fill(MASKS + (bytes << 5), 0xff, bytes)
}

// @ts-ignore: decorator
@inline
function isDestination(frame: usize, word: usize): bool {
  const to = load<u64>(word)
  if (hi3(word) != 0 || to >= <u64>load<u32>(frame, F_CODE_LENGTH)) return false
  return ((load<u8>(<usize>load<u32>(frame, F_JUMPS) + <usize>(to >> 3)) >> (<u8>to & 7)) & 1) != 0
}

/** Runs the frame of depth 0 to its end: SUCCESS, REVERTED, HALTED. Gas left, output and halt reason are in the registers. */
export function loop<T>(): i32 {
  let frame = frames
  let ip = <usize>load<u32>(frame, F_IP)
  let sp = <usize>load<u32>(frame, F_SP)
  let left = load<i64>(frame, F_GAS)
  let stack = sp
  let base = <usize>load<u32>(frame, F_MEMORY)
  let size: u32 = 0
  let status = SUCCESS
  let output: usize = 0
  let outputLength: u32 = 0
  while (true) {
    const op = <u32>load<u8>(ip)
    const row = load<u64>(OPCODES + (<usize>op << 3))
    if (isTraced<T>()) {
      gas = left
      unpaid = 0
      beginStep(frame, ip, sp, op, <u32>(row >> 48))
    }
    const used = <u32>(stack - sp)
    if (used < (<u32>(row >> 16) & 0xffff) || used > (<u32>(row >> 32) & 0xffff)) {
      failWith(HALT_STACK, op, used >> 5)
      status = HALTED
    } else if (left < <i64>(row & 0xffff)) {
      fail(HALT_GAS)
      status = HALTED
    } else {
      left -= <i64>(row & 0xffff)
      if (isTraced<T>()) {
        gas = left
        if (!(<u32>(row >> 48) & TELLS_ITSELF)) tellStep(frame, HALT_NONE)
      }
      // One row an opcode. `continue` goes on; `break` ends the frame with `status`.
      switch (op) {
        case 0x00: { status = SUCCESS; outputLength = 0; break }
        case 0x01: { add(sp + 32, sp, sp + 32); sp += 32; ip++; continue }
        case 0x02: { mul(sp + 32, sp, sp + 32); sp += 32; ip++; continue }
        case 0x03: { sub(sp + 32, sp, sp + 32); sp += 32; ip++; continue }
        case 0x04: { div(sp + 32, sp, sp + 32); sp += 32; ip++; continue }
        case 0x05: { sdiv(sp + 32, sp, sp + 32); sp += 32; ip++; continue }
        case 0x06: { mod(sp + 32, sp, sp + 32); sp += 32; ip++; continue }
        case 0x07: { smod(sp + 32, sp, sp + 32); sp += 32; ip++; continue }
        case 0x08: { addmod(sp + 64, sp, sp + 32, sp + 64); sp += 64; ip++; continue }
        case 0x09: { mulmod(sp + 64, sp, sp + 32, sp + 64); sp += 64; ip++; continue }
        case 0x0a: { gas = left; if (!opExp<T>(frame, sp)) { status = HALTED; break } left = gas; sp += 32; ip++; continue }
        case 0x0b: { if (hi3(sp) == 0 && load<u64>(sp) < 31) signextend(sp + 32, load<u64>(sp), sp + 32); sp += 32; ip++; continue }
        case 0x10: { const is = lt(sp, sp + 32); sp += 32; set64(sp, u64(is)); ip++; continue }
        case 0x11: { const is = lt(sp + 32, sp); sp += 32; set64(sp, u64(is)); ip++; continue }
        case 0x12: { const is = slt(sp, sp + 32); sp += 32; set64(sp, u64(is)); ip++; continue }
        case 0x13: { const is = slt(sp + 32, sp); sp += 32; set64(sp, u64(is)); ip++; continue }
        case 0x14: { const is = eq(sp, sp + 32); sp += 32; set64(sp, u64(is)); ip++; continue }
        case 0x15: { const is = isZero(sp); set64(sp, u64(is)); ip++; continue }
        case 0x16: {
          v128.store(sp, v128.and(v128.load(sp), v128.load(sp, 32)), 32)
          v128.store(sp, v128.and(v128.load(sp, 16), v128.load(sp, 48)), 48)
          sp += 32; ip++; continue
        }
        case 0x17: {
          v128.store(sp, v128.or(v128.load(sp), v128.load(sp, 32)), 32)
          v128.store(sp, v128.or(v128.load(sp, 16), v128.load(sp, 48)), 48)
          sp += 32; ip++; continue
        }
        case 0x18: {
          v128.store(sp, v128.xor(v128.load(sp), v128.load(sp, 32)), 32)
          v128.store(sp, v128.xor(v128.load(sp, 16), v128.load(sp, 48)), 48)
          sp += 32; ip++; continue
        }
        case 0x19: { v128.store(sp, v128.not(v128.load(sp))); v128.store(sp, v128.not(v128.load(sp, 16)), 16); ip++; continue }
        case 0x1a: {
          const at = load<u64>(sp)
          const byte: u64 = hi3(sp) == 0 && at < 32 ? <u64>load<u8>(sp + 63 - <usize>at) : 0
          sp += 32; set64(sp, byte); ip++; continue
        }
        case 0x1b: { const bits = load<u64>(sp); const isAll = hi3(sp) != 0 || bits > 255; sp += 32; if (isAll) zero(sp); else shl(sp, sp, bits); ip++; continue }
        case 0x1c: { const bits = load<u64>(sp); const isAll = hi3(sp) != 0 || bits > 255; sp += 32; if (isAll) zero(sp); else shr(sp, sp, bits); ip++; continue }
        case 0x1d: { const bits = load<u64>(sp); const isAll = hi3(sp) != 0 || bits > 255; sp += 32; sar(sp, sp, isAll ? 255 : bits); ip++; continue }
        case 0x1e: { if (!hasLeadingZeros) { failWith(HALT_OPCODE, op, 0); status = HALTED; break } set64(sp, leadingZeros(sp)); ip++; continue }
        case 0x20: { gas = left; if (!opKeccak<T>(frame, sp)) { status = HALTED; break } left = gas; base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 32; ip++; continue }
        case 0x30: { sp -= 32; copy(sp, <usize>load<u32>(frame, F_ACCOUNT) + A_WORD); ip++; continue }
        case 0x31: { gas = left; if (!opBalance<T>(frame, sp)) { status = HALTED; break } left = gas; ip++; continue }
        case 0x32: { sp -= 32; copy(sp, ORIGIN); ip++; continue }
        case 0x33: { sp -= 32; copy(sp, frame + F_CALLER); ip++; continue }
        case 0x34: { sp -= 32; copy(sp, frame + F_VALUE); ip++; continue }
        case 0x35: { opCalldataLoad(frame, sp); ip++; continue }
        case 0x36: { sp -= 32; set64(sp, load<u32>(frame, F_INPUT_LENGTH)); ip++; continue }
        case 0x37: { gas = left; if (!opCalldataCopy<T>(frame, sp)) { status = HALTED; break } left = gas; base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 96; ip++; continue }
        case 0x38: { sp -= 32; set64(sp, load<u32>(frame, F_CODE_LENGTH)); ip++; continue }
        case 0x39: { gas = left; if (!opCodeCopy<T>(frame, sp)) { status = HALTED; break } left = gas; base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 96; ip++; continue }
        case 0x3a: { sp -= 32; copy(sp, GAS_PRICE); ip++; continue }
        case 0x3b: { gas = left; if (!opExtCodeSize<T>(frame, sp)) { status = HALTED; break } left = gas; ip++; continue }
        case 0x3c: { gas = left; if (!opExtCodeCopy<T>(frame, sp)) { status = HALTED; break } left = gas; base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 128; ip++; continue }
        case 0x3d: { sp -= 32; set64(sp, returnLength); ip++; continue }
        case 0x3e: { gas = left; if (!opReturnDataCopy<T>(frame, sp)) { status = HALTED; break } left = gas; base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 96; ip++; continue }
        case 0x3f: { gas = left; if (!opExtCodeHash<T>(frame, sp)) { status = HALTED; break } left = gas; ip++; continue }
        case 0x40: { opBlockHash(sp); ip++; continue }
        case 0x41: { sp -= 32; copy(sp, COINBASE); ip++; continue }
        case 0x42: { sp -= 32; copy(sp, TIMESTAMP); ip++; continue }
        case 0x43: { sp -= 32; copy(sp, NUMBER); ip++; continue }
        case 0x44: { sp -= 32; copy(sp, RANDOM); ip++; continue }
        case 0x45: { sp -= 32; copy(sp, GAS_LIMIT); ip++; continue }
        case 0x46: { sp -= 32; copy(sp, CHAIN_ID); ip++; continue }
        case 0x47: { sp -= 32; copy(sp, <usize>load<u32>(frame, F_ACCOUNT) + A_BALANCE); ip++; continue }
        case 0x48: { sp -= 32; copy(sp, BASE_FEE); ip++; continue }
        case 0x49: {
          const at = load<u64>(sp)
          if (hi3(sp) != 0 || at >= <u64>load<u32>(BLOBS)) zero(sp)
          else bswapCopy(sp, <usize>load<u32>(BLOBS_AT) + (<usize>at << 5))
          ip++; continue
        }
        case 0x4a: { sp -= 32; copy(sp, BLOB_BASE_FEE); ip++; continue }
        case 0x50: { sp += 32; ip++; continue }
        case 0x51: {
          const at = load<u64>(sp)
          if ((hi3(sp) | (at >> 32)) != 0 || at + 32 > <u64>size) {
            gas = left
            if (!touchMemory<T>(frame, sp, 32)) { status = HALTED; break }
            left = gas; base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
          } else tell<T>(frame)
          bswapCopy(sp, base + <usize>at)
          ip++; continue
        }
        case 0x52: {
          const at = load<u64>(sp)
          if ((hi3(sp) | (at >> 32)) != 0 || at + 32 > <u64>size) {
            gas = left
            if (!touchMemory<T>(frame, sp, 32)) { status = HALTED; break }
            left = gas; base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
          } else tell<T>(frame)
          bswapCopy(base + <usize>at, sp + 32)
          sp += 64; ip++; continue
        }
        case 0x53: {
          const at = load<u64>(sp)
          if ((hi3(sp) | (at >> 32)) != 0 || at + 1 > <u64>size) {
            gas = left
            if (!touchMemory<T>(frame, sp, 1)) { status = HALTED; break }
            left = gas; base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
          } else tell<T>(frame)
          store<u8>(base + <usize>at, load<u8>(sp, 32))
          sp += 64; ip++; continue
        }
        case 0x54: { gas = left; if (!opSload<T>(frame, sp)) { status = HALTED; break } left = gas; ip++; continue }
        case 0x55: { gas = left; if (!opSstore<T>(frame, sp)) { status = HALTED; break } left = gas; sp += 64; ip++; continue }
        case 0x56: {
          if (!isDestination(frame, sp)) { fail(HALT_JUMP); status = HALTED; break }
          const to = <usize>load<u32>(frame, F_CODE) + <usize>load<u32>(sp)
          if (to <= ip) spendFuel(JUMP_TICKS + <u32>(ip - to))
          ip = to; sp += 32; continue
        }
        case 0x57: {
          if (isZero(sp + 32)) { sp += 64; ip++; continue }
          if (!isDestination(frame, sp)) { fail(HALT_JUMP); status = HALTED; break }
          const to = <usize>load<u32>(frame, F_CODE) + <usize>load<u32>(sp)
          if (to <= ip) spendFuel(JUMP_TICKS + <u32>(ip - to))
          ip = to; sp += 64; continue
        }
        case 0x58: { sp -= 32; set64(sp, ip - <usize>load<u32>(frame, F_CODE)); ip++; continue }
        case 0x59: { sp -= 32; set64(sp, size); ip++; continue }
        case 0x5a: { sp -= 32; set64(sp, left); ip++; continue }
        case 0x5b: { ip++; continue }
        case 0x5c: { opTload(frame, sp); ip++; continue }
        case 0x5d: { if (!opTstore(frame, sp)) { status = HALTED; break } sp += 64; ip++; continue }
        case 0x5e: { gas = left; if (!opMemoryCopy<T>(frame, sp)) { status = HALTED; break } left = gas; base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 96; ip++; continue }
        case 0x5f: { sp -= 32; zero(sp); ip++; continue }
        case 0x60: { sp -= 32; set64(sp, load<u8>(ip, 1)); ip += 2; continue }
        case 0x61: { sp -= 32; set64(sp, bswap<u16>(load<u16>(ip, 1))); ip += 3; continue }
        case 0x62: case 0x63: case 0x64: case 0x65: case 0x66: case 0x67: case 0x68: case 0x69: case 0x6a: case 0x6b: case 0x6c: case 0x6d:
        case 0x6e: case 0x6f: case 0x70: case 0x71: case 0x72: case 0x73: case 0x74: case 0x75: case 0x76: case 0x77: case 0x78: case 0x79:
        case 0x7a: case 0x7b: case 0x7c: case 0x7d: case 0x7e: case 0x7f: {
          // The word that ends with the data: what stands before it is masked. A page of zeros or other code is always readable there.
          const count = <usize>op - 0x5f
          const mask = MASKS + (count << 5)
          sp -= 32
          v128.store(sp, v128.and(rev(v128.load(ip + count - 15)), v128.load(mask)))
          v128.store(sp, v128.and(rev(v128.load(ip + count - 31)), v128.load(mask, 16)), 16)
          ip += count + 1
          continue
        }
        case 0x80: case 0x81: case 0x82: case 0x83: case 0x84: case 0x85: case 0x86: case 0x87: case 0x88: case 0x89: case 0x8a: case 0x8b:
        case 0x8c: case 0x8d: case 0x8e: case 0x8f: {
          const from = sp + ((<usize>op - 0x80) << 5)
          sp -= 32; copy(sp, from); ip++; continue
        }
        case 0x90: case 0x91: case 0x92: case 0x93: case 0x94: case 0x95: case 0x96: case 0x97: case 0x98: case 0x99: case 0x9a: case 0x9b:
        case 0x9c: case 0x9d: case 0x9e: case 0x9f: {
          const other = sp + ((<usize>op - 0x8f) << 5)
          const low = v128.load(sp)
          const high = v128.load(sp, 16)
          copy(sp, other)
          v128.store(other, low); v128.store(other, high, 16)
          ip++; continue
        }
        case 0xa0: case 0xa1: case 0xa2: case 0xa3: case 0xa4: {
          gas = left
          if (!opLog<T>(frame, sp, op - 0xa0)) { status = HALTED; break }
          left = gas; base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
          sp += (<usize>op - 0xa0 + 2) << 5; ip++; continue
        }
        case 0xf0: case 0xf1: case 0xf2: case 0xf4: case 0xf5: case 0xfa: {
          gas = left
          const begun = op == CREATE || op == CREATE2 ? opCreate<T>(frame, sp, op) : opCall<T>(frame, sp, op)
          if (begun == CALL_FAILED) { status = HALTED; break }
          left = gas
          sp += (<usize>(row >> 16) & 0xffff) - 32
          ip++
          if (begun == CALL_BEGUN) {
            store<u32>(frame, <u32>ip, F_IP)
            store<u32>(frame, <u32>sp, F_SP)
            store<i64>(frame, left, F_GAS)
            frame += FRAME_BYTES
            ip = load<u32>(frame, F_IP)
            sp = load<u32>(frame, F_SP)
            stack = sp
            left = load<i64>(frame, F_GAS)
          }
          base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
          continue
        }
        case 0xf3: case 0xfd: {
          gas = left
          if (!outputMemory<T>(frame, sp)) { status = HALTED; break }
          left = gas
          outputLength = load<u32>(sp, 32)
          output = outputLength == 0 ? 0 : <usize>load<u32>(frame, F_MEMORY) + <usize>load<u32>(sp)
          status = op == 0xf3 ? SUCCESS : REVERTED
          break
        }
        case 0xff: { gas = left; if (!opSelfdestruct<T>(frame, sp)) { status = HALTED; break } left = gas; status = SUCCESS; outputLength = 0; break }
        default: { failWith(HALT_OPCODE, op, 0); status = HALTED; break }
      }
    }
    // The frame ended.
    if (isTraced<T>()) {
      gas = left
      if (status == HALTED) tellStep(frame, halt)
    }
    const kind = load<u32>(frame, F_KIND)
    const isCreation = kind == CREATE || kind == CREATE2
    if (status == SUCCESS && isCreation) {
      gas = left
      if (!deploy(load<u32>(frame, F_ACCOUNT), output, outputLength)) status = HALTED
      left = gas
    }
    if (status == HALTED) {
      left = 0
      outputLength = 0
    }
    if (status != SUCCESS) {
      revertTo(load<u32>(frame, F_JOURNAL))
      forgetLogs(load<u32>(frame, F_LOGS))
      refund = load<i64>(frame, F_REFUND)
    }
    if (outputLength > 0) memory.copy(returnArea(outputLength), output, outputLength)
    returnLength = outputLength
    if (isTraced<T>()) {
      const why = status == SUCCESS ? HALT_NONE : status == REVERTED ? HALT_REVERT : halt
      tellExit(why, load<i64>(frame, F_GIVEN) - left, areaOf(RETURN), outputLength)
    }
    leaveMemory(frame)
    if (depth == 0) {
      gas = left
      return status
    }
    depth--
    const wanted = min(load<u32>(frame, F_OUTPUT_LENGTH), outputLength)
    const to = <usize>load<u32>(frame, F_OUTPUT)
    const created = <usize>load<u32>(frame, F_ACCOUNT)
    frame -= FRAME_BYTES
    ip = load<u32>(frame, F_IP)
    sp = load<u32>(frame, F_SP)
    stack = load<u32>(frame, F_STACK)
    left += load<i64>(frame, F_GAS)
    base = load<u32>(frame, F_MEMORY)
    size = load<u32>(frame, F_SIZE)
    if (isCreation) {
      if (status == SUCCESS) copy(sp, created + A_WORD)
      else zero(sp)
      if (status == SUCCESS) returnLength = 0
    } else {
      set64(sp, u64(status == SUCCESS))
      if (wanted > 0) memory.copy(base + to, areaOf(RETURN), wanted)
    }
  }
  return HALTED
}
