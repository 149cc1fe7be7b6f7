/** Reads a whole world through a state reader and compares it with the plain one. */
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { equalBytes } from '../../../engine/primitives/words.ts'
import { encodeAccount } from '../../../engine/state/account-codec.ts'
import {
  ACCOUNT_WORDS,
  type Presence,
  SLOT_WORDS,
  type StateReader,
} from '../../../engine/state/reader.ts'
import { bytesOf, wordsOf } from '../../../engine/state/words.ts'
import { ADDRESSES, accountOf, codeOf, SLOTS, type World } from '../../fixtures/view-blocks.ts'
import type { Random } from './blocks.ts'

const ADDRESS_WORDS = ADDRESSES.map((address) => wordsOf(address))
const KEY_WORDS = SLOTS.map((slot) => wordsOf(slot))
const CODES = [0, 1, 2, 3].map((number) => {
  const code = codeOf(number)
  return { code, hash: keccak256(code) }
})

/**
 * Describes the first value that differs. The accounts are read in order, from a random one.
 * @throws {ViewError}
 */
export function differenceOf(state: StateReader, world: World, random: Random): string | undefined {
  const first = random(world.length)
  for (let n = 0; n < world.length; n++) {
    const at = (first + n) % world.length
    const difference = accountDifference(state, at, world[at]!)
    if (difference !== undefined) return difference
  }
  return undefined
}

function accountDifference(
  state: StateReader,
  at: number,
  account: World[number],
): string | undefined {
  const wanted = wantedOf(account)
  out.fill(0)
  const presence = state.account(ADDRESS_WORDS[at]!, out, 0)
  if (!isEqual(presence, wanted.account)) return `account ${at} is ${textOf(presence)}`
  if (account.value !== 0) {
    const { code, hash } = CODES[account.code]!
    const found = state.code(hash)
    if (found === 'missing' || !equalBytes(found, code)) return `code ${account.code} of ${at}`
  }
  for (let slot = 0; slot < KEY_WORDS.length; slot++) {
    out.fill(0)
    const found = state.slot(ADDRESS_WORDS[at]!, KEY_WORDS[slot]!, out, 0)
    if (!isEqual(found, wanted.slots[slot]))
      return `slot ${slot} of account ${at} is ${textOf(found)}, expected ${account.slots[slot]}`
  }
  return undefined
}

/**
 * Reads the values of the slots from the listing of an account, in the order of the slots.
 * @throws {ViewError}
 */
export function slotsOf(state: StateReader, account: number): string {
  const values = SLOTS.map(() => 0)
  for (const { key, value } of state.slots(ADDRESS_WORDS[account]!)) {
    const slot = SLOTS.findIndex((each) => equalBytes(each, key))
    values[slot] = Buffer.from(value).readUIntBE(26, 6)
  }
  return values.join()
}

const out = new Uint32Array(ACCOUNT_WORDS)
const textOf = (presence: Presence) =>
  presence === 'present'
    ? `0x${Buffer.from(bytesOf(out)).toString('hex').replace(/^0+/, '').slice(0, 24)}`
    : presence

function isEqual(presence: Presence, wanted: Uint32Array | undefined): boolean {
  if (wanted === undefined || presence !== 'present') return presence === 'absent' && !wanted
  for (let i = 0; i < wanted.length; i++) if (out[i] !== wanted[i]) return false
  return true
}

type Wanted = {
  readonly account: Uint32Array | undefined
  readonly slots: readonly (Uint32Array | undefined)[]
}
/** Cached by account, because worlds share the accounts that do not change between them. */
const known = new WeakMap<World[number], Wanted>()
function wantedOf(account: World[number]): Wanted {
  const found = known.get(account)
  if (found !== undefined) return found
  const state = accountOf(account)
  const wanted = {
    account: state && wordsOf(encodeAccount(state)),
    slots: account.slots.map((value) => (value === 0 ? undefined : slotWords(value))),
  }
  known.set(account, wanted)
  return wanted
}
function slotWords(value: number): Uint32Array {
  const bytes = Buffer.alloc(SLOT_WORDS * 4)
  bytes.writeUIntBE(value, 26, 6)
  return wordsOf(bytes)
}
