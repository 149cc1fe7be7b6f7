/**
 * Fronts offer snapshots to their readers. They use words in shared memory, because a front may be
 * a thread of its own.
 */

/** [offered snapshot, 0: none; ADOPTED or REFUSED; progress of the reader]. */
export type Offer = Int32Array<SharedArrayBuffer>
export type Loan = () => 'waiting' | 'taken' | 'gone'
/** Offers a snapshot to one of the readers; undefined: that reader is not free. */
export type Lend = (snapshot: number, index: number) => Loan | undefined

const [SNAPSHOT, RESPONSE, PROGRESS] = [0, 1, 2] as const
const [ADOPTED, REFUSED] = [1, 2] as const
const [READING, ENDING] = [1, 2] as const

export const createOffer = (): Offer => new Int32Array(new SharedArrayBuffer(12))
export const isReading = (offer: Offer): boolean => Atomics.load(offer, PROGRESS) >= READING
/** Notes that the reader has started. */
export function markReading(offer: Offer): void {
  Atomics.compareExchange(offer, PROGRESS, 0, READING)
}
/**
 * Called before the thread is terminated. Later responses count as nothing, because its calls can
 * return early.
 */
export function markEnding(offer: Offer): void {
  Atomics.store(offer, PROGRESS, ENDING)
}

export function lendTo(offer: Offer, snapshot: number): Loan | undefined {
  const isEnding = () => Atomics.load(offer, PROGRESS) === ENDING
  if (!isReading(offer) || isEnding() || Atomics.load(offer, SNAPSHOT) !== 0) return undefined
  Atomics.store(offer, RESPONSE, 0)
  Atomics.store(offer, SNAPSHOT, snapshot)
  return () => {
    const isWaiting = Atomics.load(offer, SNAPSHOT) !== 0
    const isAdopted = Atomics.load(offer, RESPONSE) === ADOPTED
    // The end is read last, because a response of a terminated thread does not count.
    if (isEnding()) return 'taken'
    if (isWaiting) return 'waiting'
    return isAdopted ? 'taken' : 'gone'
  }
}

/** The reader adopts an offered snapshot. */
export function takeOver(offer: Offer, adopt: (snapshot: number) => boolean): void {
  const snapshot = Atomics.load(offer, SNAPSHOT)
  if (snapshot === 0) return
  Atomics.store(offer, RESPONSE, adopt(snapshot) ? ADOPTED : REFUSED)
  Atomics.store(offer, SNAPSHOT, 0)
}
