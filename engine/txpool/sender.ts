/** The transactions of one sender that are not in a block yet, by nonce. */
import type { Bytes } from '../primitives/bytes.ts'
import { type Entry, isReached, type Position } from './types.ts'

export type Sender = {
  readonly address: Bytes
  readonly key: string
  /** Nonce in the pending state at the last read. */
  nonce: bigint
  /** Waiting and selected entries by nonce. */
  readonly entries: Map<bigint, Entry>
}

export const newSender = (entry: Entry, address: Bytes, nonce: bigint): Sender => ({
  address,
  key: entry.sender,
  nonce,
  entries: new Map(),
})

/** Yields consecutive entries from the sender's nonce on, which could be executed in order. */
export function* executable(sender: Sender): Generator<Entry> {
  for (let nonce = sender.nonce; ; nonce++) {
    const entry = sender.entries.get(nonce)
    if (entry === undefined) return
    yield entry
  }
}

/** Number of executable transactions, and of those behind a missing nonce. */
export type Counts = { readonly pending: number; readonly queued: number }
/**
 * Counts the transactions of all senders.
 * @param open number of transactions of both kinds
 */
export function countsOf(senders: Iterable<Sender>, open: number): Counts {
  let pending = 0
  for (const sender of senders) for (const _ of executable(sender)) pending++
  return { pending, queued: open - pending }
}

export function nextWaiting(sender: Sender, excluded: ReadonlySet<string>): Entry | undefined {
  for (const entry of executable(sender))
    if (entry.state.status === 'waiting' && !excluded.has(entry.key)) return entry
  return undefined
}

/** Returns the first nonce from `from` on without an entry. */
export function firstGap(sender: Sender, from: bigint): bigint {
  let nonce = from
  while (sender.entries.has(nonce)) nonce++
  return nonce
}

export function lastEntry(sender: Sender): Entry | undefined {
  let last: Entry | undefined
  for (const entry of sender.entries.values())
    if (last === undefined || entry.transaction.nonce > last.transaction.nonce) last = entry
  return last
}

/**
 * Returns the maximum cost of the sender's entries from `nonce` on, except for the nonce `except`.
 */
export function spending(sender: Sender, nonce: bigint, except: bigint): bigint {
  let sum = 0n
  for (const [at, entry] of sender.entries) if (at >= nonce && at !== except) sum += entry.cost
  return sum
}

/**
 * Makes selected entries wait again when their flashblock is published without them, or after too
 * long.
 * @param of the published position and the time limit; without it, all selected entries wait again,
 * because their chain is gone
 * @returns the senders of these entries
 */
export function takeBackUnused(
  senders: Iterable<Sender>,
  of?: { readonly pending: Position; readonly staleBeforeMs: number },
): Set<Sender> {
  const returned = new Set<Sender>()
  for (const sender of senders)
    for (const entry of sender.entries.values()) {
      const { state } = entry
      if (state.status !== 'selected') continue
      if (of && !isReached(state.target, of.pending) && state.atMs > of.staleBeforeMs) continue
      entry.state = { status: 'waiting' }
      returned.add(sender)
    }
  return returned
}
