/** A slot that a leader tells wrong, and who may see it: readers of that slot, until the root of its block says so. */
import type { Hex } from 'viem'
import type { Plant } from '../../apply/plants.ts'
import type { Entry } from './journal.ts'

export type Planted = {
  /** Number and index of the flashblocks that were spoilt. */
  places(): readonly string[]
  /** Blocks of them, each of which is taken back where somebody finds it, and told again. */
  blocks(): readonly number[]
  /** For the message in which it fits; what it has spoilt is noted. */
  plant(token: string): Plant
  /** Where somebody may see a wrong value now. */
  slot(): Hex | undefined
  excuses(slot: string, at: Entry): boolean
  /** Of a block with it, or on it: its root, so its hash, is another one until the canonical block has come. */
  excusesBlock(number: number, asked: number): boolean
}

type Told = {
  readonly snapshot: boolean
  readonly flashblocks: readonly {
    readonly number: number
    readonly index: number
    readonly transactions: readonly unknown[]
    readonly accounts: readonly { readonly address: string; readonly slots: [Hex, string][] }[]
  }[]
}
/** The blocks after it are on it until its root is known. */
const SHOWN_BLOCKS = 2
/** Until the blocks are canonical and executed. */
const CANONICAL_MS = 4_000

export function createPlanted(): Planted {
  const spoilt: {
    readonly slot: Hex
    readonly number: number
    readonly index: number
    readonly at: number
  }[] = []
  return {
    plant: (token) => (text) => {
      const told = JSON.parse(text) as Told
      if (told.snapshot) return undefined
      for (const { number, index, transactions, accounts } of told.flashblocks) {
        if (index === 0 || transactions.length === 0) continue
        const pair = accounts.find(({ address }) => address === token.toLowerCase())?.slots[0]
        if (pair === undefined) continue
        pair[1] = `${pair[1].slice(0, -1)}${pair[1].endsWith('1') ? '2' : '1'}`
        spoilt.push({ slot: pair[0], number, index, at: performance.now() })
        return JSON.stringify(told)
      }
      return undefined
    },
    places: () => spoilt.map(({ number, index }) => `${number}:${index}`),
    blocks: () => [...new Set(spoilt.map(({ number }) => number))],
    slot() {
      const newest = spoilt.at(-1)
      const isYoung = newest !== undefined && performance.now() < newest.at + CANONICAL_MS
      return isYoung ? newest.slot : undefined
    },
    excuses: (slot, at) =>
      spoilt.some(
        (one) =>
          BigInt(one.slot) === BigInt(slot) &&
          at.number >= one.number &&
          at.number <= one.number + SHOWN_BLOCKS,
      ),
    excusesBlock: (number, asked) =>
      spoilt.some(
        (one) =>
          number >= one.number &&
          number <= one.number + SHOWN_BLOCKS &&
          asked <= one.at + CANONICAL_MS,
      ),
  }
}
