/** One sender's transactions that are not in a block yet, by nonce. */
import type { Bytes } from '../primitives/bytes.ts'
import { type Entry, isReached, type Position } from './types.ts'

export type Sender = {
  readonly address: Bytes
  readonly key: string
  /** Nonce in the pending state, as last seen. */
  nonce: bigint
  /** Waiting and handed out. */
  readonly entries: Map<bigint, Entry>
}

/** A sender without entries, for one that is about to come. */
export const newSender = (entry: Entry, address: Bytes, nonce: bigint): Sender => ({
  address,
  key: entry.sender,
  nonce,
  entries: new Map(),
})

/** Entries that follow each other from the sender's nonce: what could be executed in order. */
export function* executable(sender: Sender): Generator<Entry> {
  for (let nonce = sender.nonce; ; nonce++) {
    const entry = sender.entries.get(nonce)
    if (entry === undefined) return
    yield entry
  }
}

/** Executable ones, and those behind a missing nonce. */
export type Counts = { readonly pending: number; readonly queued: number }
/** @param open of all of them together */
export function countsOf(senders: Iterable<Sender>, open: number): Counts {
  let pending = 0
  for (const sender of senders) for (const _ of executable(sender)) pending++
  return { pending, queued: open - pending }
}

/** First executable entry that is waiting and not excluded. */
export function nextWaiting(sender: Sender, excluded: ReadonlySet<string>): Entry | undefined {
  for (const entry of executable(sender))
    if (entry.place.status === 'waiting' && !excluded.has(entry.key)) return entry
  return undefined
}

/** First nonce from `from` on that no entry has. */
export function firstGap(sender: Sender, from: bigint): bigint {
  let nonce = from
  while (sender.entries.has(nonce)) nonce++
  return nonce
}

/** The entry with the highest nonce. */
export function lastEntry(sender: Sender): Entry | undefined {
  let last: Entry | undefined
  for (const entry of sender.entries.values())
    if (last === undefined || entry.transaction.nonce > last.transaction.nonce) last = entry
  return last
}

/** Sum of what the sender's entries from `nonce` on can cost, without that of `except`. */
export function spending(sender: Sender, nonce: bigint, except: bigint): bigint {
  let sum = 0n
  for (const [at, entry] of sender.entries) if (at >= nonce && at !== except) sum += entry.cost
  return sum
}

/**
 * What was handed out for flashblocks up to `pending`, or too long ago, and is in none: it waits again. Gives whose it is. @param of left
 * out: whatever was handed out, for flashblocks of a chain that is gone
 */
export function takeBackUnused(
  senders: Iterable<Sender>,
  of?: { readonly pending: Position; readonly handedBeforeMs: number },
): Set<Sender> {
  const returned = new Set<Sender>()
  for (const sender of senders)
    for (const entry of sender.entries.values()) {
      const { place } = entry
      if (place.status !== 'handed') continue
      if (of && !isReached(place.target, of.pending) && place.atMs > of.handedBeforeMs) continue
      entry.place = { status: 'waiting' }
      returned.add(sender)
    }
  return returned
}
