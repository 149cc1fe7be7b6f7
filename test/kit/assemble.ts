/** This module makes bytecode from names of opcodes and numbers: `assemble('1 PUSH0 SSTORE')`. */
import { OPCODES } from '../../engine/evm/opcodes.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'

const BY_NAME = new Map(OPCODES.flatMap((opcode, code) => (opcode ? [[opcode.name, code]] : [])))

/**
 * Assembles the words; a number is pushed in its shortest form, but `0x…` retains its zeros.
 * @throws for a word that is neither an opcode nor a number
 */
export function assemble(text: string): Bytes {
  const bytes = text
    .split(/\s+/)
    .filter((word) => word !== '')
    .flatMap((word) => {
      const code = BY_NAME.get(word)
      if (code !== undefined) return [code]
      if (!/^(\d+|0x([0-9a-f]{2})+)$/.test(word)) throw new Error(`no opcode named ${word}`)
      const digits = word.startsWith('0x') ? word.slice(2) : Number(word).toString(16)
      const even = word === '0' ? '' : digits.padStart((digits.length + 1) & ~1, '0')
      return [0x5f + even.length / 2, ...Buffer.from(even, 'hex')]
    })
  return Uint8Array.from(bytes)
}

/** Assembles a program that runs `before` once, and then `body` in an endless loop. */
export function endless(body: string, before = ''): Bytes {
  const start = assemble(before).length
  return assemble(`${before} JUMPDEST ${body} ${start} JUMP`)
}
