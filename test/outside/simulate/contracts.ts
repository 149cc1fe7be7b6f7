/** Histories call this contract, which writes, clears, creates and fails on demand. */
import { OPCODES } from '../../../engine/evm/opcodes.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bigintToBytes, concatBytes } from '../../../engine/primitives/words.ts'

/** The first word of a call is its command; the key and the value follow. */
export const BOX = {
  store: 0,
  storeAndRevert: 1,
  increase: 2,
  create: 3,
  fail: 4,
  blockHash: 5,
  clear: 6,
  createAndEnd: 7,
} as const
export type BoxCall = keyof typeof BOX

export const boxInput = (call: BoxCall, key: bigint, value: bigint): Bytes =>
  concatBytes(
    bigintToBytes(BigInt(BOX[call]), 32),
    bigintToBytes(key, 32),
    bigintToBytes(value, 32),
  )

const KEY = '32 CALLDATALOAD'
const VALUE = '64 CALLDATALOAD'
/**
 * CHILD writes slot 1 and leaves one byte of code. ENDING_CHILD writes slot 1 and destroys itself
 * in the same transaction.
 */
const CHILD = '0x600160015560015ff3'
const ENDING_CHILD = '0x600160015533ff'

const RUNTIME = assembleLabels(`
  0 CALLDATALOAD
  DUP1 1 EQ @revert JUMPI
  DUP1 2 EQ @increase JUMPI
  DUP1 3 EQ @create JUMPI
  DUP1 4 EQ @fail JUMPI
  DUP1 5 EQ @hash JUMPI
  DUP1 6 EQ @clear JUMPI
  DUP1 7 EQ @ending JUMPI
  ${VALUE} ${KEY} DUP2 DUP2 SSTORE DUP1 0 MSTORE 32 0 LOG2 STOP
  :revert ${VALUE} ${KEY} SSTORE 0 0 REVERT
  :increase ${KEY} DUP1 SLOAD 1 ADD DUP1 DUP3 SSTORE 0 MSTORE 32 0 LOG1 STOP
  :create ${CHILD} 0 MSTORE ${VALUE} 9 23 0 CREATE2 ${KEY} SSTORE STOP
  :fail INVALID
  :hash 1 NUMBER SUB BLOCKHASH ${KEY} SSTORE STOP
  :clear 0 ${KEY} SSTORE 0 ${KEY} 1 ADD SSTORE 0 ${KEY} 2 ADD SSTORE STOP
  :ending ${ENDING_CHILD} 0 MSTORE 7 25 0 CREATE ${KEY} SSTORE STOP
`)

/** The head returns the bytes after it as code. */
const HEAD_BYTES = 11
const HEAD = assembleLabels(`0x${hex4(RUNTIME.length)} DUP1 ${HEAD_BYTES} 0 CODECOPY 0 RETURN STOP`)

export const BOX_INIT: Bytes = concatBytes(HEAD, RUNTIME)
/** This init code fails. */
export const FAILING_INIT: Bytes = assembleLabels('1 1 SSTORE 0 0 REVERT')

function hex4(number: number): string {
  return number.toString(16).padStart(4, '0')
}

/** Assembles a text; `:name` marks a jump target, `@name` pushes its offset. */
function assembleLabels(text: string): Bytes {
  const codes = new Map(OPCODES.flatMap((opcode, code) => (opcode ? [[opcode.name, code]] : [])))
  const words = text.split(/\s+/).filter((word) => word !== '')
  const offsets = new Map<string, number>()
  const lengthOf = (word: string) => (word.startsWith('@') ? 3 : bytesOfWord(word, codes).length)
  let at = 0
  for (const word of words) {
    if (word.startsWith(':')) offsets.set(word.slice(1), at)
    at += lengthOf(word)
  }
  return Uint8Array.from(
    words.flatMap((word) => {
      if (!word.startsWith('@')) return bytesOfWord(word, codes)
      const offset = offsets.get(word.slice(1))
      if (offset === undefined) throw new Error(`no label ${word}`)
      return [0x61, offset >> 8, offset & 0xff]
    }),
  )
}

function bytesOfWord(word: string, codes: ReadonlyMap<string, number>): number[] {
  if (word.startsWith(':')) return [0x5b]
  const code = codes.get(word)
  if (code !== undefined) return [code]
  const digits = word.startsWith('0x') ? word.slice(2) : Number(word).toString(16)
  const even = word === '0' ? '' : digits.padStart((digits.length + 1) & ~1, '0')
  return [0x5f + even.length / 2, ...Buffer.from(even, 'hex')]
}
