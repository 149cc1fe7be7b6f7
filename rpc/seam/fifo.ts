/** A queue whose ends cost the same however long it is: an array's `shift` moves all that is left. */

export interface Fifo<T> {
  readonly length: number
  readonly first: T | undefined
  push(item: T): void
  /** Before all others. */
  unshift(item: T): void
  shift(): T | undefined
  /** Takes the newest. */
  pop(): T | undefined
  /** The one that so many have come after. */
  before(newer: number): T | undefined
  /** Takes out those that the predicate names. */
  remove(isGone: (item: T) => boolean): readonly T[]
  some(is: (item: T) => boolean): boolean
}

/** Slots that have been read are given up when there are this many, and no fewer than are left. */
const COMPACT = 64

export function createFifo<T>(): Fifo<T> {
  let items: (T | undefined)[] = []
  let head = 0
  const waiting = () => items.slice(head) as T[]
  return {
    get length() {
      return items.length - head
    },
    get first() {
      return items[head]
    },
    push: (item) => void items.push(item),
    unshift(item) {
      if (head > 0) items[--head] = item
      else items.unshift(item)
    },
    shift() {
      if (head === items.length) return undefined
      const item = items[head]
      // Nobody holds it any longer.
      items[head++] = undefined
      if (head >= COMPACT && head * 2 >= items.length) {
        items = items.slice(head)
        head = 0
      }
      return item
    },
    pop: () => (head === items.length ? undefined : items.pop()),
    before: (newer) => (items.length - newer > head ? items[items.length - 1 - newer] : undefined),
    remove(isGone) {
      const gone: T[] = []
      const left: T[] = []
      for (const item of waiting()) (isGone(item) ? gone : left).push(item)
      if (gone.length === 0) return gone
      items = left
      head = 0
      return gone
    },
    some: (is) => waiting().some(is),
  }
}
