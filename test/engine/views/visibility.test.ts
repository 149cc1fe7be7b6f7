/**
 * A node with a flashblock lag makes snapshots visible at the right time and in order. Each
 * snapshot is one view.
 */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { ChainView } from '../../../engine/chain/types.ts'
import { createViews, persistenceWords } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import { Visibility } from '../../../engine/views/visibility.ts'
import { mapStore } from '../../fixtures/map-store.ts'
import { EMPTY_WORLD } from '../../fixtures/view-blocks.ts'
import { plainChain } from '../../fixtures/view-chain.ts'
import { checkNumber } from '../../fixtures/view-check.ts'
import { Driver, isAncestor } from '../../fixtures/view-driver.ts'

const GENESIS = 1_000
const CADENCE_MS = 200
const PAGE = 2_048

describe('the visible snapshot', () => {
  const open = (flashblocks: number) => {
    const clock = { ms: 0 }
    const visible: number[] = []
    const visibility = new Visibility(
      { flashblocks, ms: flashblocks * CADENCE_MS, now: () => clock.ms },
      (snapshot) => visible.push(snapshot),
    )
    let snapshot = 0
    const publish = (height: number, index: number, isContinued = true) =>
      visibility.published(++snapshot, { height, index }, isContinued)
    return { clock, visible, visibility, publish }
  }

  test('is the first at once, and then lags by the number of flashblocks', () => {
    const { visible, publish } = open(2)
    publish(16, 0)
    publish(16, 1)
    publish(16, 2)
    expect(visible).toEqual([1])
    publish(16, 3)
    expect(visible).toEqual([1, 2])
    publish(17, 0)
    publish(17, 1)
    expect(visible).toEqual([1, 2, 3, 4])
  })

  test('advances by a flashblock that a replica has', () => {
    const { visible, visibility, publish } = open(1)
    publish(16, 0)
    publish(16, 1)
    visibility.onPosition({ height: 16, index: 1 })
    expect(visible).toEqual([1])
    visibility.onPosition({ height: 16, index: 2 })
    expect(visible).toEqual([1, 2])
    publish(16, 2)
    expect(visible).toEqual([1, 2])
  })

  test('counts the age of a flashblock from its first copy', () => {
    const { clock, visible, visibility, publish } = open(1)
    publish(16, 0)
    visibility.onPosition({ height: 16, index: 1 })
    clock.ms = 150
    publish(16, 1)
    expect(visibility.dueAtMs).toBe(200)
    clock.ms = 200
    visibility.update()
    expect(visible).toEqual([1, 2])
  })

  test('advances after its maximum time without any new flashblock', () => {
    const { clock, visible, visibility, publish } = open(2)
    publish(16, 0)
    clock.ms = 100
    publish(16, 1)
    expect(visibility.dueAtMs).toBe(500)
    clock.ms = 499
    visibility.update()
    expect(visible).toEqual([1])
    clock.ms = 500
    visibility.update()
    expect(visible).toEqual([1, 2])
    expect(visibility.dueAtMs).toBeUndefined()
  })

  test('is the newest of several snapshots of one flashblock', () => {
    const { visible, publish } = open(1)
    publish(16, 0)
    publish(16, 1)
    publish(16, 1)
    expect(visible).toEqual([1])
    publish(16, 2)
    expect(visible).toEqual([1, 3])
  })

  test('replaces a broken promise at once, and never shows a hidden one', () => {
    const { visible, visibility, publish } = open(2)
    publish(16, 0)
    publish(16, 1)
    publish(16, 2)
    publish(16, 2, false)
    expect(visible).toEqual([1, 4])
    expect(visibility.dueAtMs).toBeUndefined()
    // Flashblocks of the other payload do not count for this one.
    publish(17, 0)
    expect(visible).toEqual([1, 4])
  })

  test('ignores positions far above, and at most 256 newer snapshots are hidden', () => {
    const { visible, visibility, publish } = open(1)
    publish(16, 0)
    publish(16, 1)
    visibility.onPosition({ height: 10_000, index: 0 })
    expect(visible).toEqual([1])
    for (let more = 0; more < 256; more++) publish(16, 1)
    expect(visible).toEqual([1, 2])
  })

  test('lags by 1 to 63 flashblocks, and any other lag is refused', () => {
    for (const flashblocks of [0, 64]) expect(() => open(flashblocks)).toThrow('flashblocks behind')
  })
})

type Step = { readonly kind: number; readonly pick: number }
const step = fc.record({ kind: fc.nat(11), pick: fc.nat(100_000) })

