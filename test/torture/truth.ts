/**
 * Plain rules for the content of blocks. The writes of a flashblock follow from the run's seed, the
 * block's salt and the index alone. Every value names its writer. A reader finds the last writer of
 * a key by going back block by block. The rules share no code with the product that they check.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { EMPTY_HASH, keccak256 } from '../../engine/primitives/keccak.ts'
import { encodeAccount } from '../../engine/state/account-codec.ts'
import type { AccountState } from '../../engine/state/diff.ts'
import { blockOf, FINAL_STEP, GENESIS, MAX_STEPS, type SharedLedger } from './ledger.ts'

export const ACCOUNTS = 48
export const SLOTS = 4
/** Every account is written or removed, with all its slots, in one of so many blocks. */
const PERIOD = 24
const RANDOM_WRITES = 5
/** Half of the other writes and half of the questions concern these few accounts. */
const HOT = 6

/** The change that one flashblock makes to one account. */
export type Write = {
  readonly salt: number
  readonly height: number
  readonly step: number
  /** `slots` changes slots alone, and only of an existing account. `remove` zeroes every slot. */
  readonly kind: 'set' | 'slots' | 'remove'
  /** Bits of the written slots, and of those among them that become zero. */
  readonly slots: number
  readonly zeros: number
  /** 0: no code; 1 to 3: code that other accounts have as well; 4: its own code. */
  readonly code: number
}

/** A block after a step; FINAL_STEP: at its end. */
export type Point = { readonly salt: number; readonly step: number }

/** Chooses an account, often one of a few. */
export const hotAccount = (bits: number): number =>
  (bits >>> 24) % 2 === 0 ? bits % HOT : bits % ACCOUNTS

export const addressOf = (account: number): Bytes =>
  keccak256(Uint8Array.of(0xac, account)).slice(12)
export const slotOf = (slot: number): Bytes => new Uint8Array(32).fill(slot + 1)
export const ADDRESSES = Array.from({ length: ACCOUNTS }, (_, at) => addressOf(at))
export const SLOT_KEYS = Array.from({ length: SLOTS }, (_, at) => slotOf(at))

