/** Transactions that were stopped because of their time, and their next tries. */
import { hexToBytes } from '../../primitives/hex.ts'

/**
 * Parts of the quota for successive tries. A transaction's time is not known before, so a stopped
 * one is tried again after all others, with more time. A slow transaction thus costs the others
 * little.
 */
export const SLICES = [1 / 8, 1 / 4, 1 / 2, 1] as const
export const LAST = SLICES.length - 1
/**
 * Tries with nearly a whole flashblock's time that may fail. The last try is as long as the
 * transaction's gas is worth.
 */
export const MAX_TRIES = 3
const LONG = LAST + MAX_TRIES - 1
/** Limits of remembered transactions, and blocks for which each is remembered. */
const MAX_REMEMBERED = 1_000
const STOPPED_BLOCKS = 64n

type Candidate = { readonly hash: string; readonly sender: string; readonly nonce: bigint }
type Stopped = {
  readonly hash: string
  readonly sender: string
  readonly count: number
  readonly height: bigint
}
export type Stops = ReturnType<typeof createStops>

/** Makes counters of the newest stopped transactions, one for each nonce of a sender. */
export function createStops() {
  const stops = new Map<string, Stopped>()
  const keyOf = ({ sender, nonce }: Candidate) => `${sender} ${nonce}`
  const countOf = (candidate: Candidate) => {
    const found = stops.get(keyOf(candidate))
    return found?.hash === candidate.hash ? found.count : 0
  }
  return {
    level: (candidate: Candidate) => Math.min(countOf(candidate), LAST),
    /** Whether the next try is the last one. */
    isLong: (candidate: Candidate) => countOf(candidate) >= LONG,
    /** Counts a stop, and returns the level of the next try. */
    add(candidate: Candidate, height: bigint, isFarTooLong: boolean): number | 'hopeless' {
      const { hash, sender } = candidate
      const before = countOf(candidate)
      const count = isFarTooLong && before < LONG ? LONG : before + 1
      const key = keyOf(candidate)
      stops.delete(key)
      if (count > LONG) return 'hopeless'
      stops.set(key, { hash, sender, count, height })
      if (stops.size > MAX_REMEMBERED) stops.delete(stops.keys().next().value!)
      return Math.min(count, LAST)
    },
    /** Forgets another transaction with the same nonce; false: there was none. */
    replace(candidate: Candidate): boolean {
      const key = keyOf(candidate)
      const found = stops.get(key)
      return found !== undefined && found.hash !== candidate.hash && stops.delete(key)
    },
    delete: (candidate: Candidate) => stops.delete(keyOf(candidate)),
    forget(number: bigint) {
      for (const [key, { height }] of stops) if (height + STOPPED_BLOCKS < number) stops.delete(key)
    },
    levels: () =>
      new Map([...stops.values()].map(({ sender, count }) => [sender, Math.min(count, LAST)])),
    hashes: () => [...stops.values()].map(({ hash }) => hexToBytes(hash)),
  }
}
