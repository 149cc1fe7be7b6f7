/** Which transactions were stopped for their time, and what their next try is. */
import { hexToBytes } from '../../primitives/hex.ts'

/**
 * Parts of the quota that a transaction gets, one after the other. Nobody knows before how long one runs: whoever is stopped is tried
 * again behind all that were not, with more time, so that a slow one costs the others little.
 */
export const SLICES = [1 / 8, 1 / 4, 1 / 2, 1] as const
export const LAST = SLICES.length - 1
/** How often a transaction may have nearly all of a flashblock's time and not finish. The last try is as long as its gas is worth. */
export const MAX_TRIES = 3
const LONG = LAST + MAX_TRIES - 1
/** Transactions that were stopped and are remembered, and for how many blocks. */
const MAX_REMEMBERED = 1_000
const STOPPED_BLOCKS = 64n

type Place = { readonly hash: string; readonly sender: string; readonly nonce: bigint }
type Stopped = {
  readonly hash: string
  readonly sender: string
  readonly count: number
  readonly height: bigint
}
export type Stops = ReturnType<typeof createStops>

/** Which transactions were stopped how often, the newest of them; one for each nonce of a sender. */
export function createStops() {
  const stops = new Map<string, Stopped>()
  const placeOf = ({ sender, nonce }: Place) => `${sender} ${nonce}`
  const countOf = (candidate: Place) => {
    const found = stops.get(placeOf(candidate))
    return found?.hash === candidate.hash ? found.count : 0
  }
  return {
    level: (candidate: Place) => Math.min(countOf(candidate), LAST),
    /** The next try is the last one. */
    isLong: (candidate: Place) => countOf(candidate) >= LONG,
    /** Gives the level of the next try. */
    add(candidate: Place, height: bigint, isFarTooLong: boolean): number | 'hopeless' {
      const { hash, sender } = candidate
      const before = countOf(candidate)
      const count = isFarTooLong && before < LONG ? LONG : before + 1
      const place = placeOf(candidate)
      stops.delete(place)
      if (count > LONG) return 'hopeless'
      stops.set(place, { hash, sender, count, height })
      if (stops.size > MAX_REMEMBERED) stops.delete(stops.keys().next().value!)
      return Math.min(count, LAST)
    },
    /** Forgets another transaction with this one's nonce; false: there was none. */
    replace(candidate: Place): boolean {
      const place = placeOf(candidate)
      const found = stops.get(place)
      return found !== undefined && found.hash !== candidate.hash && stops.delete(place)
    },
    delete: (candidate: Place) => stops.delete(placeOf(candidate)),
    forget(number: bigint) {
      for (const [place, { height }] of stops)
        if (height + STOPPED_BLOCKS < number) stops.delete(place)
    },
    levels: () =>
      new Map([...stops.values()].map(({ sender, count }) => [sender, Math.min(count, LAST)])),
    hashes: () => [...stops.values()].map(({ hash }) => hexToBytes(hash)),
  }
}