/**
 * Drives a chain of views with a lag step by step, and compares the visible snapshots with the
 * expected ones.
 */
class Lag {
  readonly clock = { ms: 0 }
  readonly driver: Driver
  readonly reader: ReturnType<typeof openChainReader>
  readonly publisher: ReturnType<typeof openPublisher>
  readonly #flashblocks: number
  #before: { readonly snapshot: number; readonly view: Heads } | undefined
  isBroken = false

  constructor(flashblocks: number) {
    this.#flashblocks = flashblocks
    const views = createViews({
      bytes: 400 * PAGE,
      threads: 2,
      seed: 5,
      pageBytes: PAGE,
      cacheEntries: 64,
    })
    const store = mapStore({ world: EMPTY_WORLD, number: GENESIS })
    store.attach(persistenceWords(views))
    const chain = plainChain(GENESIS)
    const ms = flashblocks * CADENCE_MS
    this.publisher = openPublisher(
      views,
      { number: GENESIS, hash: chain.genesisHash },
      { flashblocks, ms, now: () => this.clock.ms },
    )
    this.driver = new Driver(this.publisher, store, EMPTY_WORLD)
    this.reader = openChainReader({ views, store, chain, thread: 0 })
  }

  take(step: Step): void {
    const before = this.driver.pending
    this.#drive(step)
    this.isBroken = !isAncestor(before, this.driver.pending)
  }

  #drive({ kind, pick }: Step): void {
    const { driver, clock } = this
    if (kind <= 1) driver.payload(pick)
    else if (kind <= 4) driver.flashblock(pick)
    else if (kind === 5) driver.seal()
    else if (kind === 6) driver.advance()
    else if (kind === 7) driver.flush()
    else if (kind === 8 && pick % 4 === 0) driver.replace(pick)
    else if (kind === 9 && pick % 8 === 0) driver.branch(driver.persisted.at(-1)!, pick)
    else if (kind <= 9) driver.slice(2)
    else {
      clock.ms += pick % (3 * CADENCE_MS)
      this.publisher.visibility!.update()
    }
  }

  check(): void {
    const lease = this.reader.lease('flashblocks')
    const { view } = lease
    const newest = this.reader.adopt(this.reader.newestOfAll(), 'flashblocks')!
    const [visible, all] = [headsOf(view), headsOf(newest.view)]
    for (const number of new Set([view.pending.number, view.latest.number]))
      checkNumber(view, number)
    expect(visible.canonical <= visible.latest && visible.latest <= visible.pending).toBe(true)
    const before = this.#before
    if (before !== undefined) expect(lease.snapshot).toBeGreaterThanOrEqual(before.snapshot)
    if (this.isBroken) expect(lease.snapshot).toBe(newest.snapshot)
    else {
      if (before !== undefined) {
        expect(isBack(visible, before.view)).toBe(false)
        expect(visible.canonical).toBeGreaterThanOrEqual(before.view.canonical)
      }
      // Each flashblock of a block has another index. Between two blocks at least as many
      // flashblocks count as the newer one has.
      const between =
        visible.pending === all.pending
          ? all.index - visible.index
          : Number(all.pending - visible.pending)
      expect(between).toBeLessThanOrEqual(this.#flashblocks)
    }
    this.#before = { snapshot: lease.snapshot, view: visible }
    lease.release()
    newest.release()
  }
}
type Heads = ReturnType<typeof headsOf>
const headsOf = ({ canonical, latest, pending }: ChainView) => ({
  canonical: canonical.number,
  latest: latest.number,
  pending: pending.number,
  index: pending.index,
})
const isBack = (a: Heads, b: Heads): boolean =>
  a.pending < b.pending || (a.pending === b.pending && a.index < b.index)

describe('a chain of views with a flashblock lag', () => {
  test.each([1, 2, 5])('of %i has unmixed views, and goes back only for broken promises', (lag) => {
    let hidden = 0
    const run = (steps: readonly Step[]): void => {
      const world = new Lag(lag)
      for (const each of steps) {
        world.take(each)
        world.check()
        if (world.reader.newestSnapshot() !== world.reader.newestOfAll()) hidden++
      }
      world.clock.ms += lag * CADENCE_MS
      world.publisher.visibility!.update()
      expect(world.reader.newestSnapshot()).toBe(world.reader.newestOfAll())
    }
    const property = fc.property(fc.array(step, { minLength: 1, maxLength: 120 }), run)
    void fc.assert(property, { numRuns: 60 })
    expect(hidden).toBeGreaterThan(100)
  })
})
