/** What a node that stays behind shows: when, in which order, and that each of it is one view. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { ChainView } from '../../../engine/chain/types.ts'
import { createViews, keeperWords } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import { Showing } from '../../../engine/views/showing.ts'
import { mapStore } from '../../fixtures/map-store.ts'
import { EMPTY_WORLD } from '../../fixtures/view-blocks.ts'
import { plainChain } from '../../fixtures/view-chain.ts'
import { checkNumber } from '../../fixtures/view-check.ts'
import { Driver, isAncestor } from '../../fixtures/view-driver.ts'

const GENESIS = 1_000
const CADENCE_MS = 200
const PAGE = 2_048

describe('which record is shown', () => {
  const open = (flashblocks: number) => {
    const clock = { ms: 0 }
    const shown: number[] = []
    const showing = new Showing(
      { flashblocks, ms: flashblocks * CADENCE_MS, now: () => clock.ms },
      (record) => shown.push(record),
    )
    let record = 0
    const publish = (height: number, index: number, isContinued = true) =>
      showing.published(++record, { height, index }, isContinued)
    return { clock, shown, showing, publish }
  }

  test('the first at once, a further one when as many as asked are known after it', () => {
    const { shown, publish } = open(2)
    publish(16, 0)
    publish(16, 1)
    publish(16, 2)
    expect(shown).toEqual([1])
    publish(16, 3)
    expect(shown).toEqual([1, 2])
    publish(17, 0)
    publish(17, 1)
    expect(shown).toEqual([1, 2, 3, 4])
  })

  test('what a replica has counts as if it were here', () => {
    const { shown, showing, publish } = open(1)
    publish(16, 0)
    publish(16, 1)
    showing.heard({ height: 16, index: 1 })
    expect(shown).toEqual([1])
    showing.heard({ height: 16, index: 2 })
    expect(shown).toEqual([1, 2])
    publish(16, 2)
    expect(shown).toEqual([1, 2])
  })

  test('a flashblock is as old as its first copy', () => {
    const { clock, shown, showing, publish } = open(1)
    publish(16, 0)
    showing.heard({ height: 16, index: 1 })
    clock.ms = 150
    publish(16, 1)
    expect(showing.dueAtMs).toBe(200)
    clock.ms = 200
    showing.look()
    expect(shown).toEqual([1, 2])
  })

  test('nothing is hidden for longer than its time, though nothing comes', () => {
    const { clock, shown, showing, publish } = open(2)
    publish(16, 0)
    clock.ms = 100
    publish(16, 1)
    expect(showing.dueAtMs).toBe(500)
    clock.ms = 499
    showing.look()
    expect(shown).toEqual([1])
    clock.ms = 500
    showing.look()
    expect(shown).toEqual([1, 2])
    expect(showing.dueAtMs).toBeUndefined()
  })

  test('a record without a new flashblock comes with what it stands on', () => {
    const { shown, publish } = open(1)
    publish(16, 0)
    publish(16, 1)
    publish(16, 1)
    expect(shown).toEqual([1])
    publish(16, 2)
    expect(shown).toEqual([1, 3])
  })

  test('a broken promise that was not shown never is, and what takes its place is at once', () => {
    const { shown, showing, publish } = open(2)
    publish(16, 0)
    publish(16, 1)
    publish(16, 2)
    publish(16, 2, false)
    expect(shown).toEqual([1, 4])
    expect(showing.dueAtMs).toBeUndefined()
    // Nothing of the other payload counts for what comes on this one.
    publish(17, 0)
    expect(shown).toEqual([1, 4])
  })

  test('a place far above is no place of this chain, and as many records wait as may', () => {
    const { shown, showing, publish } = open(1)
    publish(16, 0)
    publish(16, 1)
    showing.heard({ height: 10_000, index: 0 })
    expect(shown).toEqual([1])
    for (let more = 0; more < 256; more++) publish(16, 1)
    expect(shown).toEqual([1, 2])
  })

  test('a lag that cannot be is refused', () => {
    for (const flashblocks of [0, 64]) expect(() => open(flashblocks)).toThrow('flashblocks behind')
  })
})

type Step = { readonly kind: number; readonly pick: number }
const step = fc.record({ kind: fc.nat(11), pick: fc.nat(100_000) })

/** Drives a chain of views that stays behind by the step, and holds what is shown to what it has to be. */
class Behind {
  readonly clock = { ms: 0 }
  readonly driver: Driver
  readonly reader: ReturnType<typeof openChainReader>
  readonly publisher: ReturnType<typeof openPublisher>
  readonly #flashblocks: number
  #before: { readonly record: number; readonly view: Heads } | undefined
  isBroken = false

  constructor(flashblocks: number) {
    this.#flashblocks = flashblocks
    const views = createViews({
      ...{ bytes: 400 * PAGE, threads: 2, seed: 5, pageBytes: PAGE, cacheEntries: 64 },
    })
    const store = mapStore({ world: EMPTY_WORLD, number: GENESIS })
    store.attach(keeperWords(views))
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
    else if (kind === 9 && pick % 8 === 0) driver.branch(driver.folded.at(-1)!, pick)
    else if (kind <= 9) driver.slice(2)
    else {
      clock.ms += pick % (3 * CADENCE_MS)
      this.publisher.showing!.look()
    }
  }

  check(): void {
    const lease = this.reader.lease('flashblocks')
    const { view } = lease
    const newest = this.reader.adopt(this.reader.newestOfAll(), 'flashblocks')!
    const [shown, all] = [headsOf(view), headsOf(newest.view)]
    for (const number of new Set([view.pending.number, view.latest.number]))
      checkNumber(view, number)
    expect(shown.canonical <= shown.latest && shown.latest <= shown.pending).toBe(true)
    const before = this.#before
    if (before !== undefined) expect(lease.record).toBeGreaterThanOrEqual(before.record)
    if (this.isBroken) expect(lease.record).toBe(newest.record)
    else {
      if (before !== undefined) {
        expect(isBack(shown, before.view)).toBe(false)
        expect(shown.canonical).toBeGreaterThanOrEqual(before.view.canonical)
      }
      // Each flashblock of a block has another index: those between, of two blocks at the least as many as of the newer one.
      const between =
        shown.pending === all.pending
          ? all.index - shown.index
          : Number(all.pending - shown.pending)
      expect(between).toBeLessThanOrEqual(this.#flashblocks)
    }
    this.#before = { record: lease.record, view: shown }
    lease.release()
    newest.release()
  }
}
type Heads = ReturnType<typeof headsOf>
const headsOf = ({ canonical, latest, pending }: ChainView) => ({
  ...{ canonical: canonical.number, latest: latest.number },
  ...{ pending: pending.number, index: pending.index },
})
const isBack = (a: Heads, b: Heads): boolean =>
  a.pending < b.pending || (a.pending === b.pending && a.index < b.index)

describe('a chain of views that stays behind', () => {
  test.each([1, 2, 5])(
    'by %i: each is one view, none goes back but for what is broken',
    (behind) => {
      let hidden = 0
      const run = (steps: readonly Step[]): void => {
        const world = new Behind(behind)
        for (const each of steps) {
          world.take(each)
          world.check()
          if (world.reader.newestRecord() !== world.reader.newestOfAll()) hidden++
        }
        world.clock.ms += behind * CADENCE_MS
        world.publisher.showing!.look()
        expect(world.reader.newestRecord()).toBe(world.reader.newestOfAll())
      }
      const property = fc.property(fc.array(step, { minLength: 1, maxLength: 120 }), run)
      void fc.assert(property, { numRuns: 60 })
      expect(hidden).toBeGreaterThan(100)
    },
  )
})
