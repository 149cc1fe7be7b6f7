/** How a front offers records to the threads that read for it: words in shared memory, since a front may be a thread of its own. */

/** [record, 0: none; ADOPTED or REFUSED; how far the reader is]. */
export type Offer = Int32Array<SharedArrayBuffer>
export type Loan = () => 'waiting' | 'taken' | 'gone'
/** Offers a record to one of its readers; undefined: it is not free. */
export type Lend = (record: number, index: number) => Loan | undefined

const [RECORD, ANSWER, PROGRESS] = [0, 1, 2] as const
const [ADOPTED, REFUSED] = [1, 2] as const
const [READING, ENDING] = [1, 2] as const

export const createOffer = (): Offer => new Int32Array(new SharedArrayBuffer(12))
export const isReading = (offer: Offer): boolean => Atomics.load(offer, PROGRESS) >= READING
/** It has begun. */
export function tellReading(offer: Offer): void {
  Atomics.compareExchange(offer, PROGRESS, 0, READING)
}
/** Before the thread is ended: what it says from here on means nothing, its calls return before they are done. */
export function tellEnding(offer: Offer): void {
  Atomics.store(offer, PROGRESS, ENDING)
}

export function lendTo(offer: Offer, record: number): Loan | undefined {
  const isEnding = () => Atomics.load(offer, PROGRESS) === ENDING
  if (!isReading(offer) || isEnding() || Atomics.load(offer, RECORD) !== 0) return undefined
  Atomics.store(offer, ANSWER, 0)
  Atomics.store(offer, RECORD, record)
  return () => {
    const isWaiting = Atomics.load(offer, RECORD) !== 0
    const isAdopted = Atomics.load(offer, ANSWER) === ADOPTED
    // Looked at last: an answer of a thread that is being ended is none.
    if (isEnding()) return 'taken'
    if (isWaiting) return 'waiting'
    return isAdopted ? 'taken' : 'gone'
  }
}

/** Of the reader: takes over what it is offered. */
export function takeOver(offer: Offer, adopt: (record: number) => boolean): void {
  const record = Atomics.load(offer, RECORD)
  if (record === 0) return
  Atomics.store(offer, ANSWER, adopt(record) ? ADOPTED : REFUSED)
  Atomics.store(offer, RECORD, 0)
}
