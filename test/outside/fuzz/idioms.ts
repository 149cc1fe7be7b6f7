/**
 * Sequences like those of compilers. A translation fuses each into one step, which may differ from
 * its opcodes.
 */
import type { Dice } from '../cost/random.ts'
import { type Draft, op, patch, push } from './draft.ts'
import { offset, word } from './operands.ts'
import type { Surroundings } from './surroundings.ts'

const [ADD, SUB, EQ, ISZERO, AND, NOT, SHL, SHR] = [0x01, 0x03, 0x14, 0x15, 0x16, 0x19, 0x1b, 0x1c]
const [POP, MLOAD, MSTORE, JUMP, JUMPI, JUMPDEST] = [0x50, 0x51, 0x52, 0x56, 0x57, 0x5b]
const [DUP1, SWAP1] = [0x80, 0x90]

type Idiom = (draft: Draft, dice: Dice) => void
const IDIOMS: readonly Idiom[] = [
  ...[mask, wordWith, smallWith, memoryAt, pushes, dups, swaps, pops, popsAndJump, pushAndJump],
  ...[test, test, selector],
]

export function idiom(draft: Draft, { dice }: Surroundings): void {
  dice.pick(IDIOMS)(draft, dice)
}

/** Ensures at least this many words on the stack. */
function need(draft: Draft, dice: Dice, words: number) {
  while (draft.depth < words) push(draft, word(dice))
}

/** Draws a number of at most 32 bits. */
const small = (dice: Dice): bigint =>
  dice.pick([0n, 1n, 4n, 32n, 0xffn, BigInt(dice.int(70_000)), 0xffffffffn])

/** Writes a jump over `between`, whose effect is visible if it runs. */
function over(draft: Draft, jump: number, between: () => void) {
  const at = draft.code.length + 1
  push(draft, 0n, 2)
  op(draft, jump)
  between()
  patch(draft, at, draft.code.length)
  op(draft, JUMPDEST)
}

/** The idiom computes (1 << n) - 1. */
function mask(draft: Draft, dice: Dice) {
  need(draft, dice, 1)
  push(draft, 1n)
  push(draft, 1n)
  push(draft, BigInt(dice.pick([0, 1, 8, 32, 64, 160, 255, dice.int(256)])), 1)
  op(draft, SHL, SUB)
  if (dice.chance(0.6)) op(draft, AND)
}

function wordWith(draft: Draft, dice: Dice) {
  need(draft, dice, 1)
  push(draft, word(dice))
  op(draft, dice.pick([NOT, AND]))
}

function smallWith(draft: Draft, dice: Dice) {
  need(draft, dice, 1)
  const next = dice.pick([ADD, AND, SHL, SHR, SWAP1])
  const isShift = next === SHL || next === SHR
  push(draft, isShift ? BigInt(dice.pick([0, 1, 8, 63, 64, 224, 255, 256])) : small(dice))
  op(draft, next)
}

function memoryAt(draft: Draft, dice: Dice) {
  const isRead = dice.chance(0.5)
  if (!isRead) need(draft, dice, 1)
  push(draft, offset(dice))
  op(draft, isRead ? MLOAD : MSTORE)
}

function pushes(draft: Draft, dice: Dice) {
  for (let left = 2 + dice.int(3); left > 0; left--) push(draft, small(dice))
}

function dups(draft: Draft, dice: Dice) {
  need(draft, dice, 2)
  const dup = () => op(draft, DUP1 + dice.int(Math.min(draft.depth, 16)))
  dup()
  if (dice.chance(0.4)) dup()
  else op(draft, dice.pick([ADD, AND]))
}

function swaps(draft: Draft, dice: Dice) {
  need(draft, dice, 3)
  const nth = 1 + dice.int(Math.min(draft.depth - 1, 16))
  op(draft, SWAP1 + nth - 1)
  if (nth > 1 && dice.chance(0.6)) op(draft, SWAP1 + nth - 2)
  op(draft, POP)
}

function pops(draft: Draft, dice: Dice) {
  const count = 2 + dice.int(3)
  need(draft, dice, count)
  for (let left = count; left > 0; left--) op(draft, POP)
}

/** The idiom is the return of a function. */
function popsAndJump(draft: Draft, dice: Dice) {
  const at = draft.code.length + 1
  push(draft, 0n, 2)
  const count = dice.int(3)
  for (let left = count; left > 0; left--) push(draft, small(dice))
  for (let left = count; left > 0; left--) op(draft, POP)
  op(draft, JUMP)
  patch(draft, at, draft.code.length)
  op(draft, JUMPDEST)
}

/** The idiom is the call of a function. */
function pushAndJump(draft: Draft, dice: Dice) {
  push(draft, small(dice))
  over(draft, JUMP, () => {})
}

/**
 * The idiom is a comparison, perhaps negated. The code that is jumped over inverts the bits of the
 * top word.
 */
function test(draft: Draft, dice: Dice) {
  need(draft, dice, 3)
  if (dice.chance(0.3)) op(draft, DUP1)
  else push(draft, word(dice))
  const compare = dice.pick([0x10, 0x11, 0x12, 0x13, EQ, ISZERO])
  op(draft, compare)
  if (compare !== ISZERO && dice.chance(0.5)) op(draft, ISZERO)
  over(draft, JUMPI, () => op(draft, NOT))
}

/** The idiom selects the called function of a contract. */
function selector(draft: Draft, dice: Dice) {
  const wanted = small(dice)
  push(draft, dice.chance(0.5) ? wanted : dice.pick([small(dice), wanted | (1n << 64n)]))
  op(draft, DUP1)
  push(draft, wanted)
  op(draft, EQ)
  over(draft, JUMPI, () => op(draft, NOT))
}
