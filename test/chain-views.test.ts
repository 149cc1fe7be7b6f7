import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openChainReader } from '../engine/chain/reader.ts'
import type { ChainReader, Endpoint, LeasedView } from '../engine/chain/types.ts'
import { ViewError } from '../engine/state/reader.ts'
import { memoryDatabase } from '../engine/storage/database.ts'
import { openStore } from '../engine/storage/store.ts'
import type { KeeperWords, StoreReader } from '../engine/storage/types.ts'
import { createViews, keeperWords } from '../engine/views/arena.ts'
import { openPublisher } from '../engine/views/publisher.ts'
import { mapStore } from './fixtures/map-store.ts'
import { EMPTY_WORLD } from './fixtures/view-blocks.ts'
import { plainChain } from './fixtures/view-chain.ts'
import { checkBlock, checkNumber, checkState, MixedView } from './fixtures/view-check.ts'
import { type Built, Driver, type Durable, isAncestor } from './fixtures/view-driver.ts'
import { keeperDurable } from './fixtures/view-keeper.ts'

const PAGE = 2048
const GENESIS = 1000

type Kind = 'maps' | 'keeper'

function open(pages: number, kind: Kind = 'maps') {
  const views = createViews({ bytes: pages * PAGE, threads: 3, seed: 99, pageBytes: PAGE })
  const words = keeperWords(views)
  const chain = plainChain(GENESIS)
  const { store, durable } = kind === 'maps' ? inMaps(words) : inKeeper(words)
  const publisher = openPublisher(views, { number: GENESIS, hash: chain.genesisHash })
  const driver = new Driver(publisher, durable, EMPTY_WORLD)
  const reader = (thread: number) =>
    openChainReader({ views, store, chain, thread, cacheEntries: 64 })
  return { driver, reader, unfolds: { count: 0 } }
}
function inMaps(words: KeeperWords): { store: StoreReader; durable: Durable } {
  const store = mapStore({ world: EMPTY_WORLD, number: GENESIS })
  store.attach(words)
  return { store, durable: store }
}
function inKeeper(words: KeeperWords): { store: StoreReader; durable: Durable } {
  const database = memoryDatabase()
  const durable = keeperDurable({ database, words, genesisNumber: GENESIS, pieces: 1 })
  return { store: openStore(database), durable }
}

/** A leased view and what the truth was when its record was published. */
type Held = {
  readonly leased: LeasedView
  readonly endpoint: Endpoint
  readonly top: Built
  readonly topIndex: number
  readonly latest: Built
  readonly unfolds: number
}

function hold(world: ReturnType<typeof open>, reader: ChainReader, endpoint: Endpoint): Held {
  const { driver, unfolds } = world
  const isStandard = endpoint === 'standard'
  const top = isStandard ? driver.canonical : driver.pending
  return {
    leased: reader.lease(endpoint),
    endpoint,
    top,
    topIndex: top.final === undefined ? top.steps.length - 1 : -1,
    latest: isStandard ? driver.canonical : driver.complete,
    unfolds: unfolds.count,
  }
}

/** One block of a view, chosen by `pick`, against the truth. */
function check(world: ReturnType<typeof open>, held: Held, pick: number): void {
  const { view } = held.leased
  const { top, topIndex } = held
  try {
    const heights = top.number - GENESIS + 1
    const height = GENESIS + (pick % heights)
    let wanted: Built | undefined = top
    while (wanted!.number > height) wanted = wanted!.parent
    const isTop = wanted === top
    const head = isTop && topIndex >= 0 ? wanted!.steps[topIndex]! : wanted!.final!
    const block = view.block({ number: BigInt(height) })
    expect(block?.hash).toEqual(head.hash)
    expect(block?.flashblockIndex).toBe(isTop && topIndex >= 0 ? topIndex : undefined)
    checkNumber(view, BigInt(height))
    expect(view.latest.hash).toEqual(held.latest.final!.hash)
    expect(view.pending.number).toBe(BigInt(top.number))
    const step = pick % wanted!.steps.length
    const prefix = view.block({ hash: wanted!.steps[step]!.hash, requireCanonical: false })
    if (height === GENESIS) return
    if (held.endpoint === 'standard') expect(prefix).toBeUndefined()
    else if (isTop && topIndex >= 0 && step > topIndex) expect(prefix).toBeUndefined()
    else {
      expect(prefix!.flashblockIndex).toBe(step)
      checkBlock(view, prefix!)
      checkStateIfKept(view, prefix!)
    }
    const other = world.driver.pending
    if (!isAncestor(other, top))
      for (const { transaction } of other.steps.at(-1)!.executed.slice(-1)) {
        const isBelow = [...chainOf(top, topIndex)].includes(transaction.hash)
        if (!isBelow) expect(view.findTransaction(transaction.hash)).toBeUndefined()
      }
  } catch (error) {
    const isVoid = error instanceof ViewError && error.reason === 'void'
    if (isVoid && held.unfolds < world.unfolds.count) return
    throw error
  }
}

