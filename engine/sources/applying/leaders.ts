/** Who tells what, how soon, and whom nobody believes any more. */
import type { DiffPlace } from './types.ts'

type Leader = {
  isConnected: boolean
  isDropped: boolean
  /** Flashblocks in a row that were waited for in vain. */
  misses: number
  /** What it has told last. */
  newest: Pick<DiffPlace, 'number' | 'index'> | undefined
}

/** In vain in a row: from then on nothing waits for a leader until it is in time again. */
export const MOST_MISSES = 3

export class Leaders {
  readonly #known = new Map<number, Leader>()

  connected(leader: number, isConnected: boolean): void {
    const one = this.#of(leader)
    one.isConnected = isConnected
    if (!isConnected) return
    one.misses = 0
    one.newest = undefined
  }

  told(leader: number, { number, index }: DiffPlace): void {
    this.#of(leader).newest = { number, index }
  }

  inTime(leader: number): void {
    this.#of(leader).misses = 0
  }

  /** Whoever might have told it has not. */
  missed(): void {
    for (const one of this.#known.values()) if (isWaitedFor(one)) one.misses++
  }

  /** False: it was dropped before. */
  drop(leader: number): boolean {
    const one = this.#of(leader)
    const isNew = !one.isDropped
    one.isDropped = true
    return isNew
  }

  isDropped(leader: number): boolean {
    return this.#known.get(leader)?.isDropped === true
  }

  /** Whether what comes is taken from somebody. */
  get isLed(): boolean {
    return [...this.#known.values()].some(isWaitedFor)
  }

  /** Whether a diff that is not there may still come: a leader tells in the order of its chain. */
  mayCome(place: DiffPlace): boolean {
    const isAhead = ({ newest }: Leader) =>
      newest !== undefined &&
      (newest.number > place.number ||
        (newest.number === place.number && newest.index > place.index))
    return [...this.#known.values()].some((one) => isWaitedFor(one) && !isAhead(one))
  }

  counts(): { readonly connected: number; readonly dropped: number } {
    const all = [...this.#known.values()]
    return {
      connected: all.filter(({ isConnected, isDropped }) => isConnected && !isDropped).length,
      dropped: all.filter(({ isDropped }) => isDropped).length,
    }
  }

  #of(leader: number): Leader {
    const known = this.#known.get(leader)
    if (known !== undefined) return known
    const one = { isConnected: false, isDropped: false, misses: 0, newest: undefined }
    this.#known.set(leader, one)
    return one
  }
}

const isWaitedFor = ({ isConnected, isDropped, misses }: Leader): boolean =>
  isConnected && !isDropped && misses < MOST_MISSES
