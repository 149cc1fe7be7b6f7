/** Remembers why transactions left the txpool without a block, for status requests. */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'

/** Reason of a departure. `by`: hash of the transaction with the nonce, if known. */
export type Departure =
  | { readonly why: 'replaced'; readonly by: Bytes | undefined }
  | { readonly why: 'dropped'; readonly reason: string }
/** Status of a transaction without a block: the waiting time, or the reason for its departure. */
export type Standing = { readonly why: 'waits'; readonly ms: number } | Departure

export const LEFT = {
  full: { why: 'dropped', reason: 'the txpool was full of better ones' },
  expired: { why: 'dropped', reason: 'it was in no block for too long' },
  unwanted: { why: 'dropped', reason: 'whoever controls the chain has dropped it' },
  /** The chain knows the transaction that used the nonce. */
  nonceUsed: { why: 'replaced', by: undefined },
  replacedBy: ({ hash }: { readonly hash: Bytes }): Departure => ({ why: 'replaced', by: hash }),
} as const

export type Departed = {
  add(key: string, departure: Departure): void
  /** Returns the departure, also for a transaction that has come back since. */
  of(key: string): Departure | undefined
}

/**
 * Remembers the newest `departed` departures.
 * @param onDeparted called with the hash of each when nothing retains the transaction any more
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

export function departureReason(departure: Departure): string {
  if (departure.why === 'dropped') return departure.reason
  return departure.by === undefined
    ? 'another transaction has used its nonce'
    : `it was replaced by ${bytesToHex(departure.by)}`
}
