/**
 * A feed of random histories emits each flashblock once and in order, however late it reads.
 * Removed flashblocks are emitted newest first.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { ChainReader, Endpoint } from '../../../engine/chain/types.ts'
import { readNewest } from '../../../engine/chain/view-reads.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { createViews, persistenceWords } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import {
  EmittedFlashblocks,
  type FlashblockEvent,
} from '../../../rpc/events/emitted-flashblocks.ts'
import type { Flashblock } from '../../../rpc/events/flashblock.ts'
import { mapStore } from '../../fixtures/map-store.ts'
import { EMPTY_WORLD } from '../../fixtures/view-blocks.ts'
import { plainChain } from '../../fixtures/view-chain.ts'
import { type Built, Driver } from '../../fixtures/view-driver.ts'

const PAGE = 2048
const GENESIS = 1000

function openWorld(pages: number) {
  const bytes = pages * PAGE
  const views = createViews({ bytes, threads: 1, seed: 99, pageBytes: PAGE, cacheEntries: 64 })
  const store = mapStore({ world: EMPTY_WORLD, number: GENESIS })
  store.attach(persistenceWords(views))
  const chain = plainChain(GENESIS)
  const publisher = openPublisher(views, { number: GENESIS, hash: chain.genesisHash })
  const driver = new Driver(publisher, store, EMPTY_WORLD)
  return { driver, reader: openChainReader({ views, store, chain, thread: 0 }) }
}

/** Lists the transactions of the chain up to a head, oldest first; each is unique. */
function transactionsOf(top: Built): string[] {
  const blocks: Built[] = []
  for (let at: Built | undefined = top; at !== undefined; at = at.parent) blocks.unshift(at)
  return blocks.flatMap(({ steps }) =>
    steps.at(-1)!.executed.map(({ transaction }) => bytesToHex(transaction.hash)),
  )
}

/** Makes a client that trusts every event. */
function listener(reader: ChainReader, endpoint: Endpoint) {
  const emitted = new EmittedFlashblocks()
  const known: string[] = []
  const flashblocks: { readonly number: bigint; readonly index: number }[] = []
  let removed = 0
  const hashes = (flashblock: Flashblock, first: number, end: number) =>
    Array.from({ length: end - first }, (_, at) =>
      bytesToHex(flashblock.transaction(first + at)!.hash),
    )
  function onEvents(events: readonly FlashblockEvent[]): void {
    const gone = new Set<string>()
    for (const event of events)
      if (event.type === 'added') {
        const { flashblock } = event
        const added = hashes(flashblock, flashblock.first, flashblock.end)
        for (const hash of added) expect(gone.has(hash)).toBe(false)
        known.push(...added)
        flashblocks.push({ number: flashblock.number, index: flashblock.index })
      } else {
        if (event.type === 'gap') throw new Error('no block of these chains is ever missing')
        const last = hashes(event.flashblock, event.first, event.end)
        removed += last.length
        for (const hash of last) gone.add(hash)
        expect(known.splice(known.length - last.length)).toEqual(last)
      }
  }
  return {
    known,
    flashblocks,
    get removed() {
      return removed
    },
    check(slice: number): void {
      for (let hasMore = true; hasMore; ) {
        const read = readNewest(reader, endpoint, (view) => emitted.read(view, slice))
        onEvents(read.events)
        hasMore = read.hasMore
      }
    },
  }
}

const OPS = [
  ...(['payload', 'flashblock', 'flashblock', 'flashblock', 'seal', 'seal', 'advance'] as const),
  ...(['advance', 'flush', 'replace', 'slice', 'slice', 'unfold', 'look', 'look'] as const),
]
type Step = { readonly op: (typeof OPS)[number]; readonly seed: number }
const step: fc.Arbitrary<Step> = fc.record({
  op: fc.constantFrom(...OPS),
  seed: fc.nat(100_000),
})

