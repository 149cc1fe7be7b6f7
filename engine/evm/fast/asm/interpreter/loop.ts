/**
 * The interpreter loop, compiled three times. On bytes, plain or traced (host/trace.ts), the order
 * is go-ethereum's: stack, constant gas, price, work. On a stream (translation/stream.ts) stack and
 * constant gas are checked once for a block.
 */
import { A_BALANCE, A_WORD } from '../state/accounts'
import { CALL_STARTED, CALL_FAILED, CREATE, CREATE2, opCall } from '../frames/calls'
import { opCreate } from '../frames/creates'
import { endFrame, HALTED, REVERTED, SUCCESS } from '../frames/ends'
import {
  BASE_FEE, BLOB_BASE_FEE, BLOBS, BLOBS_AT, CHAIN_ID, COINBASE, GAS_LIMIT, GAS_PRICE, NUMBER, ORIGIN, RANDOM, TIMESTAMP,
} from '../host/environment'
import {
  F_ACCOUNT, F_CALLER, F_CODE, F_CODE_LENGTH, F_GAS, F_INPUT_LENGTH, F_IP, F_MEMORY, F_SIZE, F_SP, F_STACK, F_STREAM, F_VALUE, FRAME_BYTES,
  frames,
} from '../frames/frames'
import { opLog } from '../state/logs'
import {
  depth, fail, failWith, fieldsRead, gas, HALT_GAS, HALT_JUMP, HALT_NONE, HALT_OPCODE, HALT_STACK, hasLeadingZeros, READ_BASE_FEE,
  READ_BLOB_BASE_FEE, READ_COINBASE, READ_GAS_LIMIT, READ_NUMBER, READ_RANDOM, READ_TIMESTAMP, returnLength, unpaid,
} from './machine'
import {
  opCalldataCopy, opCalldataLoad, opCodeCopy, opExp, opExtCodeCopy, opKeccak, opMemoryCopy, opReturnDataCopy, outputMemory, touchMemory,
} from '../memory/memory-ops'
import { flagsOf, gasOf, minStackOf, maxStackOf, pushed, rowOf } from './opcodes'
import {
  opBalance, opBlockHash, opExtCodeHash, opExtCodeSize, opSelfdestruct, opSload, opSstore, opTload, opTstore,
} from '../state/state-ops'
import {
  I_ADD_SMALL, I_AND_SMALL, I_AND_WORD, I_BLOCK, I_DUP_ADD, I_DUP_AND, I_DUP_TWO, I_JUMP, I_JUMP_IF, I_JUMP_IF_LT, I_JUMP_IF_SAME,
  I_JUMP_UNLESS, I_JUMP_UNLESS_LT, I_MLOAD_AT, I_MSTORE_AT, I_POPS, I_POPS_JUMP, I_PUSH_JUMP, I_PUSH_SMALL, I_PUSH_TWO, I_PUSH_UNDER,
  I_PUSH_WORD, I_SHL_BY, I_SHR_BY, I_SWAP_POP, I_SWAPS_POP, isShort, isStream, plain, PLAIN_BYTES, priced, PRICED_BYTES, rest, WORD_BYTES,
} from '../translation/stream'
import { destination, isOwn, leaveStream, spendJump } from './tiers'
import { startStep, isTraced, emit, emitStep, EMITS_ITSELF } from '../host/trace'
import { addmod, div, mod, mulmod, sdiv, smod } from '../primitives/divide'
import { add, addSmall, bswapCopy, copy, eq, hi3, isZero, leadingZeros, lt, mul, sar, set64, shl, shr, signextend, slt, sub, zero } from '../primitives/u256'

/** Status: the frame continues in the other kind of loop. */
export const LEAVES: i32 = 3
/** Status: the next frame is to run. */
const STARTS: i32 = 4
/** Status: a block of the stream starts. */
const ENTERS: i32 = 5

