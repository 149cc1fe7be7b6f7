/**
 * Blocks for the persistence thread as a writer submits them. A fifth of the changed keys are
 * accounts, the rest slots of a hundred contracts.
 */
import type { Bytes } from '../engine/primitives/bytes.ts'
import { EMPTY_HASH } from '../engine/primitives/keccak.ts'
import { ZERO_32 } from '../engine/primitives/words.ts'
import type { AccountChange, SlotChange, StateDiff } from '../engine/state/diff.ts'

const CONTRACTS = 100
const ACCOUNTS_IN_FIVE = 1

/** Existing keys by number, with the number of writes of each; a value contains both. */
export class ChangingState {
  #size = 0
  readonly #writes: Uint16Array
  readonly #random: () => number

  constructor(capacity: number, random: () => number) {
    this.#writes = new Uint16Array(capacity)
    this.#random = random
  }
  get size(): number {
    return this.#size
  }
  grow(count: number): StateDiff {
    const first = this.#size
    this.#size += count
    return this.#change(Array.from({ length: count }, (_, at) => first + at))
  }
  touch(count: number): StateDiff {
    const keys = new Set<number>()
    while (keys.size < count) keys.add(Math.floor(this.#random() * this.#size))
    return this.#change([...keys])
  }

  #change(keys: readonly number[]): StateDiff {
    const contracts = new Map<number, SlotChange[]>()
    const accounts: AccountChange[] = []
    for (const key of keys) {
      const before = this.#writes[key]!
      const after = ++this.#writes[key]!
      if (key % 5 < ACCOUNTS_IN_FIVE) {
        accounts.push({
          address: wordOf(key, 1).subarray(0, 20),
          before: before === 0 ? undefined : accountOf(key, before),
          after: accountOf(key, after),
          slots: [],
          code: undefined,
        })
        continue
      }
      const slots = contracts.get(key % CONTRACTS) ?? []
      contracts.set(key % CONTRACTS, slots)
      slots.push({
        key: wordOf(key, 2),
        before: before === 0 ? ZERO_32 : wordOf(key, before),
        after: wordOf(key, after),
      })
    }
    for (const [contract, slots] of contracts) {
      const account = { nonce: 1n, balance: 0n, codeHash: wordOf(contract, 3) }
      const address = wordOf(contract, 4).subarray(0, 20)
      accounts.push({ address, before: account, after: account, slots, code: undefined })
    }
    return accounts
  }
}

const accountOf = (key: number, writes: number) => ({
  nonce: BigInt(writes),
  balance: BigInt(key) * 10n ** 15n,
  codeHash: EMPTY_HASH,
})

/** Makes 32 pseudorandom bytes from the numbers. */
function wordOf(a: number, b: number): Bytes {
  const word = new Uint8Array(32)
  const view = new DataView(word.buffer)
  let state = Math.imul(a + 1, 0x9e3779b1) ^ Math.imul(b, 0x85ebca6b)
  for (let at = 0; at < 32; at += 4) {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) ^ (a + b)
    view.setUint32(at, state >>> 0)
  }
  view.setUint32(4, a)
  view.setUint32(12, b)
  return word
}
