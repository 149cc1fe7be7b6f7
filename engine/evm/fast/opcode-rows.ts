/**
 * The table of opcodes for the module. A row has 8 bytes: constant gas, minimum and maximum bytes
 * on the stack, flags.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { OPCODES, STACK_LIMIT } from '../opcodes.ts'

/** Forks differ in these opcodes, which are INVALID without them. */
export type OpcodeRules = { readonly hasLeadingZeros: boolean }

export const ROW_BYTES = 8
const WORD_BYTES = 32
const EMITS_ITSELF = 1
const TOUCHES = 2

/**
 * Constant gas by range of opcodes (go-ethereum's constantGas: the Berlin jump table and later
 * ones). Dynamic gas is computed elsewhere.
 */
const CONSTANT_GAS: readonly (readonly [first: number, last: number, gas: number])[] = [
  [0x01, 0x01, 3],
  [0x02, 0x02, 5],
  [0x03, 0x03, 3],
  [0x04, 0x07, 5],
  [0x08, 0x09, 8],
  [0x0b, 0x0b, 5],
  [0x10, 0x1d, 3],
  [0x1e, 0x1e, 5],
  [0x20, 0x20, 30],
  [0x30, 0x30, 2],
  [0x31, 0x31, 100],
  [0x32, 0x34, 2],
  [0x35, 0x35, 3],
  [0x36, 0x36, 2],
  [0x37, 0x37, 3],
  [0x38, 0x38, 2],
  [0x39, 0x39, 3],
  [0x3a, 0x3a, 2],
  [0x3b, 0x3c, 100],
  [0x3d, 0x3d, 2],
  [0x3e, 0x3e, 3],
  [0x3f, 0x3f, 100],
  [0x40, 0x40, 20],
  [0x41, 0x46, 2],
  [0x47, 0x47, 5],
  [0x48, 0x48, 2],
  [0x49, 0x49, 3],
  [0x4a, 0x4a, 2],
  [0x50, 0x50, 2],
  [0x51, 0x53, 3],
  [0x56, 0x56, 8],
  [0x57, 0x57, 10],
  [0x58, 0x5a, 2],
  [0x5b, 0x5b, 1],
  [0x5c, 0x5d, 100],
  [0x5e, 0x5e, 3],
  [0x5f, 0x5f, 2],
  [0x60, 0x9f, 3],
  [0xf0, 0xf0, 32000],
  [0xf1, 0xf2, 100],
  [0xf4, 0xf4, 100],
  [0xf5, 0xf5, 32000],
  [0xfa, 0xfa, 100],
  [0xff, 0xff, 5000],
]

/** Opcodes with dynamic gas: EXP, KECCAK256, copies, memory, SLOAD, SSTORE, logs, calls, ends. */
const PRICED: ReadonlySet<number> = new Set([
  ...[0x0a, 0x20, 0x31, 0x37, 0x39, 0x3b, 0x3c, 0x3e, 0x3f, 0x51, 0x52, 0x53, 0x54, 0x55, 0x5e],
  ...[0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xfa, 0xfd, 0xff],
])
/**
 * Opcodes that name an account or a slot: BALANCE, EXTCODESIZE, EXTCODECOPY, EXTCODEHASH, SLOAD,
 * SSTORE, calls, creations, SELFDESTRUCT.
 */
export const TOUCHING: ReadonlySet<number> = new Set([
  ...[0x31, 0x3b, 0x3c, 0x3f, 0x54, 0x55, 0xf0, 0xf1, 0xf2, 0xf4, 0xf5, 0xfa, 0xff],
])
const LEADING_ZEROS = 0x1e
/** True if the fork has the opcode; go-ethereum's names for other opcodes do not count. */
const isDefined = (op: number, { hasLeadingZeros }: OpcodeRules): boolean =>
  op === LEADING_ZEROS ? hasLeadingZeros : GAS_OF.has(op) || PRICED.has(op)

const GAS_OF: ReadonlyMap<number, number> = new Map(
  CONSTANT_GAS.flatMap(([first, last, gas]) =>
    Array.from({ length: last - first + 1 }, (_, at) => [first + at, gas] as const),
  ),
)

const constantGas = (op: number): number => GAS_OF.get(op) ?? 0

export function opcodeRows(rules: OpcodeRules): Bytes {
  const rows = new Uint8Array(256 * ROW_BYTES)
  const view = new DataView(rows.buffer)
  for (let op = 0; op < 256; op++) {
    const known = isDefined(op, rules) ? OPCODES[op] : undefined
    const { pops, pushes } = known ?? { pops: 0, pushes: 0 }
    const row = op * ROW_BYTES
    if (known !== undefined) view.setUint16(row, constantGas(op), true)
    view.setUint16(row + 2, pops * WORD_BYTES, true)
    view.setUint16(row + 4, (STACK_LIMIT + pops - pushes) * WORD_BYTES, true)
    const flags = (PRICED.has(op) ? EMITS_ITSELF : 0) | (TOUCHING.has(op) ? TOUCHES : 0)
    view.setUint16(row + 6, flags, true)
  }
  return rows
}
