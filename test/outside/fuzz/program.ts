/**
 * Programs of known shape: the stack mostly has each opcode's operands, and the operands are values
 * at which mistakes happen.
 */
import { OPCODES } from '../../../engine/evm/opcodes.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { Dice } from '../cost/random.ts'
import { calls, creation } from './calls.ts'
import { type Draft, finish, level, newDraft, op, patch, push } from './draft.ts'
import { idiom } from './idioms.ts'
import { callGas, length, offset, slotKey, slotValue, wei, word } from './operands.ts'
import { selfCalling } from './self-calls.ts'
import { addressOf, type Family, type Surroundings } from './surroundings.ts'

export function program(around: Surroundings, pieces: number): Bytes {
  const draft = newDraft()
  if (around.dice.chance(SELF_CALLING)) selfCalling(draft, around, { piece, ending })
  else {
    for (let left = pieces; left > 0; left--) piece(draft, around)
    ending(draft, around.dice)
  }
  return finish(draft)
}

/** This share of the programs calls itself. */
const SELF_CALLING = 0.3

const ARITHMETIC = [
  ...[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18],
  ...[0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e],
  // These opcodes are repeated because they fail for few operands only.
  ...[0x08, 0x0b, 0x0b, 0x1a, 0x1a, 0x1d],
]
const ENVIRONMENT = [
  ...[0x30, 0x32, 0x33, 0x34, 0x36, 0x38, 0x3a, 0x3d, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47],
  ...[0x48, 0x4a, 0x58, 0x59, 0x5a, 0x5a, 0x5f],
]
const OF_ADDRESS = [0x31, 0x3b, 0x3f]

const PIECES: readonly (readonly [weight: number, write: Family])[] = [
  [26, arithmetics],
  [9, (draft, { dice }) => op(draft, dice.pick(ENVIRONMENT))],
  [6, ofAddress],
  [13, memory],
  [12, storage],
  [7, shuffle],
  [9, idiom],
  [3, logged],
  [3, branch],
  [3, loop],
  [9, calls],
  [3, creation],
  [1, wild],
]
const WEIGHTS = PIECES.reduce((sum, [weight]) => sum + weight, 0)

function piece(draft: Draft, around: Surroundings) {
  let at = around.dice.int(WEIGHTS)
  for (const [weight, write] of PIECES) {
    at -= weight
    if (at < 0) return write(draft, around)
  }
}

/** Writes an operand; it is often a value of the stack, so that results flow on. */
function operand(draft: Draft, dice: Dice): void {
  if (draft.depth > 0 && dice.chance(0.35)) op(draft, 0x80 + dice.int(Math.min(draft.depth, 16)))
  else push(draft, word(dice))
}

function arithmetics(draft: Draft, around: Surroundings) {
  for (let left = 1 + around.dice.int(3); left > 0; left--) arithmetic(draft, around)
}

function arithmetic(draft: Draft, { dice }: Surroundings) {
  const code = dice.pick(ARITHMETIC)
  const { pops } = OPCODES[code]!
  const isShift = code >= 0x1a && code <= 0x1d
  for (let left = pops; left > 0; left--)
    if (left === 1 && (isShift || code === 0x0b)) push(draft, bitsOrBytes(dice))
    else operand(draft, dice)
  op(draft, code)
}

/** Draws a shift width, or the index of a byte. */
function bitsOrBytes(dice: Dice): bigint {
  if (dice.chance(0.1)) return word(dice)
  return BigInt(dice.chance(0.4) ? dice.pick(BITS_OR_BYTES) : dice.int(dice.chance(0.8) ? 34 : 300))
}
const BITS_OR_BYTES = [0, 1, 7, 8, 29, 30, 30, 31, 31, 32, 63, 64, 65, 128, 192, 254, 255, 256, 257]

function ofAddress(draft: Draft, around: Surroundings) {
  const { dice } = around
  if (dice.chance(0.15)) {
    push(draft, dice.pick([99n, 100n, 0n, 101n, 50n, (1n << 64n) + 99n, word(dice)]))
    return op(draft, 0x40)
  }
  if (dice.chance(0.1)) {
    push(draft, BigInt(dice.int(3)))
    return op(draft, 0x49)
  }
  push(draft, addressOf(around))
  op(draft, dice.pick(OF_ADDRESS))
}

function memory(draft: Draft, around: Surroundings) {
  const { dice } = around
  const kind = dice.int(10)
  if (kind < 3) {
    operand(draft, dice)
    push(draft, offset(dice))
    return op(draft, kind === 2 ? 0x53 : 0x52)
  }
  if (kind < 5) {
    push(draft, offset(dice))
    return op(draft, kind === 3 ? 0x51 : 0x35)
  }
  push(draft, length(dice))
  push(draft, offset(dice))
  if (kind === 5) return op(draft, 0x20)
  if (kind === 6) push(draft, dice.chance(0.5) ? 0n : offset(dice))
  else push(draft, offset(dice))
  if (kind === 9) {
    push(draft, addressOf(around))
    return op(draft, 0x3c)
  }
  op(draft, kind === 6 ? 0x3e : kind === 7 ? 0x5e : dice.pick([0x37, 0x39]))
}

