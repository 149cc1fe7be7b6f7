/** Interface through which execution and RPC read the world state at one block or flashblock. */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'

/** `missing`: a lazily fetched source does not have the value yet. */
export type Presence = 'present' | 'absent' | 'missing'

/**
 * Sizes in 32-bit words that contain the bytes in order, on machines of either byte order.
 * An encoded account has 72 bytes: nonce (8) ‖ balance (32) ‖ code hash (32), all big-endian. An
 * encoded slot has 32 bytes.
 */
export const ACCOUNT_WORDS = 18
export const SLOT_WORDS = 8
export const ADDRESS_WORDS = 5
export const SLOT_KEY_WORDS = 8

/**
 * One pinned state; reads are synchronous and allocate nothing on a hit.
 * An account without nonce, balance and code is `absent`, as is a slot of zero. Addresses and keys
 * are passed as 32-bit words.
 * @throws {ViewError} when the state is gone (view recycled, chain unwound, history pruned)
 */
export interface StateReader {
  account(address: Uint32Array, out: Uint32Array, at: number): Presence
  slot(address: Uint32Array, key: Uint32Array, out: Uint32Array, at: number): Presence
  /** Returns code by its hash (32 bytes). The empty hash gives empty code. */
  code(hash: Bytes): Bytes | 'missing'
  /**
   * Returns the hash of an ancestor block for BLOCKHASH; undefined when the number is not on this
   * chain.
   */
  blockHash(number: bigint): Bytes | undefined | 'missing'
  /**
   * Returns whether an account without code and nonce has storage; such an account cannot be
   * created (EIP-7610).
   */
  hasSlots(address: Uint32Array): boolean
  /**
   * Yields every slot of an account that is not zero, for wiping its storage (state override, or
   * self-destruct before Cancun).
   */
  slots(address: Uint32Array): Iterable<{ readonly key: Bytes; readonly value: Bytes }>
}

/**
 * A view that can no longer answer. The caller takes a newer view and starts again, or reports
 * pruned history.
 */
export class ViewError extends Error {
  override name = 'ViewError'
  readonly reason: 'void' | 'gone' | 'pruned'
  /** First block that is available; undefined: the first whose state is retained. */
  readonly oldest: bigint | undefined
  constructor(reason: 'void' | 'gone' | 'pruned', message: string, oldest?: bigint) {
    super(message)
    this.reason = reason
    this.oldest = oldest
  }
}

export type RetainedFlashblockId = {
  readonly number: bigint
  readonly index: number
  /** 0x + 16 hex digits. */
  readonly payloadId: string
}
/** The requested flashblock is not retained any more, or another payload has replaced it. */
export class FlashblockUnavailableError extends ViewError {
  override name = 'FlashblockUnavailableError'
  readonly why: 'gone' | 'replaced'
  /** The first and the last available flashblock; undefined: no flashblock is retained. */
  readonly retained:
    | { readonly oldest: RetainedFlashblockId; readonly newest: RetainedFlashblockId }
    | undefined
  constructor(
    why: FlashblockUnavailableError['why'],
    message: string,
    retained: FlashblockUnavailableError['retained'],
  ) {
    super('pruned', message)
    this.why = why
    this.retained = retained
  }
}

/** A key that was read and that a lazily fetched source does not have yet. */
export type MissingKey =
  | { readonly kind: 'account'; readonly address: Bytes }
  | { readonly kind: 'slot'; readonly address: Bytes; readonly key: Bytes }
  | { readonly kind: 'code'; readonly hash: Bytes }
  | { readonly kind: 'blockHash'; readonly number: bigint }

/** A read met a `missing` value. The caller fetches the keys and runs again. */
export class MissingError extends Error {
  override name = 'MissingError'
  /**
   * Description of the first key: "account 0x…", "slot 0x… of 0x…", "code 0x…", "hash of block 5".
   */
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
