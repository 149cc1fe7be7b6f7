/** Why a frame halted, in go-ethereum's words. */
import { OPCODES, STACK_LIMIT } from './opcodes.ts'

/** "stack underflow (have <=> need)", also where gas would not have sufficed: the stack is checked first. */
export function stackFault(opcode: number, stackSize: number): string | undefined {
  const known = OPCODES[opcode]
  if (known === undefined) return undefined
  const { pops, pushes } = known
  if (stackSize < pops) return `stack underflow (${stackSize} <=> ${pops})`
  const most = STACK_LIMIT + pops - pushes
  return stackSize > most ? `stack limit reached ${stackSize} (${most})` : undefined
}

export function invalidOpcode(opcode: number): string {
  return `invalid opcode: ${OPCODES[opcode]?.name ?? `opcode 0x${opcode.toString(16)} not defined`}`
}

/** "gas uint64 overflow": memory so far out that no gas could ever pay for it. `stack`: top last. */
export function isMemoryOverflow(opcode: number, stack: readonly bigint[]): boolean {
  for (const [offsetAt, lengthAt] of MEMORY_OPERANDS[opcode] ?? []) {
    const offset = stack.at(-1 - offsetAt) ?? 0n
    const length = typeof lengthAt === 'bigint' ? lengthAt : (stack.at(-1 - lengthAt) ?? 0n)
    if (length > 0n && offset + length > MOST_MEMORY) return true
  }
  return false
}

/** Bytes; go-ethereum's bound, above which the square of the words leaves 64 bits. */
const MOST_MEMORY = 0x1fffffffe0n

type MemoryOperands = readonly (readonly [offsetAt: number, length: number | bigint])[]

/** Positions of offset and length on the stack, from the top; a bigint is the length itself. */
const MEMORY_OPERANDS: Readonly<Record<number, MemoryOperands>> = {
  32: [[0, 1]], // KECCAK256
  55: [[0, 2]], // CALLDATACOPY
  57: [[0, 2]], // CODECOPY
  60: [[1, 3]], // EXTCODECOPY
  62: [[0, 2]], // RETURNDATACOPY
  81: [[0, 32n]], // MLOAD
  82: [[0, 32n]], // MSTORE
  83: [[0, 1n]], // MSTORE8
  94: [
    [0, 2],
    [1, 2],
  ], // MCOPY
  160: [[0, 1]], // LOG0
  161: [[0, 1]],
  162: [[0, 1]],
  163: [[0, 1]],
  164: [[0, 1]],
  240: [[1, 2]], // CREATE
  241: [
    [3, 4],
    [5, 6],
  ], // CALL
  242: [
    [3, 4],
    [5, 6],
  ], // CALLCODE
  243: [[0, 1]], // RETURN
  244: [
    [2, 3],
    [4, 5],
  ], // DELEGATECALL
  245: [[1, 2]], // CREATE2
  250: [
    [2, 3],
    [4, 5],
  ], // STATICCALL
  253: [[0, 1]], // REVERT
}
