/**
 * Chooses the transactions that leave the txpool. A full txpool loses far-future nonces first, then
 * the cheapest, the youngest among equals. Entries also leave in a deep enough block, beyond the
 * bytes for settled ones, or too long without a block.
 */
import type { TxpoolLimits } from './limits.ts'
import { executable, lastEntry, type Sender } from './sender.ts'
import { type Entry, effectiveTip } from './types.ts'

export type Candidate = {
  readonly entry: Entry
  /** Distance from the first missing nonce; 0n: executable. */
  readonly distance: bigint
  readonly tip: bigint
}

/** Rates an entry, in the txpool or about to be added, at this base fee. */
export function candidate(sender: Sender, entry: Entry, baseFee: bigint): Candidate {
  let next = sender.nonce
  for (const { transaction } of executable(sender)) next = transaction.nonce + 1n
  const nonceGap = entry.transaction.nonce - next
  return { entry, distance: nonceGap > 0n ? nonceGap : 0n, tip: effectiveTip(entry, baseFee) }
}

/**
 * Returns whether the sender may have one more transaction, and one more behind a missing nonce if
 * that applies.
 */
export function hasShare(
  sender: Sender,
  { entry, distance }: Candidate,
  { perSender, blobsPerSender, queuedPerSender }: TxpoolLimits,
): boolean {
  const { size } = sender.entries
  if (size >= (entry.transaction.type === 3 ? blobsPerSender : perSender)) return false
  if (distance === 0n) return true
  let executables = 0
  for (const _ of executable(sender)) executables++
  return size - executables < queuedPerSender
}

/** Orders by worth; a negative result means that `a` leaves before `b`. */
export function compareWorst(a: Candidate, b: Candidate): number {
  if (a.distance !== b.distance) return a.distance > b.distance ? -1 : 1
  if (a.tip !== b.tip) return a.tip < b.tip ? -1 : 1
  return b.entry.arrival - a.entry.arrival
}

/**
 * Returns at most `count` entries that are worse than `newcomer`, worst first. Only each sender's
 * last nonce counts, so that no order breaks.
 */
export function victims(
  senders: Iterable<Sender>,
  newcomer: Candidate,
  options: { readonly count: number; readonly baseFee: bigint },
): Entry[] {
  const worse: Candidate[] = []
  for (const sender of senders) {
    const last = lastEntry(sender)
    if (last === undefined || last.state.status !== 'waiting') continue
    // A sender does not lose a nonce to a later one of its own.
    if (
      last.sender === newcomer.entry.sender &&
      last.transaction.nonce < newcomer.entry.transaction.nonce
    )
      continue
    const found = candidate(sender, last, options.baseFee)
    if (compareWorst(found, newcomer) < 0) worse.push(found)
  }
  return worse
    .sort(compareWorst)
    .slice(0, options.count)
    .map(({ entry }) => entry)
}

/**
 * Returns the entries to forget.
 * @param entries oldest first
 * @param at `canonical` is the newest final block that the txpool knows
 */
export function outdated(
  entries: readonly Entry[],
  at: { readonly canonical: number; readonly nowMs: number; readonly limits: TxpoolLimits },
): Entry[] {
  const { canonical, nowMs, limits } = at
  let settledBytes = 0
  for (const { state, transaction } of entries)
    if (state.status === 'included' && state.blockNumber <= canonical)
      settledBytes += transaction.raw.length
  return entries.filter(({ state, transaction, addedAtMs }) => {
    if (state.status !== 'included')
      return state.status === 'waiting' && nowMs - addedAtMs > limits.expiryMs
    const isSettled = state.blockNumber <= canonical
    const isOld = state.blockNumber + limits.retentionBlocks < canonical
    if (!isOld && !(isSettled && settledBytes > limits.includedBytes)) return false
    settledBytes -= transaction.raw.length
    return true
  })
}
