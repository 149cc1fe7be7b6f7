/** Reasons why a frame halted, in go-ethereum's words. */
import { OPCODES, opcodeName, STACK_LIMIT } from './opcodes.ts'

/**
 * Checks the stack before gas, as go-ethereum does.
 * @returns "stack underflow (have <=> need)" or "stack limit reached have (max)"; undefined if the
 * stack suffices
 */
export function stackFault(opcode: number, stackSize: number): string | undefined {
  const known = OPCODES[opcode]
  if (known === undefined) return undefined
  const { pops, pushes } = known
  if (stackSize < pops) return `stack underflow (${stackSize} <=> ${pops})`
  const max = STACK_LIMIT + pops - pushes
  return stackSize > max ? `stack limit reached ${stackSize} (${max})` : undefined
}

export function invalidOpcode(opcode: number): string {
  return `invalid opcode: ${opcodeName(opcode)}`
}

/**
 * Computes the end of the memory that the opcode uses, in bytes; 0 if it uses none.
 * @param operands the opcode's operands, top of the stack first
 */
export function memoryEnd(opcode: number, operands: readonly bigint[]): bigint {
  let end = 0n
  for (const [offsetAt, lengthAt] of MEMORY_OPERANDS[opcode] ?? []) {
    const length = typeof lengthAt === 'bigint' ? lengthAt : operands[lengthAt]!
    if (length > 0n && operands[offsetAt]! + length > end) end = operands[offsetAt]! + length
  }
  return end
}

/** The interpreter checks this before the gas handler and halts with "gas uint64 overflow". */
export const isBeyondWord = (end: bigint): boolean => end > MAX_WORD
/**
 * The gas handler checks this and halts with "out of gas: gas uint64 overflow". No amount of gas
 * could pay for such memory.
 */
export const isMemoryOverflow = (end: bigint): boolean => end > MAX_MEMORY

/** The interpreter's text for an error of a gas handler. */
export const outOfGasFor = (why: string): string => `${OUT_OF_GAS}: ${why}`
/** True for reasons that go-ethereum's gas estimate treats as curable by more gas. */
export const isOutOfGas = (reason: string): boolean =>
  reason === OUT_OF_GAS || reason.startsWith(outOfGasFor(''))
export const OUT_OF_GAS = 'out of gas'
export const GAS_OVERFLOW = 'gas uint64 overflow'
export const NONCE_OVERFLOW = 'nonce uint64 overflow'
export const WRITE_PROTECTION = 'write protection'
export const RETURN_DATA_BOUNDS = 'return data out of bounds'

/** Bytes: the largest multiple of 32 in 64 bits. */
const MAX_WORD = (1n << 64n) - 32n
/** Bytes: go-ethereum's limit, above which the square of the word count exceeds 64 bits. */
const MAX_MEMORY = 0x1fffffffe0n

type MemoryOperands = readonly (readonly [offsetAt: number, length: number | bigint])[]

/** Stack positions of offset and length from the top; a bigint is the length itself. */
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