function* chainOf(top: Built, topIndex: number) {
  for (let at: Built | undefined = top; at !== undefined; at = at.parent) {
    const step = at === top && topIndex >= 0 ? at.steps[topIndex]! : at.steps.at(-1)!
    for (const { transaction } of step.executed) yield transaction.hash
  }
}

/** State between two flashblocks of a folded block is not kept. */
function checkStateIfKept(view: LeasedView['view'], block: Parameters<typeof checkState>[1]) {
  try {
    checkState(view, block)
  } catch (error) {
    const isGone = error instanceof ViewError && error.reason === 'pruned'
    if (!isGone || block.flashblockIndex === undefined) throw error
  }
}

const OPS = [
  'payload',
  'flashblock',
  'flashblock',
  'seal',
  'advance',
  'flush',
  'replace',
  'slice',
  'slice',
  'slice',
  'unfold',
  'lease',
  'adopt',
  'release',
] as const

const step: fc.Arbitrary<Step> = fc.record({
  op: fc.constantFrom(...OPS),
  seed: fc.nat(100_000),
})

type Step = { readonly op: (typeof OPS)[number]; readonly seed: number }

function run(steps: readonly Step[], pages: number, kind: Kind) {
  const world = open(pages, kind)
  const { driver, unfolds } = world
  const readers = [world.reader(0), world.reader(1), world.reader(2)]
  const held: Held[] = []
  for (const { op, seed } of steps) {
    if (op === 'payload') driver.payload(seed)
    else if (op === 'flashblock') driver.flashblock(seed)
    else if (op === 'seal') driver.seal()
    else if (op === 'advance') driver.advance()
    else if (op === 'flush') driver.flush()
    else if (op === 'replace') driver.replace(seed)
    else if (op === 'slice') driver.slice(seed % 3)
    else if (op === 'unfold' && seed % 4 === 0 && driver.folded.length > 1) {
      const to = driver.folded.at(-1 - (seed % Math.min(3, driver.folded.length)))!
      const before = unfolds.count
      driver.branch(to, seed, () => {
        if (unfolds.count === before) unfolds.count++
        // The writer goes on meanwhile, and what it publishes is as void as what is older.
        driver.publish()
        const now = hold(world, readers[0]!, 'standard')
        for (const each of [...held, { ...now, unfolds: before }]) check(world, each, seed)
        now.leased.release()
      })
    } else if (op === 'lease' && held.length < 5)
      held.push(hold(world, readers[seed % 3]!, seed % 2 === 0 ? 'standard' : 'flashblocks'))
    else if (op === 'adopt' && held.length > 0 && held.length < 5) {
      const from = held[seed % held.length]!
      const leased = readers[seed % 3]!.adopt(from.leased.record, from.endpoint)
      // Only the front's lease covers a worker's for certain.
      if (leased !== undefined) held.push({ ...from, leased })
    } else if (op === 'release')
      for (const each of held.splice(seed % (held.length + 1), 1)) each.leased.release()
    for (const each of held) check(world, each, seed)
    const now = hold(world, readers[0]!, 'flashblocks')
    check(world, now, seed)
    now.leased.release()
  }
  for (const { leased } of held) leased.release()
  return world
}

describe('a view answers as plain execution at its record', () => {
  test.each([
    ['an arena with room', 400, 'maps'],
    ['a tiny arena', 24, 'maps'],
    ['the keeper behind it', 24, 'keeper'],
  ] as const)('%s', (_, pages, kind) => {
    const seen = { refused: 0, folds: 0, unfolds: 0 }
    fc.assert(
      fc.property(fc.array(step, { minLength: 20, maxLength: 120, size: 'max' }), (steps) => {
        const { driver, unfolds } = run(steps, pages, kind)
        seen.refused += driver.refused
        seen.folds += driver.folded.length - 1
        seen.unfolds += unfolds.count
      }),
      { numRuns: 50 },
    )
    expect(seen.refused > 0).toBe(pages < 100)
    expect(seen.folds).toBeGreaterThan(20)
    expect(seen.unfolds).toBeGreaterThan(10)
  })

  test('the check finds a mixed view', () => {
    const { driver, reader } = open(64)
    driver.payload(48)
    const { view } = reader(0).lease('flashblocks')
    const block = view.block({ tag: 'pending' })!
    const other = { ...view, state: () => view.state(view.block({ tag: 'latest' })!) }
    expect(() => checkState(other, block)).toThrow(MixedView)
  })
})