function apply(driver: Driver, { op, seed }: Step): void {
  if (op === 'payload') driver.payload(seed)
  else if (op === 'flashblock') driver.flashblock(seed)
  else if (op === 'seal') driver.seal()
  else if (op === 'advance') driver.advance()
  else if (op === 'flush') driver.flush()
  else if (op === 'replace') driver.replace(seed)
  else if (op === 'slice') driver.slice(seed % 3)
  else if (op === 'unfold' && driver.persisted.length > 1)
    driver.branch(driver.persisted.at(-1 - (seed % Math.min(3, driver.persisted.length)))!, seed)
}

describe('a reader of flashblock events', () => {
  test.each([
    ['a large arena', 400],
    ['a tiny arena', 24],
  ] as const)('has the current chain after every read, with %s', (_, pages) => {
    const seen = { removed: 0, added: 0, checks: 0 }
    fc.assert(
      fc.property(
        fc.array(step, { minLength: 20, maxLength: 150, size: 'max' }),
        fc.integer({ min: 1, max: 4 }),
        (steps, slice) => {
          const { driver, reader } = openWorld(pages)
          const pending = listener(reader, 'flashblocks')
          const canonical = listener(reader, 'standard')
          for (const each of [pending, canonical]) each.check(slice)
          for (const one of steps) {
            apply(driver, one)
            if (one.op !== 'look') continue
            for (const each of [pending, canonical]) each.check(slice)
            expect(pending.known).toEqual(transactionsOf(driver.pending))
            expect(canonical.known).toEqual(transactionsOf(driver.canonical))
            seen.checks++
          }
          seen.removed += pending.removed
          seen.added += pending.known.length
        },
      ),
      { numRuns: 120 },
    )
    expect(seen.checks).toBeGreaterThan(100)
    expect(seen.removed).toBeGreaterThan(20)
    expect(seen.added).toBeGreaterThan(100)
  })

  test('gets every flashblock, however late it reads, also of complete blocks', () => {
    const { driver, reader } = openWorld(400)
    const pending = listener(reader, 'flashblocks')
    const canonical = listener(reader, 'standard')
    for (const each of [pending, canonical]) each.check(16)
    for (let block = 0; block < 2; block++) {
      driver.payload(1)
      for (const seed of [2, 4, 5]) driver.flashblock(seed)
      driver.seal()
    }
    driver.payload(7)
    for (const each of [pending, canonical]) each.check(16)
    const flashblockIds = (number: bigint) =>
      pending.flashblocks.filter((one) => one.number === number).map(({ index }) => index)
    expect([flashblockIds(1001n), flashblockIds(1002n), flashblockIds(1003n)]).toEqual([
      [0, 1, 2, 3],
      [0, 1, 2, 3],
      [0],
    ])
    driver.advance()
    for (const each of [pending, canonical]) each.check(16)
    expect(pending.flashblocks).toHaveLength(9)
    expect(canonical.flashblocks).toEqual([{ number: 1001n, index: 0 }])
  })

  test('gets no removals for blocks that were persisted between two reads', () => {
    const { driver, reader } = openWorld(400)
    const pending = listener(reader, 'flashblocks')
    pending.check(16)
    driver.payload(1)
    pending.check(16)
    for (let block = 0; block < 3; block++) {
      driver.flashblock(2)
      driver.seal()
      driver.advance()
      driver.payload(4)
    }
    while (driver.unpersisted.length > 1) driver.slice(0)
    pending.check(16)
    expect(pending.removed).toBe(0)
    expect(pending.known).toEqual(transactionsOf(driver.pending))
  })

  test('gets the flashblocks in memory at its start, then each new one', () => {
    const { driver, reader } = openWorld(400)
    for (let block = 0; block < 3; block++) {
      driver.payload(1)
      driver.flashblock(2)
      driver.seal()
      driver.advance()
    }
    while (driver.unpersisted.length > 1) driver.slice(0)
    driver.payload(4)
    const pending = listener(reader, 'flashblocks')
    pending.check(16)
    const numbers = new Set(pending.flashblocks.map(({ number }) => number))
    expect(numbers.has(1004n)).toBe(true)
    expect(numbers.has(1001n)).toBe(false)
    const before = pending.known.length
    driver.flashblock(5)
    pending.check(16)
    expect(pending.known.length).toBe(before + 1)
    expect(pending.removed).toBe(0)
  })
})
