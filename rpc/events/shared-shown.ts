/** The same in memory that several fronts share: a client's next request may be on another of them. */
import {
  bytesOfRows,
  FIRST_WORD,
  forgetRows,
  HEAD_BYTES,
  openLockOf,
  type RowShape,
  SharedRows,
  seed,
  seedsOf,
} from '../seam/shared-rows.ts'
import { newestNamed, type ShownLimits, type ShownNotes } from './shown-notes.ts'

/** Plain data: crosses a thread. */
export type ShownMemory = ShownLimits & { readonly buffer: SharedArrayBuffer }

/** Words of a row: a height in two, how many accounts follow, the next of them to be written over; then of each account its address and a height. */
const HEIGHT = FIRST_WORD
const [COUNT, NEXT] = [FIRST_WORD + 2, FIRST_WORD + 3] as const
const ACCOUNTS = FIRST_WORD + 4
const ADDRESS_WORDS = 5
const ADDRESS_DIGITS = 8 * ADDRESS_WORDS
const ACCOUNT_WORDS = ADDRESS_WORDS + 2

const shapeOf = ({ shownClients, shownAddresses }: ShownLimits): RowShape => ({
  most: shownClients,
  rowWords: ACCOUNTS + ACCOUNT_WORDS * shownAddresses,
})

/** 1.8 kB for each client by default, of addresses; of the machine's memory what was in use at once. */
export function createShownMemory(limits: ShownLimits): ShownMemory {
  const { shownClients, shownAddresses } = limits
  const buffer = new SharedArrayBuffer(HEAD_BYTES + bytesOfRows(shapeOf(limits)))
  seed(seedsOf(buffer))
  return { shownClients, shownAddresses, buffer }
}

/** @param thread names this one, for `clearShown`; from 1 */
export function openSharedShown(memory: ShownMemory, thread: number): ShownNotes {
  const rows = new ShownRows(memory, thread)
  let canonical = 0n
  let sweptAt = -1n
  const alone = <T>(work: () => T): T => {
    rows.lock()
    try {
      return work()
    } finally {
      rows.unlock()
    }
  }
  return {
    note(client, height, addresses) {
      alone(() => {
        // Once for each canonical block: where all are still of concern nobody else has room.
        if (rows.isFull && sweptAt !== canonical) {
          rows.sweep(canonical)
          sweptAt = canonical
        }
        const known = rows.find(client)
        if (known === undefined && rows.isFull) return
        const row = known ?? rows.add(client)
        if (height > rows.height(row)) rows.setHeight(row, height)
        for (const address of addresses) rows.noteAccount(row, address, height)
      })
    },
    height(client) {
      // Without the lock: what was noted before an answer went out is seen by whoever asks after it.
      if (rows.isEmpty) return undefined
      const height = alone(() => {
        const row = rows.find(client)
        return row === undefined ? 0n : rows.height(row)
      })
      return height > canonical ? height : undefined
    },
    named(client, text) {
      const accounts = alone(() => {
        const row = rows.find(client)
        return row === undefined ? [] : rows.accounts(row)
      })
      return newestNamed(accounts, text)
    },
    forget(now) {
      canonical = now
    },
    get isEmpty() {
      return rows.isEmpty
    },
  }
}

/** After the exit of a thread. Had it been ended inside, everything is forgotten: reads do not wait for what their clients were shown before. */
export const clearShown = ({ buffer }: ShownMemory, thread: number): boolean =>
  openLockOf(buffer, thread, () => forgetRows(buffer))

class ShownRows extends SharedRows {
  readonly #most: number

  constructor(memory: ShownMemory, thread: number) {
    super(memory.buffer, shapeOf(memory), { thread, rowsAt: HEAD_BYTES })
    this.#most = memory.shownAddresses
  }

  get isEmpty(): boolean {
    return this.size === 0
  }
  height(row: number): bigint {
    return this.#heightAt(this.rowWords * row + HEIGHT)
  }
  setHeight(row: number, height: bigint): void {
    this.#setHeightAt(this.rowWords * row + HEIGHT, height)
  }
  accounts(row: number): [address: string, height: bigint][] {
    const found: [string, bigint][] = []
    const first = this.rowWords * row + ACCOUNTS
    for (let index = 0; index < this.#count(row); index++) {
      const at = first + ACCOUNT_WORDS * index
      found.push([this.#addressAt(at), this.#heightAt(at + ADDRESS_WORDS)])
    }
    return found
  }
  noteAccount(row: number, address: string, height: bigint): void {
    if (this.#most === 0) return
    const { words } = this
    const start = this.rowWords * row
    const count = this.#count(row)
    let index = this.#indexOf(row, address)
    if (index < 0) {
      index = count < this.#most ? count : words[start + NEXT]!
      if (count < this.#most) words[start + COUNT] = count + 1
      else words[start + NEXT] = (index + 1) % this.#most
      this.#setAddressAt(start + ACCOUNTS + ACCOUNT_WORDS * index, address)
    }
    this.#setHeightAt(start + ACCOUNTS + ACCOUNT_WORDS * index + ADDRESS_WORDS, height)
  }
  /** Frees the rows of clients that were shown nothing above this height. */
  sweep(canonical: bigint): void {
    this.rebuild((row) => {
      const isInUse = this.height(row) > canonical
      // A free row is looked at again by the next sweep.
      if (!isInUse) this.setHeight(row, 0n)
      return isInUse
    })
  }

  #count(row: number): number {
    return this.words[this.rowWords * row + COUNT]!
  }
  #indexOf(row: number, address: string): number {
    const { words } = this
    const first = this.rowWords * row + ACCOUNTS
    const wanted = wordOf(address, 0)
    for (let index = 0; index < this.#count(row); index++) {
      const at = first + ACCOUNT_WORDS * index
      if (words[at] === wanted && this.#addressAt(at) === address) return index
    }
    return -1
  }
  #addressAt(at: number): string {
    let text = ''
    for (let word = 0; word < ADDRESS_WORDS; word++)
      text += (this.words[at + word]! >>> 0).toString(16).padStart(8, '0')
    return text
  }
  #setAddressAt(at: number, address: string): void {
    for (let word = 0; word < ADDRESS_WORDS; word++) this.words[at + word] = wordOf(address, word)
  }
  #heightAt(at: number): bigint {
    return (BigInt(this.words[at + 1]!) << 32n) | BigInt(this.words[at]! >>> 0)
  }
  #setHeightAt(at: number, height: bigint): void {
    this.words[at] = Number(height & 0xffff_ffffn) | 0
    this.words[at + 1] = Number(height >> 32n) | 0
  }
}

/** @param address 40 hex digits */
function wordOf(address: string, word: number): number {
  if (address.length !== ADDRESS_DIGITS) throw new Error(`an address of ${address.length} digits`)
  return Number.parseInt(address.slice(8 * word, 8 * word + 8), 16) | 0
}
