/** Why a frame halted, in go-ethereum's words. */
import { OPCODES, opcodeName, STACK_LIMIT } from './opcodes.ts'

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
  return `invalid opcode: ${opcodeName(opcode)}`
}

/** Where the memory ends that the opcode asks for, in bytes; 0 where it asks for none. `operands`: top first, as many as it takes. */
export function memoryEnd(opcode: number, operands: readonly bigint[]): bigint {
  let end = 0n
  for (const [offsetAt, lengthAt] of MEMORY_OPERANDS[opcode] ?? []) {
    const length = typeof lengthAt === 'bigint' ? lengthAt : operands[lengthAt]!
    if (length > 0n && operands[offsetAt]! + length > end) end = operands[offsetAt]! + length
  }
  return end
}

/** Found before anything is priced: "gas uint64 overflow". */
export const isBeyondWord = (end: bigint): boolean => end > MOST_WORD
/** Found by whoever prices it: "out of gas: gas uint64 overflow". No gas could ever pay for it. */
export const isMemoryOverflow = (end: bigint): boolean => end > MOST_MEMORY

/** An error of a gas handler, as the interpreter passes it on. */
export const outOfGasFor = (why: string): string => `${OUT_OF_GAS}: ${why}`
/** More gas might have helped, or so go-ethereum's estimate takes it. */
export const isOutOfGas = (reason: string): boolean =>
  reason === OUT_OF_GAS || reason.startsWith(outOfGasFor(''))
export const OUT_OF_GAS = 'out of gas'
export const GAS_OVERFLOW = 'gas uint64 overflow'
export const NONCE_OVERFLOW = 'nonce uint64 overflow'
export const WRITE_PROTECTION = 'write protection'
export const RETURN_DATA_BOUNDS = 'return data out of bounds'

/** Bytes; whole words in 64 bits. */
const MOST_WORD = (1n << 64n) - 32n
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