function storage(draft: Draft, { dice }: Surroundings) {
  const isTransient = dice.chance(0.3)
  if (dice.chance(0.45)) {
    push(draft, slotKey(dice))
    return op(draft, isTransient ? 0x5c : 0x54)
  }
  if (draft.depth > 0 && dice.chance(0.2)) op(draft, 0x80)
  else push(draft, slotValue(dice))
  push(draft, slotKey(dice))
  op(draft, isTransient ? 0x5d : 0x55)
}

function shuffle(draft: Draft, { dice }: Surroundings) {
  if (draft.depth === 0 || dice.chance(0.02)) return push(draft, word(dice), 32)
  if (dice.chance(0.25)) return op(draft, 0x50)
  if (draft.depth > 1 && dice.chance(0.5))
    return op(draft, 0x90 + dice.int(Math.min(draft.depth - 1, 16)))
  op(draft, 0x80 + dice.int(Math.min(draft.depth, 16)))
}

function logged(draft: Draft, { dice }: Surroundings) {
  const topics = dice.int(5)
  for (let left = topics; left > 0; left--) operand(draft, dice)
  push(draft, length(dice))
  push(draft, offset(dice))
  op(draft, 0xa0 + topics)
}

/**
 * Writes a jump over some pieces, which is sometimes conditional, and sometimes goes to an invalid
 * target.
 */
function branch(draft: Draft, around: Surroundings) {
  const { dice } = around
  const isConditional = dice.chance(0.7)
  if (isConditional) operand(draft, dice)
  if (dice.chance(0.08)) {
    push(draft, dice.chance(0.5) ? BigInt(dice.int(draft.code.length + 4)) : word(dice))
    return op(draft, isConditional ? 0x57 : 0x56)
  }
  push(draft, 0n, 2)
  const at = draft.code.length - 2
  op(draft, isConditional ? 0x57 : 0x56)
  const { depth } = draft
  if (!isConditional && dice.chance(0.3)) draft.code.push(0x60) // the target lies in data
  for (let left = 1 + dice.int(2); left > 0; left--) piece(draft, around)
  level(draft, depth)
  patch(draft, at, draft.code.length)
  op(draft, 0x5b)
}

function loop(draft: Draft, around: Surroundings) {
  const { dice } = around
  push(draft, BigInt(1 + dice.int(6)))
  const start = draft.code.length
  op(draft, 0x5b)
  const { depth } = draft
  for (let left = 1 + dice.int(2); left > 0; left--) arithmeticOrMemory(draft, around)
  level(draft, depth)
  push(draft, 1n)
  op(draft, 0x90, 0x03, 0x80)
  push(draft, BigInt(start), 2)
  op(draft, 0x57)
  if (dice.chance(0.7)) op(draft, 0x50)
}

function arithmeticOrMemory(draft: Draft, around: Surroundings): void {
  around.dice.pick([arithmetic, arithmetic, memory, storage])(draft, around)
}

/** Writes code that no compiler writes. */
function wild(draft: Draft, { dice }: Surroundings) {
  switch (dice.int(5)) {
    case 0:
      return op(draft, dice.int(256))
    case 4:
      return fill(draft, dice)
    case 1: {
      // The loop fills the stack up to its limit.
      const start = draft.code.length
      op(draft, 0x5b)
      push(draft, 0n)
      push(draft, BigInt(start), 2)
      return op(draft, 0x56)
    }
    case 2:
      push(draft, callGas(dice))
      push(draft, wei(dice))
      return op(draft, 0x0a)
    default:
      while (draft.depth > 0) op(draft, 0x50)
      return op(draft, dice.pick([0x01, 0x50, 0x52, 0x80, 0x90, 0xf1, 0x57]))
  }
}

/** Fills the stack up to its limit, or just beyond. */
function fill(draft: Draft, dice: Dice) {
  const words = 1_021 + dice.int(4)
  while (draft.depth < words) op(draft, 0x5f)
  for (let left = dice.int(3); left > 0; left--) op(draft, dice.pick([0x30, 0x5a, 0x5f, 0x80]))
  for (let left = 3; left > 0; left--) op(draft, dice.pick([0x01, 0x50]))
  if (dice.chance(0.6)) op(draft, 0x00)
}

/** Writes the end of a program; most programs return the values of the stack. */
function ending(draft: Draft, dice: Dice) {
  const kind = dice.int(20)
  if (kind === 0) return op(draft, 0x00)
  if (kind === 1) return
  if (kind === 2) return op(draft, 0xfe)
  const count = Math.min(draft.depth, 4)
  for (let index = 0; index < count; index++) {
    push(draft, BigInt(32 * index))
    op(draft, 0x52)
  }
  const isWild = dice.chance(0.08)
  if (isWild) push(draft, length(dice))
  else if (dice.chance(0.2)) op(draft, 0x59)
  else push(draft, BigInt(32 * count))
  push(draft, isWild ? offset(dice) : 0n)
  op(draft, kind < 6 ? 0xfd : 0xf3)
}
