/** Which transactions leave a full txpool: far-future nonces first, then the cheapest, the youngest among equals. */
import type { TxpoolLimits } from './limits.ts'
import { executable, lastEntry, type Sender } from './sender.ts'
import { type Entry, effectiveTip } from './types.ts'

export type Candidate = {
  readonly entry: Entry
  /** Nonces from the first missing one to this; 0n: executable. */
  readonly distance: bigint
  readonly tip: bigint
}

/** What `entry`, in the txpool or about to be, is worth at this base fee. */
export function candidate(sender: Sender, entry: Entry, baseFee: bigint): Candidate {
  let next = sender.nonce
  for (const { transaction } of executable(sender)) next = transaction.nonce + 1n
  const ahead = entry.transaction.nonce - next
  return { entry, distance: ahead > 0n ? ahead : 0n, tip: effectiveTip(entry, baseFee) }
}

/** Whether its sender may have one more in the txpool, and one more behind a missing nonce where it stands there. */
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

/** Negative: `a` leaves before `b`. */
export function compareWorst(a: Candidate, b: Candidate): number {
  if (a.distance !== b.distance) return a.distance > b.distance ? -1 : 1
  if (a.tip !== b.tip) return a.tip < b.tip ? -1 : 1
  return b.entry.arrival - a.entry.arrival
}

/** At most `count` entries that are worse than `newcomer`, worst first: only last nonces, so that no sender's order breaks. */
export function victims(
  senders: Iterable<Sender>,
  newcomer: Candidate,
  options: { readonly count: number; readonly baseFee: bigint },
): Entry[] {
  const worse: Candidate[] = []
  for (const sender of senders) {
    const last = lastEntry(sender)
    if (last === undefined || last.place.status !== 'waiting') continue
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
