/** JSON, well formed or not: values of any length and depth, and random pieces. */
import type { Dice } from './random.ts'
import { lengthOf, type Rope } from './rope.ts'

const BRACKETS = ['{', '}', '[', ']']
const SEPARATORS = [',', ':']
const QUOTED = ['"a"', '""', '"__proto__"', '"é"', '"\\u0041"', '"\\\\"']
/** These names have a meaning for a reader: members of an envelope, and the prefix of hex data. */
const NAMES = ['"id"', '"params"', '"method"', '"0x"', '"0x1"', '"0xab"']
const VALUES = ['0', '1', '-1', '1e9', '1.5', 'true', 'null']
const STRAY = ['"', '\\', ' ', '\n', 'x', '\u0000', 'é', '\\u0041']
/** Strings are made of these pieces. */
const LETTERS = [
  ...['a', 'A', '0', 'ab', '0x', 'Z9_', ' ', '.', '-'],
  ...['\\n', '\\"', '\\\\', '\\/', '\\u0041', '\\u00e9', '\\ud83d\\ude00', '\\ud800'],
  ...['é', '€', '😀', '\u2028', '\u007f', '$&'],
]

function token(dice: Dice): Rope {
  const kind = dice.int(10)
  if (kind < 4) return dice.pick(BRACKETS)
  if (kind < 6) return dice.pick(SEPARATORS)
  if (kind < 8) return [dice.pick(dice.pick([QUOTED, NAMES])), dice.chance(0.6) ? ':' : '']
  return kind === 8 ? dice.pick(VALUES) : dice.pick(STRAY)
}

/** Repeats a few pieces over and over. */
export function litter(dice: Dice, characters: number): Rope {
  const piece = dice.chance(0.5)
    ? Array.from({ length: 1 + dice.int(4) }, () => token(dice))
    : bracketed(dice)
  const length = lengthOf(piece)
  return { of: piece, times: Math.max(1, Math.floor(characters / length)) }
}

/** Makes a bracket or two, mostly closing ones, with the values that may stand beside them. */
function bracketed(dice: Dice): Rope[] {
  const brackets = dice.chance(0.7) ? ['}', ']'] : BRACKETS
  const few = (make: () => Rope) => Array.from({ length: 1 + dice.int(2) }, make)
  const member = (): Rope =>
    dice.pick<Rope>([
      [dice.pick(QUOTED), ':'],
      [dice.pick(NAMES), ':'],
      dice.pick(SEPARATORS),
      dice.pick(VALUES),
    ])
  return [...few(() => dice.pick(brackets)), ...few(member)]
}

/** Makes a JSON string. */
export function stringOf(dice: Dice, characters: number): Rope {
  const piece = dice.chance(0.2) ? [dice.pick(LETTERS), { digits: 6 }] : [dice.pick(LETTERS)]
  const length = piece.length === 2 ? 8 : (piece[0] as string).length
  const start = dice.chance(0.2) ? '0x' : ''
  return ['"', start, { of: piece, times: Math.max(0, Math.floor(characters / length)) }, '"']
}

function numberOf(dice: Dice, characters: number): Rope {
  const digits = {
    of: dice.pick(['1', '9', '0', '12']),
    times: Math.max(1, Math.floor(characters / 2)),
  }
  return dice.pick<Rope>([
    digits,
    ['-', digits],
    ['0.', digits],
    [digits, 'e', dice.pick(['9', '-300', '+308', '99999'])],
    ['1e', digits],
  ])
}

/** Makes any JSON value of about this length. */
export function anyValue(dice: Dice, characters: number, depth = 0): Rope {
  const kind = depth > 4 ? dice.int(4) : dice.int(10)
  if (kind < 2) return stringOf(dice, characters)
  if (kind === 2) return numberOf(dice, Math.min(characters, 2_000))
  if (kind === 3) return dice.pick(VALUES)
  const inner = dice.size(1, Math.max(1, characters))
  const item = anyValue(dice, Math.min(inner, 4_000), depth + 1)
  const times = Math.max(1, Math.floor(characters / (inner + 2)))
  if (kind < 7) return ['[', item, { of: [',', item], times }, ']']
  const key = dice.pick<Rope>([
    ...[
      ['k', { digits: 6 }],
      ['0x', { digits: 40 }],
      ['0x', { digits: 64 }],
    ],
    ...['a', '0x', ['é', { digits: 4 }], ['\\u0061', { digits: 4 }]],
  ])
  return ['{"z":0', { of: [',"', key, '":', item], times }, '}']
}

/** Makes a value that is deep rather than long. */
export function nest(dice: Dice, characters: number): Rope {
  const [open, close] = dice.pick([
    ['[', ']'],
    ['{"a":', '}'],
    ['[{"a":', '}]'],
    ['[1,', ']'],
  ] as const)
  const depth = dice.pick([2, 30, 60, 64, 70, characters])
  const one = [{ of: open, times: depth }, '1', { of: close, times: depth }]
  return depth === characters
    ? one
    : ['[', one, { of: [',', one], times: Math.floor(characters / depth / 8) }, ']']
}
