/**
 * Seen accounts in memory that several fronts share, because a client's next request may reach
 * another front.
 */
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
} from '../limiter/shared-rows.ts'
import { newestNamed, type SeenAccounts, type SeenLimits } from './seen-accounts.ts'

/** Plain data that can be sent to a thread. */
export type SeenMemory = SeenLimits & { readonly buffer: SharedArrayBuffer }

/**
 * Word offsets of a row: height (two words), number of accounts, and index of the next account to
 * overwrite. Each account follows with its address and height.
 */
const HEIGHT = FIRST_WORD
const [COUNT, NEXT] = [FIRST_WORD + 2, FIRST_WORD + 3] as const
const ACCOUNTS = FIRST_WORD + 4
const ADDRESS_WORDS = 5
const ADDRESS_DIGITS = 8 * ADDRESS_WORDS
const ACCOUNT_WORDS = ADDRESS_WORDS + 2

const shapeOf = ({ shownClients, shownAddresses }: SeenLimits): RowShape => ({
  max: shownClients,
  rowWords: ACCOUNTS + ACCOUNT_WORDS * shownAddresses,
})

/**
 * Creates the shared memory: 1.8 kB per client by default, mostly addresses. The machine provides
 * only the pages in use.
 */
export function createSeenMemory(limits: SeenLimits): SeenMemory {
  const { shownClients, shownAddresses } = limits
  const buffer = new SharedArrayBuffer(HEAD_BYTES + bytesOfRows(shapeOf(limits)))
  seed(seedsOf(buffer))
  return { shownClients, shownAddresses, buffer }
}

/**
 * Opens the accounts for a thread.
 * @param thread number of this thread, from 1, for `clearSeen`
 */
export function openSharedSeen(memory: SeenMemory, thread: number): SeenAccounts {
  const rows = new SeenRows(memory, thread)
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
    record(client, height, addresses) {
      alone(() => {
        // A full table is swept once per canonical block. If all clients are still current, a new
        // one is not recorded.
        if (rows.isFull && sweptAt !== canonical) {
          rows.sweep(canonical)
          sweptAt = canonical
        }
        const known = rows.find(client)
        if (known === undefined && rows.isFull) return
        const row = known ?? rows.add(client)
        if (height > rows.height(row)) rows.setHeight(row, height)
        for (const address of addresses) rows.recordAccount(row, address, height)
      })
    },
    height(client) {
      // The check needs no lock, because a receipt is recorded before its response is sent.
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

/**
 * Frees the lock of an ended thread. An interrupted change clears all accounts, so reads then do
 * not wait for earlier receipts.
 * @returns whether the thread had the lock
 */
export const clearSeen = ({ buffer }: SeenMemory, thread: number): boolean =>
  openLockOf(buffer, thread, () => forgetRows(buffer))

class SeenRows extends SharedRows {
  readonly #max: number

  constructor(memory: SeenMemory, thread: number) {
    super(memory.buffer, shapeOf(memory), { thread, rowsAt: HEAD_BYTES })
    this.#max = memory.shownAddresses
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
  recordAccount(row: number, address: string, height: bigint): void {
    if (this.#max === 0) return
    const { words } = this
    const start = this.rowWords * row
    const count = this.#count(row)
    let index = this.#indexOf(row, address)
    if (index < 0) {
      index = count < this.#max ? count : words[start + NEXT]!
      if (count < this.#max) words[start + COUNT] = count + 1
      else words[start + NEXT] = (index + 1) % this.#max
      this.#setAddressAt(start + ACCOUNTS + ACCOUNT_WORDS * index, address)
    }
    this.#setHeightAt(start + ACCOUNTS + ACCOUNT_WORDS * index + ADDRESS_WORDS, height)
  }
  /** Frees the rows of clients without a receipt above this height. */
  sweep(canonical: bigint): void {
    this.rebuild((row) => {
      const isInUse = this.height(row) > canonical
      // The next sweep checks a free row again, so its height is cleared.
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
