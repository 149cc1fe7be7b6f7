/**
 * These programs call themselves. The outer frame reads what the inner frame has changed, and
 * perhaps reverted.
 */
import type { Dice } from '../cost/random.ts'
import { creation } from './calls.ts'
import { type Draft, op, patch, push, pushDataOffset } from './draft.ts'
import { hexBytes, slotKey, slotValue } from './operands.ts'
import { addressOf, type Family, type Surroundings } from './surroundings.ts'

const [EQ, ADDRESS, BALANCE, CALLDATASIZE, CODECOPY, EXTCODESIZE, EXTCODEHASH, SELFBALANCE] = [
  0x14, 0x30, 0x31, 0x36, 0x39, 0x3b, 0x3f, 0x47,
]
const [POP, SLOAD, SSTORE, JUMPI, GAS, JUMPDEST] = [0x50, 0x54, 0x55, 0x57, 0x5a, 0x5b]
const [TLOAD, TSTORE, LOG0, CALL, CALLCODE, DELEGATECALL, STATICCALL] = [
  0x5c, 0x5d, 0xa0, 0xf1, 0xf2, 0xf4, 0xfa,
]
const KINDS = [CALL, CALL, CALL, CALLCODE, DELEGATECALL, DELEGATECALL, STATICCALL]

/** The length of the calldata tells the inner frame that it is one. */
const INNER_LENGTH = 1n
/** This transient slot has the address of a contract that destroys itself when it is called. */
const DOOMED_KEY = 7n

/** Writes a complete program. */
export function selfCalling(
  draft: Draft,
  around: Surroundings,
  {
    piece,
    ending,
  }: { readonly piece: Family; readonly ending: (draft: Draft, dice: Dice) => void },
): void {
  const { dice } = around
  op(draft, CALLDATASIZE)
  push(draft, INNER_LENGTH)
  op(draft, EQ)
  const at = draft.code.length + 1
  push(draft, 0n, 2)
  op(draft, JUMPI)
  if (dice.chance(0.5)) makeDoomed(draft, dice)
  for (let rounds = 1 + dice.int(2); rounds > 0; rounds--) {
    for (let left = dice.int(3); left > 0; left--) change(draft, around)
    callSelf(draft, dice)
    for (let left = 1 + dice.int(3); left > 0; left--) inspect(draft, around)
    if (dice.chance(0.3)) piece(draft, around)
  }
  ending(draft, dice)
  patch(draft, at, draft.code.length)
  draft.depth = 0
  op(draft, JUMPDEST)
  for (let left = 1 + dice.int(4); left > 0; left--) change(draft, around)
  innerEnding(draft, around)
}

function innerEnding(draft: Draft, around: Surroundings) {
  const { dice } = around
  const kind = dice.int(20)
  if (kind < 3) return op(draft, 0xfe)
  if (kind < 5) {
    push(draft, addressOf(around))
    return op(draft, 0xff)
  }
  push(draft, BigInt(dice.int(40)))
  push(draft, BigInt(dice.int(40)))
  op(draft, kind < 14 ? 0xfd : 0xf3)
}

function callSelf(draft: Draft, dice: Dice) {
  const kind = dice.pick(KINDS)
  push(draft, BigInt(dice.int(40)))
  push(draft, BigInt(dice.int(40)))
  push(draft, INNER_LENGTH)
  push(draft, 0n)
  if (kind === CALL || kind === CALLCODE) push(draft, dice.chance(0.8) ? 0n : 1n)
  op(draft, ADDRESS)
  if (dice.chance(0.8)) op(draft, GAS)
  else push(draft, BigInt(dice.size(100, 60_000)))
  op(draft, kind)
}

const CHANGES: readonly (readonly [weight: number, write: Family])[] = [
  [6, (draft, { dice }) => store(draft, dice, SSTORE)],
  [6, (draft, { dice }) => store(draft, dice, TSTORE)],
  [3, rewrite],
  [3, callDoomed],
  [2, callWithValue],
  [2, creation],
  [1, logNothing],
  [2, inspect],
]
const CHANGE_WEIGHTS = CHANGES.reduce((sum, [weight]) => sum + weight, 0)

function change(draft: Draft, around: Surroundings) {
  let at = around.dice.int(CHANGE_WEIGHTS)
  for (const [weight, write] of CHANGES) {
    at -= weight
    if (at < 0) return write(draft, around)
  }
}

function store(draft: Draft, dice: Dice, code: number) {
  push(draft, slotValue(dice))
  push(draft, slotKey(dice))
  op(draft, code)
}

/** Changes a slot several times, so that earlier refunds are cancelled. */
function rewrite(draft: Draft, { dice }: Surroundings) {
  const key = slotKey(dice)
  for (let left = 2 + dice.int(2); left > 0; left--) {
    push(draft, slotValue(dice))
    push(draft, key)
    op(draft, SSTORE)
  }
}

function logNothing(draft: Draft) {
  push(draft, 0n)
  push(draft, 0n)
  op(draft, LOG0)
}

function callWithValue(draft: Draft, around: Surroundings) {
  for (let left = 4; left > 0; left--) push(draft, 0n)
  push(draft, around.dice.pick([1n, 1n, 0n]))
  push(draft, addressOf(around))
  push(draft, BigInt(around.dice.pick([0, 2_300, 10_000])))
  op(draft, CALL, POP)
}

function callDoomed(draft: Draft) {
  for (let left = 5; left > 0; left--) push(draft, 0n)
  push(draft, DOOMED_KEY)
  op(draft, TLOAD, GAS, CALL, POP)
}

/**
 * Init code of contracts that destroy themselves: CALLER SELFDESTRUCT. One first counts its calls
 * in its storage; another does it only for an odd gas price.
 */
const DOOMED_BY_PRICE = hexBytes('6a 3a600116600857005b33ff 5f 52 600b 6015 f3')
const DOOMED = [
  DOOMED_BY_PRICE,
  DOOMED_BY_PRICE,
  hexBytes('61 33ff 5f 52 6002 601e f3'),
  hexBytes('68 5f54600101 5f55 33ff 5f 52 6009 6017 f3'),
  hexBytes('6001 5f 55 61 33ff 5f 52 6002 601e f3'),
]

function makeDoomed(draft: Draft, dice: Dice) {
  const init = dice.pick(DOOMED)
  push(draft, BigInt(init.length))
  pushDataOffset(draft, init)
  push(draft, 0n)
  op(draft, CODECOPY)
  const isSalted = dice.chance(0.6)
  if (isSalted) push(draft, 0n)
  push(draft, BigInt(init.length))
  push(draft, 0n)
  push(draft, dice.chance(0.7) ? 0n : 1n)
  op(draft, isSalted ? 0xf5 : 0xf0)
  push(draft, DOOMED_KEY)
  op(draft, TSTORE)
}

function inspect(draft: Draft, around: Surroundings) {
  const { dice } = around
  switch (dice.int(8)) {
    case 0:
    case 1:
    case 2:
      push(draft, slotKey(dice))
      return op(draft, TLOAD)
    case 3:
    case 4:
      push(draft, slotKey(dice))
      return op(draft, SLOAD)
    case 5:
      push(draft, DOOMED_KEY)
      return op(draft, TLOAD, dice.pick([BALANCE, EXTCODESIZE, EXTCODEHASH]))
    case 6:
      push(draft, addressOf(around))
      return op(draft, dice.pick([BALANCE, EXTCODESIZE, EXTCODEHASH]))
    default:
      return op(draft, dice.pick([SELFBALANCE, GAS]))
  }
}
