/**
 * Fast engines with one fault each, compiled from changed sources: opcodes, gas, journal, stamps,
 * translation, fused steps.
 */
import type { Mutant } from './mutants.ts'

type Row = readonly [name: string, file: string, find: string, replace: string]

/** The files are below engine/evm/fast/asm. */
const ROWS: readonly Row[] = [
  [
    'ADDMOD forgets the carry out of the word',
    'primitives/divide',
    'store<u64>(WIDE, carry, 32)\n  divmod(WIDE, 5, m',
    'store<u64>(WIDE, 0, 32)\n  divmod(WIDE, 5, m',
  ],
  [
    'SAR by more than 255 shifts by 254',
    'interpreter/loop',
    'sar(sp, sp, isAll ? 255 : bits)',
    'sar(sp, sp, isAll ? 254 : bits)',
  ],
  [
    'BYTE has 31 bytes',
    'interpreter/loop',
    'hi3(sp) == 0 && at < 32 ?',
    'hi3(sp) == 0 && at < 31 ?',
  ],
  [
    'memory of a byte into a word is not paid',
    'memory/memory-ops',
    'const words = (end + 31) >> 5\n',
    'const words = (end + 30) >> 5\n',
  ],
  [
    'SSTORE passes with as much gas as the sentry asks for',
    'state/state-ops',
    'gas <= 2300',
    'gas < 2300',
  ],
  [
    'SSTORE takes no refund back',
    'state/state-ops',
    'if (isZero(current)) refund -= 4800',
    'if (false) refund -= 4800',
  ],
  [
    'a call without value gets the stipend',
    'frames/calls',
    'hasValue && !isZero(value)) given',
    'hasValue) given',
  ],
  [
    'a frame inside of a STATICCALL may write',
    'frames/calls',
    'kind == STATICCALL ? 1 : load<u32>(frame, F_STATIC)',
    'kind == STATICCALL ? 1 : 0',
  ],
  [
    'refunds of a frame that failed stay',
    'frames/ends',
    'refund = load<i64>(frame, F_REFUND)\n',
    '\n',
  ],
  [
    'logs of a frame that failed stay',
    'frames/ends',
    'forgetLogs(load<u32>(frame, F_LOGS))\n',
    '\n',
  ],
  [
    'the nonce is not taken back',
    'state/undo',
    'store<u64>(record, numberAt(at), A_NONCE)',
    'store<u64>(record, load<u64>(record, A_NONCE), A_NONCE)',
  ],
  [
    'an account that was made is there when that is taken back',
    'state/undo',
    '| (before & IS_THERE)',
    '| ((before | load<u32>(record, A_FLAGS)) & IS_THERE)',
  ],
  [
    'a slot that became warm stays so when it is taken back',
    'state/slots',
    'store<u32>(record, before, S_WARM)',
    'store<u32>(record, max(before, load<u32>(record, S_WARM)), S_WARM)',
  ],
  [
    'who was destroyed and taken back is destroyed all the same',
    'state/accounts',
    'store<u32>(record, before, A_DESTROYED)',
    'store<u32>(record, transaction, A_DESTROYED)',
  ],
  [
    'the original value is that of the first transaction',
    'state/slots',
    'if (load<u32>(record, S_ORIGINAL_OF) != transaction) {',
    'if (load<u32>(record, S_ORIGINAL_OF) == 0) {',
  ],
  [
    'a slot that was read of a cleared storage stays zero when that is taken back',
    'state/slots',
    'if (load<u32>(at) & IS_FROM_CLEARED) store<u32>(at, 0)',
    'if (false) store<u32>(at, 0)',
  ],
  [
    'a transient slot is not taken back',
    'state/transient',
    'if (ofRun == run)',
    'if (ofRun > run)',
  ],
  [
    'transient storage outlives its transaction',
    'state/transient',
    'if (!isUsed) return',
    'if (isUsed) return',
  ],
  [
    'GAS in a stream says what the block costs, not its rest',
    'translation/translate',
    ' || number == GAS) store',
    ') store',
  ],
  [
    'a translated block may leave one word too many',
    'translation/draft',
    '<u16>(STACK_BYTES - highest)',
    '<u16>(STACK_BYTES - highest + 32)',
  ],
  [
    'SWAPn POP as one step drops another word',
    'translation/fuse',
    'emit(I_SWAP_POP, from)',
    'emit(I_SWAP_POP, from - 32)',
  ],
  [
    'SLT ISZERO and a jump as one step compare without signs',
    'interpreter/loop',
    'case I_JUMP_UNLESS_LT + 2: { if (isStream<T>()) { const is = !slt(',
    'case I_JUMP_UNLESS_LT + 2: { if (isStream<T>()) { const is = !lt(',
  ],
  [
    'a mask of no bits is one of a bit',
    'translation/fuse',
    'sub(out, out, ONE)',
    'if (load<u8>(code + pc + 5) != 0) sub(out, out, ONE)',
  ],
]

export const FAST_MUTANTS: readonly Mutant[] = ROWS.map(([name, file, find, replace]) => ({
  name,
  edits: [{ file: `engine/evm/fast/asm/${file}.ts`, find, replace }],
}))
