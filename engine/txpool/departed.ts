/** Transactions that left the txpool without a block: what became of them, for whoever asks. */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'

/** `by`: hash of the one with its nonce, where that is known. */
export type Departure =
  | { readonly why: 'replaced'; readonly by: Bytes | undefined }
  | { readonly why: 'dropped'; readonly reason: string }
/** Of one that is in no block: how long it has been waiting, or why it does not any more. */
export type Standing = { readonly why: 'waits'; readonly ms: number } | Departure

export const LEFT = {
  full: { why: 'dropped', reason: 'the txpool was full of better ones' },
  expired: { why: 'dropped', reason: 'it was in no block for too long' },
  unwanted: { why: 'dropped', reason: 'whoever controls the chain has dropped it' },
  /** By whom is for the chain to tell. */
  nonceUsed: { why: 'replaced', by: undefined },
  replacedBy: ({ hash }: { readonly hash: Bytes }): Departure => ({ why: 'replaced', by: hash }),
} as const

export type Departed = {
  add(key: string, departure: Departure): void
  /** Also of one that has come back since. */
  of(key: string): Departure | undefined
}

/**
 * Remembers the newest `departed` of them.
 * @param onDeparted called with the hash of each, when nothing holds it any more
 */
export function createDeparted(
  { departed }: { readonly departed: number },
  onDeparted: (hash: Bytes) => void = () => {},
): Departed {
  const known = new Map<string, Departure>()
  return {
    add(key, departure) {
      known.delete(key)
      known.set(key, departure)
      if (known.size > departed) known.delete(known.keys().next().value!)
      onDeparted(Uint8Array.from(Buffer.from(key, 'latin1')))
    },
    of: (key) => known.get(key),
  }
}

/** Why a transaction that left is in no block. */
export function departureReason(departure: Departure): string {
  if (departure.why === 'dropped') return departure.reason
  return departure.by === undefined
    ? 'another transaction has used its nonce'
    : `it was replaced by ${bytesToHex(departure.by)}`
}
