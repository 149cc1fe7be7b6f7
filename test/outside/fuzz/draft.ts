/**
 * A program while it is written: its bytes, the number of words on its stack, and data that follows
 * its end.
 */

import { OPCODES } from '../../../engine/evm/opcodes.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'

export type Draft = {
  readonly code: number[]
  /** The number of words on the stack, as far as it is known. */
  depth: number
  readonly data: Bytes[]
  /** The offsets of PUSH2 operands that refer to a piece of data. */
  readonly references: { readonly at: number; readonly data: number }[]
}

export const newDraft = (): Draft => ({ code: [], depth: 0, data: [], references: [] })

/** Pushes a value in its shortest form, or with `width` bytes. */
export function push(draft: Draft, value: bigint, width?: number): void {
  const digits = value === 0n ? '' : value.toString(16)
  const size = width ?? Math.ceil(digits.length / 2)
  draft.code.push(0x5f + size, ...Buffer.from(digits.padStart(size * 2, '0'), 'hex'))
  draft.depth++
}

export function op(draft: Draft, ...codes: readonly number[]): void {
  for (const code of codes) {
    draft.code.push(code)
    const known = OPCODES[code]
    if (known !== undefined) draft.depth = Math.max(0, draft.depth - known.pops) + known.pushes
  }
}

/** Pushes the offset that `data` will have in the code. */
export function pushDataOffset(draft: Draft, data: Bytes): void {
  draft.references.push({ at: draft.code.length + 1, data: draft.data.length })
  draft.data.push(data)
  push(draft, 0n, 2)
}

/** Writes a jump's target into the operand of a PUSH2. */
export function patch(draft: Draft, at: number, target: number): void {
  draft.code[at] = target >> 8
  draft.code[at + 1] = target & 0xff
}

/** Brings the stack to this depth: extra words are dropped, and missing ones are pushed. */
export function level(draft: Draft, depth: number): void {
  while (draft.depth > depth) op(draft, POP)
  while (draft.depth < depth) push(draft, 0n)
}

export function finish(draft: Draft): Bytes {
  let end = draft.code.length
  const starts = draft.data.map((data) => {
    const start = end
    end += data.length
    return start
  })
  for (const { at, data } of draft.references) patch(draft, at, starts[data]!)
  return Uint8Array.from([...draft.code, ...draft.data.flatMap((data) => [...data])])
}

const POP = 0x50
