/** A queue with constant cost at both ends. An array's `shift` moves all remaining items. */

export interface Fifo<T> {
  readonly length: number
  readonly first: T | undefined
  push(item: T): void
  /** Adds an item at the front. */
  unshift(item: T): void
  shift(): T | undefined
  /** Removes and returns the newest item. */
  pop(): T | undefined
  /** Returns the item that has `newer` items after it. */
  before(newer: number): T | undefined
  /** Removes and returns the items that match. */
  remove(isGone: (item: T) => boolean): readonly T[]
  some(is: (item: T) => boolean): boolean
}

/** Number of read entries from which the array is compacted, if they are at least half of it. */
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
      // Clears the reference for the garbage collector.
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