/** Runs frames from the innermost; LEAVES if the next frame needs another kind of loop. */
export function loop<T>(): i32 {
  let frame = frames + <usize>depth * FRAME_BYTES
  let ip = <usize>load<u32>(frame, F_IP)
  let sp = <usize>load<u32>(frame, F_SP)
  let left = load<i64>(frame, F_GAS)
  let stack = <usize>load<u32>(frame, F_STACK)
  let base = <usize>load<u32>(frame, F_MEMORY)
  let size = load<u32>(frame, F_SIZE)
  let status = SUCCESS
  let output: usize = 0
  let outputLength: u32 = 0
  while (true) {
    const op = isStream<T>() ? load<u32>(ip) : <u32>load<u8>(ip)
    const row = isStream<T>() ? 0 : rowOf(op)
    if (isTraced<T>()) {
      gas = left
      unpaid = 0
      startStep(frame, ip, sp, op, flagsOf(row))
    }
    const used = <u32>(stack - sp)
    if (!isStream<T>() && (used < minStackOf(row) || used > maxStackOf(row))) {
      failWith(HALT_STACK, op, used >> 5)
      status = HALTED
    } else if (!isStream<T>() && left < <i64>gasOf(row)) {
      fail(HALT_GAS)
      status = HALTED
    } else {
      if (!isStream<T>()) left -= <i64>gasOf(row)
      if (isTraced<T>()) {
        gas = left
        if (!(flagsOf(row) & EMITS_ITSELF)) emitStep(frame, HALT_NONE)
      }
      // Each opcode has a row. `continue` runs the next opcode; `break` leaves the switch with a
      // `status`.
      switch (op) {
        case 0x00: { status = SUCCESS; outputLength = 0; break }
        case 0x01: { add(sp + 32, sp, sp + 32); sp += 32; ip += plain<T>(); continue }
        case 0x02: { mul(sp + 32, sp, sp + 32); sp += 32; ip += plain<T>(); continue }
        case 0x03: { sub(sp + 32, sp, sp + 32); sp += 32; ip += plain<T>(); continue }
        case 0x04: { div(sp + 32, sp, sp + 32); sp += 32; ip += plain<T>(); continue }
        case 0x05: { sdiv(sp + 32, sp, sp + 32); sp += 32; ip += plain<T>(); continue }
        case 0x06: { mod(sp + 32, sp, sp + 32); sp += 32; ip += plain<T>(); continue }
        case 0x07: { smod(sp + 32, sp, sp + 32); sp += 32; ip += plain<T>(); continue }
        case 0x08: { addmod(sp + 64, sp, sp + 32, sp + 64); sp += 64; ip += plain<T>(); continue }
        case 0x09: { mulmod(sp + 64, sp, sp + 32, sp + 64); sp += 64; ip += plain<T>(); continue }
        case 0x0a: { gas = left + rest<T>(ip); if (!opExp<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); sp += 32; ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x0b: { if (hi3(sp) == 0 && load<u64>(sp) < 31) signextend(sp + 32, load<u64>(sp), sp + 32); sp += 32; ip += plain<T>(); continue }
        case 0x10: { const is = lt(sp, sp + 32); sp += 32; set64(sp, u64(is)); ip += plain<T>(); continue }
        case 0x11: { const is = lt(sp + 32, sp); sp += 32; set64(sp, u64(is)); ip += plain<T>(); continue }
        case 0x12: { const is = slt(sp, sp + 32); sp += 32; set64(sp, u64(is)); ip += plain<T>(); continue }
        case 0x13: { const is = slt(sp + 32, sp); sp += 32; set64(sp, u64(is)); ip += plain<T>(); continue }
        case 0x14: { const is = eq(sp, sp + 32); sp += 32; set64(sp, u64(is)); ip += plain<T>(); continue }
        case 0x15: { const is = isZero(sp); set64(sp, u64(is)); ip += plain<T>(); continue }
        case 0x16: {
          v128.store(sp, v128.and(v128.load(sp), v128.load(sp, 32)), 32)
          v128.store(sp, v128.and(v128.load(sp, 16), v128.load(sp, 48)), 48)
          sp += 32; ip += plain<T>(); continue
        }
        case 0x17: {
          v128.store(sp, v128.or(v128.load(sp), v128.load(sp, 32)), 32)
          v128.store(sp, v128.or(v128.load(sp, 16), v128.load(sp, 48)), 48)
          sp += 32; ip += plain<T>(); continue
        }
        case 0x18: {
          v128.store(sp, v128.xor(v128.load(sp), v128.load(sp, 32)), 32)
          v128.store(sp, v128.xor(v128.load(sp, 16), v128.load(sp, 48)), 48)
          sp += 32; ip += plain<T>(); continue
        }
        case 0x19: { v128.store(sp, v128.not(v128.load(sp))); v128.store(sp, v128.not(v128.load(sp, 16)), 16); ip += plain<T>(); continue }
        case 0x1a: {
          const at = load<u64>(sp)
          const byte: u64 = hi3(sp) == 0 && at < 32 ? <u64>load<u8>(sp + 63 - <usize>at) : 0
          sp += 32; set64(sp, byte); ip += plain<T>(); continue
        }
        case 0x1b: { const bits = load<u64>(sp); const isAll = hi3(sp) != 0 || bits > 255; sp += 32; if (isAll) zero(sp); else shl(sp, sp, bits); ip += plain<T>(); continue }
        case 0x1c: { const bits = load<u64>(sp); const isAll = hi3(sp) != 0 || bits > 255; sp += 32; if (isAll) zero(sp); else shr(sp, sp, bits); ip += plain<T>(); continue }
        case 0x1d: { const bits = load<u64>(sp); const isAll = hi3(sp) != 0 || bits > 255; sp += 32; sar(sp, sp, isAll ? 255 : bits); ip += plain<T>(); continue }
        case 0x1e: { if (!hasLeadingZeros) { failWith(HALT_OPCODE, op, 0); status = HALTED; break } set64(sp, leadingZeros(sp)); ip += plain<T>(); continue }
        case 0x20: { gas = left + rest<T>(ip); if (!opKeccak<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 32; ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x30: { sp -= 32; copy(sp, <usize>load<u32>(frame, F_ACCOUNT) + A_WORD); ip += plain<T>(); continue }
        case 0x31: { gas = left + rest<T>(ip); if (!opBalance<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x32: { sp -= 32; copy(sp, ORIGIN); ip += plain<T>(); continue }
        case 0x33: { sp -= 32; copy(sp, frame + F_CALLER); ip += plain<T>(); continue }
        case 0x34: { sp -= 32; copy(sp, frame + F_VALUE); ip += plain<T>(); continue }
        case 0x35: { opCalldataLoad(frame, sp); ip += plain<T>(); continue }
        case 0x36: { sp -= 32; set64(sp, load<u32>(frame, F_INPUT_LENGTH)); ip += plain<T>(); continue }
        case 0x37: { gas = left + rest<T>(ip); if (!opCalldataCopy<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 96; ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x38: { sp -= 32; set64(sp, load<u32>(frame, F_CODE_LENGTH)); ip += plain<T>(); continue }
        case 0x39: { gas = left + rest<T>(ip); if (!opCodeCopy<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 96; ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x3a: { sp -= 32; copy(sp, GAS_PRICE); ip += plain<T>(); continue }
        case 0x3b: { gas = left + rest<T>(ip); if (!opExtCodeSize<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x3c: { gas = left + rest<T>(ip); if (!opExtCodeCopy<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 128; ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x3d: { sp -= 32; set64(sp, returnLength); ip += plain<T>(); continue }
        case 0x3e: { gas = left + rest<T>(ip); if (!opReturnDataCopy<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 96; ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x3f: { gas = left + rest<T>(ip); if (!opExtCodeHash<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x40: { opBlockHash(sp); ip += plain<T>(); continue }
        case 0x41: { sp -= 32; copy(sp, COINBASE); fieldsRead |= READ_COINBASE; ip += plain<T>(); continue }
        case 0x42: { sp -= 32; copy(sp, TIMESTAMP); fieldsRead |= READ_TIMESTAMP; ip += plain<T>(); continue }
        case 0x43: { sp -= 32; copy(sp, NUMBER); fieldsRead |= READ_NUMBER; ip += plain<T>(); continue }
        case 0x44: { sp -= 32; copy(sp, RANDOM); fieldsRead |= READ_RANDOM; ip += plain<T>(); continue }
        case 0x45: { sp -= 32; copy(sp, GAS_LIMIT); fieldsRead |= READ_GAS_LIMIT; ip += plain<T>(); continue }
        case 0x46: { sp -= 32; copy(sp, CHAIN_ID); ip += plain<T>(); continue }
        case 0x47: { sp -= 32; copy(sp, <usize>load<u32>(frame, F_ACCOUNT) + A_BALANCE); ip += plain<T>(); continue }
        case 0x48: { sp -= 32; copy(sp, BASE_FEE); fieldsRead |= READ_BASE_FEE; ip += plain<T>(); continue }
        case 0x49: {
          const at = load<u64>(sp)
          if (hi3(sp) != 0 || at >= <u64>load<u32>(BLOBS)) zero(sp)
          else bswapCopy(sp, <usize>load<u32>(BLOBS_AT) + (<usize>at << 5))
          ip += plain<T>(); continue
        }
        case 0x4a: { sp -= 32; copy(sp, BLOB_BASE_FEE); fieldsRead |= READ_BLOB_BASE_FEE; ip += plain<T>(); continue }
        case 0x50: { sp += 32; ip += plain<T>(); continue }
        case 0x51: {
          const at = load<u64>(sp)
          if ((hi3(sp) | (at >> 32)) != 0 || at + 32 > <u64>size) {
            gas = left + rest<T>(ip)
            if (!touchMemory<T>(frame, sp, 32)) { status = HALTED; break }
            left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
          } else emit<T>(frame)
          bswapCopy(sp, base + <usize>at)
          ip += priced<T>()
          if (isShort<T>(left)) { status = LEAVES; break }
          continue
        }
        case 0x52: {
          const at = load<u64>(sp)
          if ((hi3(sp) | (at >> 32)) != 0 || at + 32 > <u64>size) {
            gas = left + rest<T>(ip)
            if (!touchMemory<T>(frame, sp, 32)) { status = HALTED; break }
            left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
          } else emit<T>(frame)
          bswapCopy(base + <usize>at, sp + 32)
          sp += 64; ip += priced<T>()
          if (isShort<T>(left)) { status = LEAVES; break }
          continue
        }
        case 0x53: {
          const at = load<u64>(sp)
          if ((hi3(sp) | (at >> 32)) != 0 || at + 1 > <u64>size) {
            gas = left + rest<T>(ip)
            if (!touchMemory<T>(frame, sp, 1)) { status = HALTED; break }
            left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
          } else emit<T>(frame)
          store<u8>(base + <usize>at, load<u8>(sp, 32))
          sp += 64; ip += priced<T>()
          if (isShort<T>(left)) { status = LEAVES; break }
          continue
        }
        case 0x54: { gas = left + rest<T>(ip); if (!opSload<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x55: { gas = left + rest<T>(ip); if (!opSstore<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); sp += 64; ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x56: {
          const to = destination<T>(frame, sp)
          if (to == 0) { fail(HALT_JUMP); status = HALTED; break }
          spendJump<T>(ip, to)
          ip = to; sp += 32
          if (isStream<T>()) { status = ENTERS; break }
          continue
        }
        case 0x57: {
          if (isZero(sp + 32)) { sp += 64; ip += plain<T>(); continue }
          const to = destination<T>(frame, sp)
          if (to == 0) { fail(HALT_JUMP); status = HALTED; break }
          spendJump<T>(ip, to)
          ip = to; sp += 64
          if (isStream<T>()) { status = ENTERS; break }
          continue
        }
        case 0x58: { sp -= 32; set64(sp, ip - <usize>load<u32>(frame, F_CODE)); ip += plain<T>(); continue }
        case 0x59: { sp -= 32; set64(sp, size); ip += plain<T>(); continue }
        case 0x5a: { sp -= 32; set64(sp, left + rest<T>(ip)); ip += plain<T>(); continue }
        case 0x5b: { ip += plain<T>(); continue }
        case 0x5c: { opTload(frame, sp); ip += plain<T>(); continue }
        case 0x5d: { if (!opTstore(frame, sp)) { status = HALTED; break } sp += 64; ip += plain<T>(); continue }
        case 0x5e: { gas = left + rest<T>(ip); if (!opMemoryCopy<T>(frame, sp)) { status = HALTED; break } left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE); sp += 96; ip += priced<T>(); if (isShort<T>(left)) { status = LEAVES; break } continue }
        case 0x5f: { sp -= 32; zero(sp); ip += plain<T>(); continue }
        case 0x60: { sp -= 32; set64(sp, load<u8>(ip, 1)); ip += 2; continue }
        case 0x61: { sp -= 32; set64(sp, bswap<u16>(load<u16>(ip, 1))); ip += 3; continue }
        case 0x62: case 0x63: case 0x64: case 0x65: case 0x66: case 0x67: case 0x68: case 0x69: case 0x6a: case 0x6b: case 0x6c: case 0x6d:
        case 0x6e: case 0x6f: case 0x70: case 0x71: case 0x72: case 0x73: case 0x74: case 0x75: case 0x76: case 0x77: case 0x78: case 0x79:
        case 0x7a: case 0x7b: case 0x7c: case 0x7d: case 0x7e: case 0x7f: {
          const count = <usize>op - 0x5f
          sp -= 32
          pushed(sp, ip + 1, count)
          ip += count + 1
          continue
        }
        case 0x80: case 0x81: case 0x82: case 0x83: case 0x84: case 0x85: case 0x86: case 0x87: case 0x88: case 0x89: case 0x8a: case 0x8b:
        case 0x8c: case 0x8d: case 0x8e: case 0x8f: {
          const from = sp + ((<usize>op - 0x80) << 5)
          sp -= 32; copy(sp, from); ip += plain<T>(); continue
        }
        case 0x90: case 0x91: case 0x92: case 0x93: case 0x94: case 0x95: case 0x96: case 0x97: case 0x98: case 0x99: case 0x9a: case 0x9b:
        case 0x9c: case 0x9d: case 0x9e: case 0x9f: {
          const other = sp + ((<usize>op - 0x8f) << 5)
          const low = v128.load(sp)
          const high = v128.load(sp, 16)
          copy(sp, other)
          v128.store(other, low); v128.store(other, high, 16)
          ip += plain<T>(); continue
        }
        case 0xa0: case 0xa1: case 0xa2: case 0xa3: case 0xa4: {
          gas = left + rest<T>(ip)
          if (!opLog<T>(frame, sp, op - 0xa0)) { status = HALTED; break }
          left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
          sp += (<usize>op - 0xa0 + 2) << 5; ip += priced<T>()
          if (isShort<T>(left)) { status = LEAVES; break }
          continue
        }
        case 0xf0: case 0xf1: case 0xf2: case 0xf4: case 0xf5: case 0xfa: {
          gas = left
          const started = op == CREATE || op == CREATE2 ? opCreate<T>(frame, sp, op) : opCall<T>(frame, sp, op)
          if (started == CALL_FAILED) { status = HALTED; break }
          left = gas
          sp += <usize>minStackOf(isStream<T>() ? rowOf(op) : row) - 32
          ip += priced<T>()
          if (started == CALL_STARTED) {
            store<u32>(frame, <u32>ip, F_IP)
            store<u32>(frame, <u32>sp, F_SP)
            store<i64>(frame, left, F_GAS)
            frame += FRAME_BYTES
            status = STARTS
            break
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
        case I_BLOCK: { if (isStream<T>()) { status = ENTERS; break } }
        case I_PUSH_SMALL: { if (isStream<T>()) { sp -= 32; set64(sp, load<u32>(ip, 4)); ip += PLAIN_BYTES; continue } }
        case I_PUSH_WORD: { if (isStream<T>()) { sp -= 32; copy(sp, ip + 8); ip += WORD_BYTES; continue } }
        case I_MLOAD_AT: {
          if (isStream<T>()) {
            const at = <u64>load<u32>(ip, 8)
            sp -= 32
            if (at + 32 > <u64>size) {
              set64(sp, at)
              gas = left + rest<T>(ip)
              if (!touchMemory<T>(frame, sp, 32)) { status = HALTED; break }
              left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
            }
            bswapCopy(sp, base + <usize>at)
            ip += PRICED_BYTES
            if (left < 0) { status = LEAVES; break }
            continue
          }
        }
        case I_MSTORE_AT: {
          if (isStream<T>()) {
            const at = <u64>load<u32>(ip, 8)
            if (at + 32 > <u64>size) {
              set64(sp - 32, at)
              gas = left + rest<T>(ip)
              if (!touchMemory<T>(frame, sp - 32, 32)) { status = HALTED; break }
              left = gas - rest<T>(ip); base = load<u32>(frame, F_MEMORY); size = load<u32>(frame, F_SIZE)
            }
            bswapCopy(base + <usize>at, sp)
            sp += 32; ip += PRICED_BYTES
            if (left < 0) { status = LEAVES; break }
            continue
          }
        }
        case I_PUSH_TWO: { if (isStream<T>()) { sp -= 64; set64(sp, load<u32>(ip, 8)); set64(sp + 32, load<u32>(ip, 4)); ip += PRICED_BYTES; continue } }
        case I_DUP_TWO: { if (isStream<T>()) { sp -= 64; copy(sp + 32, sp + <usize>load<u16>(ip, 4)); copy(sp, sp + <usize>load<u16>(ip, 6)); ip += PLAIN_BYTES; continue } }
        case I_DUP_ADD: { if (isStream<T>()) { add(sp, sp, sp + <usize>load<u32>(ip, 4)); ip += PLAIN_BYTES; continue } }
        case I_POPS_JUMP: {
          if (isStream<T>()) {
            sp += load<u32>(ip, 4)
            const to = destination<T>(frame, sp)
            if (to == 0) { fail(HALT_JUMP); status = HALTED; break }
            spendJump<T>(ip, to)
            ip = to; sp += 32; status = ENTERS; break
          }
        }
        case I_PUSH_UNDER: { if (isStream<T>()) { sp -= 32; copy(sp, sp + 32); set64(sp + 32, load<u32>(ip, 4)); ip += PLAIN_BYTES; continue } }
        case I_DUP_AND: {
          if (isStream<T>()) {
            const other = sp + <usize>load<u32>(ip, 4)
            v128.store(sp, v128.and(v128.load(sp), v128.load(other))); v128.store(sp, v128.and(v128.load(sp, 16), v128.load(other, 16)), 16)
            ip += PLAIN_BYTES; continue
          }
        }
        case I_SWAPS_POP: {
          if (isStream<T>()) {
            const last = sp + <usize>load<u32>(ip, 4)
            copy(last - 32, last); copy(last, sp)
            sp += 32; ip += PLAIN_BYTES; continue
          }
        }
        case I_PUSH_JUMP: { if (isStream<T>()) { sp -= 32; set64(sp, load<u32>(ip, 8)); const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_ADD_SMALL: { if (isStream<T>()) { addSmall(sp, load<u32>(ip, 4)); ip += PLAIN_BYTES; continue } }
        case I_AND_SMALL: { if (isStream<T>()) { set64(sp, load<u64>(sp) & <u64>load<u32>(ip, 4)); ip += PLAIN_BYTES; continue } }
        case I_AND_WORD: { if (isStream<T>()) { v128.store(sp, v128.and(v128.load(sp), v128.load(ip, 8))); v128.store(sp, v128.and(v128.load(sp, 16), v128.load(ip, 24)), 16); ip += WORD_BYTES; continue } }
        case I_SHL_BY: { if (isStream<T>()) { shl(sp, sp, load<u32>(ip, 4)); ip += PLAIN_BYTES; continue } }
        case I_SHR_BY: { if (isStream<T>()) { shr(sp, sp, load<u32>(ip, 4)); ip += PLAIN_BYTES; continue } }
        case I_POPS: { if (isStream<T>()) { sp += load<u32>(ip, 4); ip += PLAIN_BYTES; continue } }
        case I_SWAP_POP: { if (isStream<T>()) { copy(sp + load<u32>(ip, 4), sp); sp += 32; ip += PLAIN_BYTES; continue } }
        case I_JUMP: { if (isStream<T>()) { const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_IF: { if (isStream<T>()) { const is = !isZero(sp); sp += 32; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_UNLESS: { if (isStream<T>()) { const is = isZero(sp); sp += 32; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_IF_LT: { if (isStream<T>()) { const is = lt(sp, sp + 32); sp += 64; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_IF_LT + 1: { if (isStream<T>()) { const is = lt(sp + 32, sp); sp += 64; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_IF_LT + 2: { if (isStream<T>()) { const is = slt(sp, sp + 32); sp += 64; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_IF_LT + 3: { if (isStream<T>()) { const is = slt(sp + 32, sp); sp += 64; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_IF_LT + 4: { if (isStream<T>()) { const is = eq(sp, sp + 32); sp += 64; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_UNLESS_LT: { if (isStream<T>()) { const is = !lt(sp, sp + 32); sp += 64; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_UNLESS_LT + 1: { if (isStream<T>()) { const is = !lt(sp + 32, sp); sp += 64; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_UNLESS_LT + 2: { if (isStream<T>()) { const is = !slt(sp, sp + 32); sp += 64; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_UNLESS_LT + 3: { if (isStream<T>()) { const is = !slt(sp + 32, sp); sp += 64; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_UNLESS_LT + 4: { if (isStream<T>()) { const is = !eq(sp, sp + 32); sp += 64; if (!is) { ip += PLAIN_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        case I_JUMP_IF_SAME: { if (isStream<T>()) { if (load<u64>(sp) != <u64>load<u32>(ip, 8) || hi3(sp) != 0) { ip += PRICED_BYTES; status = ENTERS; break } const to = <usize>load<u32>(ip, 4); spendJump<T>(ip, to); ip = to; status = ENTERS; break } }
        default: { failWith(HALT_OPCODE, op, 0); status = HALTED; break }
      }
    }
    if (isStream<T>() && status == ENTERS) {
      const cost = <i64>load<u32>(ip, 4)
      const taken = <u32>(stack - sp)
      ip += PRICED_BYTES
      if (left >= cost && taken >= <u32>load<u16>(ip - 8) && taken <= <u32>load<u16>(ip - 6)) {
        left -= cost
        continue
      }
      gas = left
      status = LEAVES
    }
    if (isStream<T>() && status == LEAVES) {
      leaveStream(frame, ip, sp)
      return LEAVES
    }
    if (status != STARTS) {
      gas = left
      status = endFrame<T>(frame, status, output, outputLength)
      if (frame == frames) return status
      frame -= FRAME_BYTES
    }
    if (!isOwn<T>(frame)) return LEAVES
    ip = load<u32>(frame, F_IP)
    sp = load<u32>(frame, F_SP)
    stack = load<u32>(frame, F_STACK)
    left = load<i64>(frame, F_GAS)
    base = load<u32>(frame, F_MEMORY)
    size = load<u32>(frame, F_SIZE)
  }
  return HALTED
}
