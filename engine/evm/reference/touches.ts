/** Reports accounts and slots that opcodes are about to touch. */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { createAddress } from '../../primitives/transaction-codec.ts'
import { bigintToBytes, concatBytes } from '../../primitives/words.ts'
import type { Touch, TraceSink } from '../engine.ts'
import type { JournaledState } from '../journal/journaled-state.ts'
import { lowAddress, type RunState } from './gas.ts'

/** Calls the sink's `touch` if it is present and the opcode names an account or a slot. */
export function traceTouch(
  trace: TraceSink,
  runState: RunState,
  about: { readonly state: JournaledState; readonly isFailed: boolean },
): void {
  const { opCode, env } = runState
  if (trace.touch === undefined || !TOUCHES.has(opCode)) return
  const { state, isFailed } = about
  const address = env.address.bytes
  trace.touch({ op: opCode, address, ...operandOf(runState, state, isFailed), isFailed })
}

/** go-ethereum's tracers inspect a call only if five words are on the stack. */
const CALL_WORDS = 5

/** Returns nothing if the opcode failed before its operand was known. */
function operandOf(
  { opCode, stack, env, memory }: RunState,
  state: JournaledState,
  isFailed: boolean,
): Pick<Touch, 'key' | 'target'> {
  switch (opCode) {
    case CREATE: {
      const { address } = env
      if (isFailed) return {}
      return { target: createAddress(address.bytes, state.entry(address.bytes).nonce) }
    }
    case CREATE2: {
      if (isFailed) return {}
      const [, offset, length, salt] = stack.peek(4)
      const code = length === 0n ? NO_BYTES : memory.read(Number(offset), Number(length))
      return { target: saltedAddress(env.address.bytes, bigintToBytes(salt!, 32), code) }
    }
    case SLOAD:
    case SSTORE:
      return stack.length < 1 ? {} : { key: bigintToBytes(stack.peek()[0]!, 32) }
    case CALL:
    case CALLCODE:
    case DELEGATECALL:
    case STATICCALL:
      return stack.length < CALL_WORDS ? {} : { target: lowAddress(stack.peek(2)[1]!) }
    default:
      return stack.length < 1 ? {} : { target: lowAddress(stack.peek()[0]!) }
  }
}

/** The address of a contract made by CREATE2 (EIP-1014). */
export const saltedAddress = (from: Bytes, salt: Bytes, code: Bytes): Bytes =>
  keccak256(concatBytes(Uint8Array.of(0xff), from, salt, keccak256(code))).slice(12)

const SLOAD = 0x54
const SSTORE = 0x55
const CREATE = 0xf0
const CALL = 0xf1
const CALLCODE = 0xf2
const DELEGATECALL = 0xf4
const CREATE2 = 0xf5
const STATICCALL = 0xfa
/**
 * BALANCE, EXTCODESIZE, EXTCODECOPY, EXTCODEHASH, SLOAD, SSTORE, calls, creations, SELFDESTRUCT.
 */
const TOUCHES: ReadonlySet<number> = new Set([
  0x31,
  0x3b,
  0x3c,
  0x3f,
  SLOAD,
  SSTORE,
  CREATE,
  CALL,
  CALLCODE,
  DELEGATECALL,
  CREATE2,
  STATICCALL,
  0xff,
])