/** Derives 32 random bits from four numbers. */
export function mix(a: number, b: number, c: number, d: number): number {
  let h = a | 0
  for (const part of [b, c, d]) {
    h = Math.imul(h ^ part, 0xcc9e2d51)
    h = (h << 15) | (h >>> 17)
    h = (Math.imul(h, 5) + 0x1b873593) | 0
  }
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

export type Truth = {
  readonly ledger: SharedLedger
  writes(salt: number, step: number): ReadonlyMap<number, Write>
  /** Returns the write that set the account; undefined: the account is absent. */
  account(point: Point, account: number): Write | undefined
  /** Returns the write that set the slot; undefined: the slot is zero. */
  slot(point: Point, account: number, slot: number): Write | undefined
}

const REMEMBERED = 4096

export function openTruth(ledger: SharedLedger): Truth {
  const known = new Map<number, ReadonlyMap<number, Write>>()
  const writes = (salt: number, step: number) => {
    const key = salt * MAX_STEPS + step
    const found = known.get(key)
    if (found !== undefined) return found
    if (known.size >= REMEMBERED) known.clear()
    const made = writesOf(ledger, salt, step)
    known.set(key, made)
    return made
  }
  /** Lists the writes to an account up to a point, newest first. */
  function* writesTo({ salt, step }: Point, account: number): Generator<Write> {
    let at = blockOf(ledger, salt)
    let from = step === FINAL_STEP ? at.steps - 1 : step
    while (at.salt !== GENESIS) {
      for (let each = from; each >= 0; each--) {
        const write = writes(at.salt, each).get(account)
        if (write !== undefined) yield write
      }
      at = blockOf(ledger, at.parent)
      from = at.steps - 1
    }
  }
  function account(point: Point, of: number): Write | undefined {
    for (const write of writesTo(point, of))
      if (write.kind !== 'slots') return write.kind === 'set' ? write : undefined
    return undefined
  }
  function slot(point: Point, of: number, which: number): Write | undefined {
    const bit = 1 << which
    for (const write of writesTo(point, of)) {
      if (write.kind === 'remove') return undefined
      if ((write.slots & bit) === 0) continue
      // An absent account has no slots: its removal zeroed them, and this write had no effect.
      if (write.kind === 'slots' && account(write, of) === undefined) return undefined
      return (write.zeros & bit) === 0 ? write : undefined
    }
    return undefined
  }
  return { ledger, writes, account, slot }
}

function writesOf(ledger: SharedLedger, salt: number, step: number): ReadonlyMap<number, Write> {
  const { height } = blockOf(ledger, salt)
  const writes = new Map<number, Write>()
  if (salt === GENESIS) return writes
  const random = (what: number) => mix(ledger.seed, salt * MAX_STEPS + step, what, height)
  const all = (1 << SLOTS) - 1
  if (step === 0)
    for (let account = height % PERIOD; account < ACCOUNTS; account += PERIOD) {
      const bits = random(100 + account)
      const kind = bits % 4 === 0 ? 'remove' : 'set'
      const [zeros, code] = [(bits >>> 8) & (bits >>> 16) & all, (bits >>> 20) % 5]
      writes.set(account, { salt, height, step, kind, slots: all, zeros, code })
    }
  for (let n = 0; n < RANDOM_WRITES; n++) {
    const bits = random(n)
    const account = hotAccount(bits)
    if (writes.has(account)) continue
    const kind = (['set', 'set', 'slots', 'remove'] as const)[(bits >>> 8) & 3]!
    const more = random(50 + n)
    const [slots, zeros, code] = [more & all, (more >>> 8) & (more >>> 16) & all, (more >>> 20) % 5]
    writes.set(account, { salt, height, step, kind, slots, zeros, code })
  }
  return writes
}

/** Returns the account after the write. */
export function accountOf(write: Write, account: number): AccountState {
  const { salt, height, step } = write
  return {
    nonce: BigInt(salt * MAX_STEPS + step),
    balance:
      (BigInt(height) << 96n) | (BigInt(account) << 64n) | BigInt(mix(salt, step, account, 1)),
    codeHash: codeHashOf(write, account),
  }
}
/** The encoding has 72 bytes. */
export const accountBytes = (write: Write, account: number): Bytes =>
  encodeAccount(accountOf(write, account))

/** The value has 32 bytes and is never zero. */
export function slotBytes({ salt, height, step }: Write, account: number, slot: number): Bytes {
  const sum = mix(salt, step, account, slot)
  const words = [0x51070000 | slot, salt, height, step, account, slot, sum, ~sum]
  return new Uint8Array(Int32Array.from(words).buffer)
}

export function codeOf({ salt, step, code }: Write, account: number): Bytes {
  if (code === 0) return new Uint8Array(0)
  if (code < 4) return new Uint8Array(700 * code).fill(code)
  const own = new Int32Array(8 + (mix(salt, step, account, 2) % 100))
  for (let at = 0; at < own.length; at++) own[at] = mix(salt, step, account, at)
  return new Uint8Array(own.buffer)
}

const codeHashOf = (write: Write, account: number): Bytes =>
  write.code === 0 ? EMPTY_HASH : keccak256(codeOf(write, account))

/** Names the writer of a value, for messages. */
export const writerOfAccount = (bytes: Bytes): string => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const nonce = Number(view.getBigUint64(0))
  const [height, account] = [view.getUint32(24), view.getUint32(28)]
  return `account ${account} of block ${height} (${Math.floor(nonce / MAX_STEPS)}.${nonce % MAX_STEPS})`
}
export const writerOfSlot = (bytes: Bytes): string => {
  const words = new Int32Array(bytes.slice().buffer)
  return `slot ${words[5]} of account ${words[4]} of block ${words[2]} (${words[1]}.${words[3]})`
}
