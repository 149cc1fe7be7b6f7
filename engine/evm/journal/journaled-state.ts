/**
 * Accounts and slots of one session: the reader's values with the session's changes over them.
 * Positions in the undo log stay valid across calls, transactions and flashblocks.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { EMPTY_HASH, keccak256 } from '../../primitives/keccak.ts'
import { equalBytes, ZERO_32 } from '../../primitives/words.ts'
import { decodeAccount } from '../../state/account-codec.ts'
import type { AccountState, StateDiff } from '../../state/diff.ts'
import { ACCOUNT_WORDS, MissingError, SLOT_WORDS, type StateReader } from '../../state/reader.ts'
import { bytesOf, fromLatin1, latin1, wordsOf } from '../../state/words.ts'
import type { CodeCache } from '../code-cache.ts'
import type { Entry, Slot, Undo } from './entries.ts'
import { netChange } from './net-change.ts'

export class JournaledState {
  readonly #codes: CodeCache
  /** Before EIP-161 a touched account that is empty is not deleted. */
  readonly #keepsEmpty: boolean
  /** Addresses of the precompiled contracts. */
  readonly #alwaysWarm: ReadonlySet<string>
  #reader: StateReader
  #entries = new Map<string, Entry>()
  #journal: Undo[] = []
  #touched: Entry[] = []
  /**
   * Maps an address to its warm slots; separate from the entries, so that warming reads no state.
   */
  #warm = new Map<string, Set<string>>()
  /** Increases only, so that a mark of a reverted transaction never counts again. */
  #transaction = 1
  readonly #accountWords = new Uint32Array(ACCOUNT_WORDS)
  readonly #slotWords = new Uint32Array(SLOT_WORDS)

  constructor(
    reader: StateReader,
    options: {
      readonly codes: CodeCache
      readonly keepsEmpty: boolean
      readonly alwaysWarm: ReadonlySet<string>
    },
  ) {
    this.#reader = reader
    this.#alwaysWarm = options.alwaysWarm
    this.#codes = options.codes
    this.#keepsEmpty = options.keepsEmpty
  }

  get reader(): StateReader {
    return this.#reader
  }

  /** Switches to another state and drops all entries and the journal. */
  reopen(reader: StateReader): void {
    this.#reader = reader
    this.#entries = new Map()
    this.#journal = []
    this.startTransaction()
  }

  /** @throws {MissingError} {ViewError} */
  entry(address: Bytes): Entry {
    const key = latin1(address)
    const known = this.#entries.get(key)
    if (known !== undefined) return known
    const own = address.slice()
    const presence = this.#reader.account(wordsOf(own), this.#accountWords, 0)
    if (presence === 'missing') throw new MissingError({ kind: 'account', address: own })
    const base = presence === 'present' ? decodeAccount(bytesOf(this.#accountWords)) : undefined
    const entry: Entry = {
      address: own,
      base,
      isThere: base !== undefined,
      nonce: base?.nonce ?? 0n,
      balance: base?.balance ?? 0n,
      codeHash: base?.codeHash ?? EMPTY_HASH,
      code: undefined,
      slots: new Map(),
      isCleared: false,
      touched: 0,
      destroyed: 0,
    }
    this.#entries.set(key, entry)
    return entry
  }

  code(entry: Entry): Bytes {
    if (entry.code !== undefined) return entry.code
    entry.code = isEmptyHash(entry.codeHash) ? NO_BYTES : this.#loadCode(entry.codeHash)
    return entry.code
  }

  slot(entry: Entry, key: Bytes): Slot {
    const name = latin1(key)
    const known = entry.slots.get(name)
    if (known !== undefined) return known
    const own = key.slice()
    // An account that the reader does not have has no slots in the reader.
    const base = entry.base === undefined ? ZERO_32 : this.#readSlot(entry.address, own)
    const value = entry.isCleared ? ZERO_32 : base
    const slot = {
      key: own,
      base,
      value,
      original: value,
      originalOf: 0,
      isFromCleared: entry.isCleared,
    }
    entry.slots.set(name, slot)
    return slot
  }

  /** The value before the current transaction. */
  original(slot: Slot): Bytes {
    return slot.originalOf === this.#transaction ? slot.original : slot.value
  }

  /** Sets nonce and balance, and creates the account if it does not exist. */
  setAccount(entry: Entry, nonce: bigint, balance: bigint): void {
    this.touch(entry)
    if (entry.isThere && entry.nonce === nonce && entry.balance === balance) return
    this.#append(entry)
    entry.isThere = true
    entry.nonce = nonce
    entry.balance = balance
  }

  setCode(entry: Entry, code: Bytes): void {
    this.touch(entry)
    this.#append(entry)
    entry.isThere = true
    entry.codeHash = code.length === 0 ? EMPTY_HASH : keccak256(code)
    entry.code = code
  }

  /** @param value 32 bytes that the caller does not change afterwards */
  setSlot(entry: Entry, slot: Slot, value: Bytes): void {
    if (slot.originalOf !== this.#transaction) {
      slot.original = slot.value
      slot.originalOf = this.#transaction
    }
    this.#journal.push({ kind: 'slot', entry, slot, was: slot.value })
    slot.value = value
  }

  /**
   * Sets every slot to zero. Only `diff` lists the reader's slots, because there may be millions
   * and a call needs no diff.
   */
  clearStorage(entry: Entry): void {
    if (entry.base !== undefined && !entry.isCleared) {
      this.#journal.push({ kind: 'cleared', entry })
      entry.isCleared = true
    }
    for (const slot of entry.slots.values())
      if (!equalBytes(slot.value, ZERO_32)) this.setSlot(entry, slot, ZERO_32)
  }

  hasStorage(entry: Entry): boolean {
    for (const slot of entry.slots.values()) if (!equalBytes(slot.value, ZERO_32)) return true
    if (entry.base === undefined || entry.isCleared) return false
    // The reader's result describes the start of the block. Slots emptied since do not matter,
    // because only the account's own code can empty them.
    return this.#reader.hasSlots(wordsOf(entry.address))
  }

  isWarm(address: Bytes): boolean {
    const key = latin1(address)
    return this.#warm.has(key) || this.#alwaysWarm.has(key)
  }

  warm(address: Bytes): Set<string> {
    const key = latin1(address)
    const known = this.#warm.get(key)
    if (known !== undefined) return known
    const slots = new Set<string>()
    this.#journal.push({ kind: 'warm', among: this.#warm, key })
    this.#warm.set(key, slots)
    return slots
  }

  isWarmSlot(address: Bytes, key: Bytes): boolean {
    return this.#warm.get(latin1(address))?.has(latin1(key)) ?? false
  }

  /** Warms a slot and its address. */
  warmSlot(address: Bytes, key: Bytes): void {
    const slots = this.warm(address)
    const name = latin1(key)
    if (slots.has(name)) return
    this.#journal.push({ kind: 'warm', among: slots, key: name })
    slots.add(name)
  }

  touch(entry: Entry): void {
    if (entry.touched === this.#transaction) return
    this.#mark(entry, 'touched')
    this.#touched.push(entry)
  }

  /** Marks the account for deletion at the end of the transaction. */
  destroy(entry: Entry): void {
    this.touch(entry)
    this.#mark(entry, 'destroyed')
  }

  /**
   * Warm addresses and slots of the transaction. Precompiled contracts are included only if one of
   * their slots is warm.
   */
  accessed(): { readonly address: Bytes; readonly storageKeys: readonly Bytes[] }[] {
    const named = [...this.#warm].filter(
      ([address, slots]) => slots.size > 0 || !this.#alwaysWarm.has(address),
    )
    return named.map(([address, slots]) => ({
      address: fromLatin1(address),
      storageKeys: [...slots].map(fromLatin1),
    }))
  }

  startTransaction(): void {
    this.#transaction++
    this.#touched = []
    this.#warm = new Map()
  }

  endTransaction(): void {
    for (const entry of this.#touched) {
      if (entry.touched !== this.#transaction) continue
      if (entry.destroyed === this.#transaction) this.#delete(entry)
      else if (!this.#keepsEmpty && entry.isThere && isEmpty(entry)) this.#delete(entry)
    }
    this.#touched = []
  }

  checkpoint(): number {
    return this.#journal.length
  }

  /**
   * @throws {RangeError} if the journal is shorter, because the checkpoint is of another state or
   * already reverted
   */
  revert(checkpoint: number): void {
    if (checkpoint > this.#journal.length)
      throw new RangeError(`no checkpoint ${checkpoint}, the journal ends at ${this.checkpoint()}`)
    while (this.#journal.length > checkpoint) undo(this.#journal.pop()!)
  }

  diff(since: number): StateDiff {
    return netChange(this.#journal, since, (address) => this.#reader.slots(wordsOf(address)))
  }

  #delete(entry: Entry): void {
    this.clearStorage(entry)
    this.#append(entry)
    entry.isThere = false
    entry.nonce = 0n
    entry.balance = 0n
    entry.codeHash = EMPTY_HASH
    entry.code = undefined
  }

  #append(entry: Entry): void {
    const { isThere, nonce, balance, codeHash, code } = entry
    this.#journal.push({ kind: 'account', entry, was: { isThere, nonce, balance, codeHash, code } })
  }

  #mark(entry: Entry, mark: 'touched' | 'destroyed'): void {
    if (entry[mark] === this.#transaction) return
    this.#journal.push({ kind: 'mark', on: entry, mark, was: entry[mark] })
    entry[mark] = this.#transaction
  }

  #loadCode(hash: Bytes): Bytes {
    const known = this.#codes.get(hash)
    if (known !== undefined) return known
    const code = this.#reader.code(hash)
    if (code === 'missing') throw new MissingError({ kind: 'code', hash })
    this.#codes.set(hash, code)
    return code
  }

  #readSlot(address: Bytes, key: Bytes): Bytes {
    const presence = this.#reader.slot(wordsOf(address), wordsOf(key), this.#slotWords, 0)
    if (presence === 'present') return bytesOf(this.#slotWords).slice()
    if (presence === 'missing') throw new MissingError({ kind: 'slot', address, key })
    return ZERO_32
  }
}

/** True if nonce, balance and code are empty (EIP-161). */
export const isEmpty = (account: AccountState): boolean =>
  account.nonce === 0n && account.balance === 0n && isEmptyHash(account.codeHash)

export const isEmptyHash = (hash: Bytes): boolean =>
  hash === EMPTY_HASH || equalBytes(hash, EMPTY_HASH)

function undo(change: Undo): void {
  switch (change.kind) {
    case 'account':
      Object.assign(change.entry, change.was)
      break
    case 'slot':
      change.slot.value = change.was
      break
    case 'cleared':
      change.entry.isCleared = false
      // These slots are zero only because of the clearing, so the next access reads them again.
      for (const [name, { isFromCleared }] of change.entry.slots)
        if (isFromCleared) change.entry.slots.delete(name)
      break
    case 'mark':
      change.on[change.mark] = change.was
      break
    case 'warm':
      change.among.delete(change.key)
      break
  }
}
