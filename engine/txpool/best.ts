/**
 * Chooses transactions for a flashblock: nonce order within a sender, best tip first across
 * senders, oldest first among equals.
 */
import { nextWaiting, type Sender } from './sender.ts'
import { type Entry, effectiveTip, type Wanted } from './types.ts'

export type Chosen = {
  /** In order of execution. */
  readonly entries: readonly Entry[]
  /** Whether further transactions pay enough but do not fit the gas or the count. */
  readonly hasMore: boolean
  /**
   * The best transaction whose gas limit is above `gas` but fits the block. The block reserves gas
   * for it.
   */
  readonly reserved: Entry | undefined
}

/**
 * Chooses by tip within the gas and the count.
 * A transaction that does not fit this flashblock's gas waits. The best-paying one has its gas
 * reserved in the block, so that only better-paying ones can use the gas up.
 * @param refresh called before a sender's first entry is taken; true means that the nonce has moved
 * and the sender is checked again
 */
export function chooseBest(
  senders: Iterable<Sender>,
  wanted: Wanted,
  refresh: (sender: Sender) => boolean,
): Chosen {
  const heap: Candidate[] = []
  const fresh = new Set<Sender>()
  const taken = new Set(wanted.excluded)
  const offer = (sender: Sender) => {
    const entry = nextWaiting(sender, taken)
    if (entry === undefined || (entry.isGasless && !wanted.isGaslessWanted)) return
    const tip = effectiveTip(entry, wanted.baseFee)
    if (tip >= 0n) push(heap, { sender, entry, tip })
  }
  for (const sender of senders) offer(sender)

  const entries: Entry[] = []
  let { gas, blockGas } = wanted
  let reserved: Entry | undefined
  let isFull = false
  while (entries.length < wanted.count && heap.length > 0 && gas > 0n) {
    const { sender, entry } = pop(heap)
    if (!fresh.has(sender)) {
      fresh.add(sender)
      if (refresh(sender)) {
        offer(sender)
        continue
      }
    }
    // Later nonces of this sender have to wait as well.
    const { gasLimit } = entry.transaction
    if (gasLimit > gas) {
      isFull = true
      if (reserved !== undefined || gasLimit > blockGas) continue
      reserved = entry
      gas = min(gas, blockGas - gasLimit)
      continue
    }
    gas -= gasLimit
    blockGas -= gasLimit
    entries.push(entry)
    taken.add(entry.key)
    offer(sender)
  }
  return { entries, hasMore: isFull || heap.length > 0, reserved }
}

const min = (a: bigint, b: bigint) => (a < b ? a : b)

type Candidate = { readonly sender: Sender; readonly entry: Entry; readonly tip: bigint }

const isBefore = (a: Candidate, b: Candidate) =>
  a.tip === b.tip ? a.entry.arrival < b.entry.arrival : a.tip > b.tip

/** Adds an item to a binary heap in an array, whose first item is the best. */
function push(heap: Candidate[], item: Candidate): void {
  let at = heap.length
  heap.push(item)
  while (at > 0) {
    const up = (at - 1) >> 1
    if (!isBefore(item, heap[up]!)) break
    heap[at] = heap[up]!
    at = up
  }
  heap[at] = item
}

function pop(heap: Candidate[]): Candidate {
  const best = heap[0]!
  const item = heap.pop()!
  if (heap.length === 0) return best
  let at = 0
  for (;;) {
    let down = 2 * at + 1
    if (down >= heap.length) break
    if (down + 1 < heap.length && isBefore(heap[down + 1]!, heap[down]!)) down++
    if (!isBefore(heap[down]!, item)) break
    heap[at] = heap[down]!
    at = down
  }
  heap[at] = item
  return best
}
