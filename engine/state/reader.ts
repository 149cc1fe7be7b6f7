/** What execution and RPC see of the world state: one block's (or flashblock's) accounts, slots and code. */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'

/** `missing`: a lazily fetched source does not have it yet. */
export type Presence = 'present' | 'absent' | 'missing'

/**
 * Encoded account: 72 bytes, nonce (8) ‖ balance (32) ‖ code hash (32), all big-endian. Encoded slot: 32 bytes. Both are
 * handed over as 32-bit words that hold those bytes in order (the byte order of the machine never changes them).
 */
export const ACCOUNT_WORDS = 18
export const SLOT_WORDS = 8
export const ADDRESS_WORDS = 5
export const SLOT_KEY_WORDS = 8

/**
 * One pinned state: synchronous, allocates nothing on a hit. An account without nonce, balance and code is `absent`; a slot that
 * holds zero is `absent`. Addresses and keys are their bytes seen as 32-bit words.
 * @throws {ViewError} when the state behind it is gone (view recycled, chain unfolded, history pruned).
 */
export interface StateReader {
  account(address: Uint32Array, out: Uint32Array, at: number): Presence
  slot(address: Uint32Array, key: Uint32Array, out: Uint32Array, at: number): Presence
  /** Code by its hash (32 bytes). The empty hash gives empty code. */
  code(hash: Bytes): Bytes | 'missing'
  /** Hash of an ancestor block by number, for BLOCKHASH; undefined when it is not on this chain. */
  blockHash(number: bigint): Bytes | undefined | 'missing'
  /** Whether an account without code and nonce holds storage all the same: it cannot be created then (EIP-7610). */
  hasSlots(address: Uint32Array): boolean
  /** Every slot of an account that is not zero, for wiping its storage (self-destruct of a contract before Cancun, state override). */
  slots(address: Uint32Array): Iterable<{ readonly key: Bytes; readonly value: Bytes }>
}

/** A view that can no longer answer: the caller takes a newer one and starts again, or reports pruned history. */
export class ViewError extends Error {
  override name = 'ViewError'
  readonly reason: 'void' | 'gone' | 'pruned'
  /** First block that could have been asked for; undefined: the first whose state is kept. */
  readonly oldest: bigint | undefined
  constructor(reason: 'void' | 'gone' | 'pruned', message: string, oldest?: bigint) {
    super(message)
    this.reason = reason
    this.oldest = oldest
  }
}

/** The place of a flashblock that is held. */
export type HeldPlace = {
  readonly number: bigint
  readonly index: number
  /** 0x + 16 hex digits. */
  readonly payloadId: string
}
/** A flashblock that was asked for is not held any more, or another payload has its place. */
export class PlaceError extends ViewError {
  override name = 'PlaceError'
  readonly why: 'gone' | 'replaced'
  /** The first and the last that could have been asked for; undefined: no flashblock is held. */
  readonly held: { readonly oldest: HeldPlace; readonly newest: HeldPlace } | undefined
  constructor(why: PlaceError['why'], message: string, held: PlaceError['held']) {
    super('pruned', message)
    this.why = why
    this.held = held
  }
}

/** What a read asked for and a lazily fetched source does not have yet. */
export type MissingKey =
  | { readonly kind: 'account'; readonly address: Bytes }
  | { readonly kind: 'slot'; readonly address: Bytes; readonly key: Bytes }
  | { readonly kind: 'code'; readonly hash: Bytes }
  | { readonly kind: 'blockHash'; readonly number: bigint }

/** A read met `missing`: fetch it, then run again. */
export class MissingError extends Error {
  override name = 'MissingError'
  /** The first of the keys: "account 0x…", "slot 0x… of 0x…", "code 0x…", "hash of block 5". */
  readonly what: string
  readonly missing: readonly [MissingKey, ...MissingKey[]]
  constructor(...missing: readonly [MissingKey, ...MissingKey[]]) {
    const what = describeMissing(missing[0])
    super(`state is not at hand: ${what}`)
    this.what = what
    this.missing = missing
  }
}

export function describeMissing(missing: MissingKey): string {
  switch (missing.kind) {
    case 'account':
      return `account ${bytesToHex(missing.address)}`
    case 'slot':
      return `slot ${bytesToHex(missing.key)} of ${bytesToHex(missing.address)}`
    case 'code':
      return `code ${bytesToHex(missing.hash)}`
    case 'blockHash':
      return `hash of block ${missing.number}`
  }
}
