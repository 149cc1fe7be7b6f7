/**
 * The ledger is compared with a list in memory. Every promise has the outcome of a plain
 * comparison, whatever happened and wherever the process ended.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { heights, NO_HEIGHT } from '../../../../engine/storage/ledger/codec.ts'
import { quantile, TIME_BOUNDS_MS } from '../../../../engine/storage/ledger/counts.ts'
import { Ledger } from '../../../../engine/storage/ledger/ledger.ts'
import { openLedgerReader } from '../../../../engine/storage/ledger/reader.ts'
import { forgetOutcomes } from '../../../../engine/storage/ledger/rows.ts'
import type { LedgerLimits, PromiseOutcome } from '../../../../engine/storage/ledger-types.ts'
import { databases } from '../../../fixtures/databases.ts'
import { hashOf, payloadOf, promised } from '../../../fixtures/promised.ts'
import { ALL_KEYS } from '../../../fixtures/stored-rows.ts'

const HOUR_MS = 3_600_000
/** The start time differs from zero, so that no time looks absent. */
const START_MS = 1_000_000_000_000
const LIMITS: LedgerLimits = { retentionMs: 1_000 * HOUR_MS, bytes: 2 ** 30 }

type Promised = Parameters<typeof promised>[0]

class Bench {
  readonly database: Database
  readonly clock = { ms: START_MS }
  ledger!: Ledger
  /** The transaction numbers by height. */
  chain: (readonly number[])[] = []
  readonly made: Promised[] = []
  readonly #limits: LedgerLimits

  constructor(database: Database = memoryDatabase(), limits = LIMITS) {
    this.database = database
    this.#limits = limits
    this.start()
  }

  /** Starts like a new process, which has lost its memory. */
  start(): void {
    const wallMs = () => this.clock.ms
    this.ledger = new Ledger({ database: this.database, limits: this.#limits, wallMs })
    this.ledger.recover(this.chain.length - 1, (number) => this.block(number))
  }

  block(number: number) {
    const transactions = this.chain[number]
    return (
      transactions && { number, transactions: transactions.map((one) => ({ hash: hashOf(one) })) }
    )
  }

  promise(one: Promised): void {
    this.ledger.promise(promised({ ...one, atMs: this.clock.ms }))
    this.made.push(one)
  }

  /** Appends on the block below this height. `isLost`: the process ends before its commit. */
  append(number: number, transactions: readonly number[], isLost = false): void {
    const isReorg = number < this.chain.length
    const before = this.chain
    this.chain = [...this.chain.slice(0, number), transactions]
    const batch = this.database.batch()
    this.ledger.decide(batch, this.block(number)!, isReorg)
    if (isLost) {
      this.chain = before
      this.start()
    } else batch.commit()
  }

  /** Computes the outcomes by plain comparison. */
  expected(): readonly string[] {
    return this.made.flatMap(({ number, payload = 1, index = 1, first = 0, transactions }) =>
      transactions.map((one, at) =>
        [number, payload, index, first + at, one, this.#outcome(number, one, first + at)].join(' '),
      ),
    )
  }

  #outcome(number: number, transaction: number, position: number): PromiseOutcome {
    const block = this.chain[number]
    if (block === undefined) return 'open'
    if (block[position] === transaction) return 'kept'
    return block.includes(transaction) ? 'reordered' : 'dropped'
  }

  found(): readonly string[] {
    const reader = openLedgerReader(this.database)
    const heights = [...new Set(this.made.map(({ number }) => number))]
    return heights.flatMap((number) =>
      reader
        .promisesAt(number)
        .map(({ payloadId, index, position, hash, outcome }) =>
          [number, payloadId[0], index, position, hash[0], outcome].join(' '),
        ),
    )
  }

  /** Checks the promises, and that the counts match them. */
  check(): void {
    const found = this.found()
    expect(found.toSorted()).toEqual(this.expected().toSorted())
    const { counts } = this.ledger.stats()
    const of = (outcome: PromiseOutcome) => found.filter((one) => one.endsWith(outcome)).length
    expect(counts).toMatchObject({
      flashblocks: this.made.length,
      promises: found.length,
      kept: of('kept'),
      reordered: of('reordered'),
      dropped: of('dropped'),
      unseen: 0,
    })
    expect(counts.sealed.count).toBe(counts.kept)
  }
}

const some = fc.uniqueArray(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 })
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('promise' as const),
      up: fc.integer({ min: 0, max: 2 }),
      payload: fc.integer({ min: 1, max: 2 }),
      first: fc.integer({ min: 0, max: 2 }),
      transactions: some,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      transactions: some,
      isLost: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('reorg' as const),
      depth: fc.integer({ min: 1, max: 4 }),
      transactions: some,
      isLost: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('start' as const) }) },
)

test('the ledger has the right outcomes in any history', () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 5, maxLength: 40 }), (steps) => {
      const bench = new Bench()
      bench.append(0, [])
      let index = 0
      for (const now of steps) {
        bench.clock.ms += 200
        const { length } = bench.chain
        if (now.kind === 'start') bench.start()
        else if (now.kind === 'promise') {
          const { up, payload, first, transactions } = now
          bench.promise({ number: length + up, payload, index: ++index, first, transactions })
        } else {
          const number = now.kind === 'append' ? length : Math.max(1, length - now.depth)
          bench.append(number, now.transactions, now.isLost)
        }
        bench.check()
      }
    }),
  )
})

describe.each(databases)('the ledger on %s', (_, open) => {
  test('gives each promise the first outcome that applies, with its time', async () => {
    const bench = new Bench(await open())
    bench.append(0, [])
    bench.promise({ number: 1, transactions: [1, 2, 3] })
    bench.promise({ number: 1, index: 2, first: 3, transactions: [4] })
    bench.promise({ number: 2, transactions: [5] })
    bench.clock.ms += 700
    bench.append(1, [1, 3, 2, 9])
    bench.check()
    const reader = openLedgerReader(bench.database)
    const outcomes = [1, 2, 3, 4, 5].map((one) => reader.promisesOf(hashOf(one))[0]?.outcome)
    expect(outcomes).toEqual(['kept', 'reordered', 'reordered', 'dropped', 'open'])
    expect(reader.promisesOf(hashOf(4))).toMatchObject([
      {
        number: 1,
        index: 2,
        position: 3,
        atMs: START_MS,
        decidedAtMs: START_MS + 700,
        causes: [],
        nonce: 4n,
      },
    ])
    expect(reader.promisesOf(hashOf(5))[0]).toMatchObject({ decidedAtMs: undefined })
    expect(reader.promisesOf(hashOf(6))).toEqual([])
    const { counts } = reader.countsSince(START_MS, bench.clock.ms)
    expect(counts).toMatchObject({ flashblocks: 3, promises: 5, kept: 1, reordered: 2, dropped: 1 })
    expect([quantile(counts.sealed, 0.5), counts.sealed.sumMs]).toEqual([800, 700])
    await bench.database.close()
  })
})

describe('the causes of an outcome include', () => {
  const causesOf = ({ database }: Bench, transaction: number) =>
    openLedgerReader(database)
      .promisesOf(hashOf(transaction))
      .flatMap(({ causes }) => causes)

  test('a second payload of the same height', () => {
    const bench = new Bench()
    bench.append(0, [])
    bench.promise({ number: 1, payload: 1, transactions: [1] })
    bench.promise({ number: 1, payload: 2, transactions: [1, 2] })
    bench.promise({ number: 2, payload: 3, transactions: [3] })
    bench.append(1, [1, 2])
    bench.append(2, [3])
    expect(causesOf(bench, 1)).toEqual(['secondPayload', 'secondPayload'])
    expect(causesOf(bench, 3)).toEqual([])
    expect(bench.ledger.stats().counts.secondPayloads).toBe(1)
    bench.check()
  })

  test('a later payload without promises of its own', () => {
    const bench = new Bench()
    bench.append(0, [])
    const visiblePayload = (number: number, payload: number) =>
      bench.ledger.payload({ number, payloadId: payloadOf(payload) })
    visiblePayload(1, 1)
    bench.promise({ number: 1, payload: 1, transactions: [1] })
    visiblePayload(2, 3)
    bench.promise({ number: 2, payload: 3, transactions: [2] })
    const suspicions = () =>
      bench.database.range('ledger', { ...heights('suspicion', 0, NO_HEIGHT), limit: 9 })
    expect(suspicions()).toEqual([])
    visiblePayload(1, 2)
    // The payload is visible twice, and one suspicion has two causes, across an end of the process.
    bench.start()
    visiblePayload(1, 2)
    bench.ledger.suspicion({ number: 1, payloadId: payloadOf(2) })
    // A new run makes each flashblock visible again.
    visiblePayload(2, 3)
    expect(suspicions()).toHaveLength(1)
    bench.append(1, [])
    bench.append(2, [])
    expect(suspicions()).toEqual([])
    expect([1, 2].map((one) => causesOf(bench, one))).toEqual([['secondPayload'], []])
    expect(bench.ledger.stats().counts).toMatchObject({ secondPayloads: 1, equivocations: 1 })
    // The payload's block exists already, so the suspicion comes too late to be the cause.
    visiblePayload(2, 4)
    expect(suspicions()).toEqual([])
    bench.check()
  })

  test('an equivocation in one run or across two', () => {
    const bench = new Bench()
    bench.append(0, [])
    bench.promise({ number: 1, transactions: [1] })
    bench.ledger.suspicion({ number: 1, payloadId: payloadOf(1) })
    bench.ledger.suspicion({ number: 1, payloadId: payloadOf(1) })
    bench.promise({ number: 2, payload: 2, transactions: [2] })
    bench.start()
    // The next run receives another flashblock.
    bench.promise({ number: 2, payload: 2, transactions: [3] })
    bench.append(1, [9])
    bench.append(2, [3])
    // This suspicion is too late to count.
    bench.ledger.suspicion({ number: 2, payloadId: payloadOf(2) })
    expect([1, 2, 3].map((one) => causesOf(bench, one))).toEqual([
      ['equivocation'],
      ['equivocation'],
      ['equivocation'],
    ])
    expect(bench.ledger.stats().counts.equivocations).toBe(1)
    bench.check()
  })

  test('a reorg that changed the block or removed it', () => {
    const bench = new Bench()
    bench.append(0, [])
    bench.promise({ number: 1, transactions: [1, 2] })
    bench.promise({ number: 2, payload: 2, transactions: [3] })
    bench.append(1, [1, 2])
    bench.append(2, [3])
    expect(bench.ledger.stats().counts.kept).toBe(3)
    bench.append(1, [1])
    bench.check()
    expect([1, 2, 3].map((one) => causesOf(bench, one))).toEqual([['reorg'], ['reorg'], ['reorg']])
    bench.append(2, [3])
    bench.check()
  })
})

test('a promise after the block of its height is decided by the caller’s chain', () => {
  const bench = new Bench()
  bench.append(0, [])
  bench.append(1, [1])
  const late = promised({ number: 1, transactions: [1, 2], atMs: bench.clock.ms })
  expect(bench.ledger.promise(promised({ number: 2, transactions: [3] }))).toBeUndefined()
  expect(bench.ledger.promise(late)).toBe('late')
  expect(bench.ledger.promise(late)).toBeUndefined()
  bench.ledger.recover(1, (number) => bench.block(number))
  const outcomes = openLedgerReader(bench.database).promisesAt(1)
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['kept', 'dropped'])
  expect(openLedgerReader(bench.database).promisesAt(2)).toMatchObject([{ outcome: 'open' }])
})

test('a rewind opens the outcomes above it again', () => {
  const bench = new Bench()
  bench.append(0, [])
  bench.promise({ number: 1, transactions: [1] })
  bench.promise({ number: 2, payload: 2, transactions: [2] })
  bench.append(1, [1])
  bench.append(2, [2])
  const batch = bench.database.batch()
  bench.ledger.rewind(batch, 1)
  batch.commit()
  bench.chain.length = 2
  bench.check()
  bench.append(2, [2])
  bench.check()
  bench.start()
  bench.check()
})

test('a flashblock that was visible before a restart is promised once', () => {
  const bench = new Bench()
  bench.append(0, [])
  bench.promise({ number: 1, transactions: [1] })
  bench.start()
  bench.clock.ms += 500
  bench.ledger.promise(promised({ number: 1, transactions: [1], atMs: bench.clock.ms }))
  bench.check()
  expect(openLedgerReader(bench.database).promisesAt(1)).toMatchObject([{ atMs: START_MS }])
})

test('a start decides open promises, and reopens outcomes that have no block', () => {
  const bench = new Bench()
  bench.append(0, [])
  bench.promise({ number: 1, transactions: [1] })
  bench.promise({ number: 2, payload: 2, transactions: [2] })
  bench.promise({ number: 3, payload: 3, transactions: [3] })
  // Some blocks came without the ledger, one of them without its transactions.
  bench.chain = [[], [1], [9]]
  const blockAt = (number: number) => (number === 2 ? undefined : bench.block(number))
  bench.ledger.recover(2, blockAt)
  const outcomes = () => bench.found().map((one) => one.split(' ').at(-1))
  expect(outcomes()).toEqual(['kept', 'unseen', 'open'])
  expect(bench.ledger.stats().counts).toMatchObject({ kept: 1, unseen: 1, dropped: 0 })
  // The durable head was lowered, like for a block with a wrong root.
  bench.chain = [[]]
  bench.start()
  expect(outcomes()).toEqual(['open', 'open', 'open'])
  bench.check()
})

test('a resync decides the promises above its shared block again', () => {
  const bench = new Bench()
  bench.append(0, [])
  for (const number of [1, 2, 3]) {
    bench.promise({ number, payload: number, transactions: [number] })
    bench.append(number, [number])
  }
  const batch = bench.database.batch()
  forgetOutcomes(bench.database, batch, 1)
  batch.commit()
  // Only the first block of the new chain is present.
  bench.chain = [[], [1], [2], [3], [4], [5], [6]]
  const ledger = new Ledger({ database: bench.database, limits: LIMITS, wallMs: () => START_MS })
  ledger.recover(6, (number) => (number === 6 ? bench.block(6) : undefined))
  expect(bench.found().map((one) => one.split(' ').at(-1))).toEqual(['kept', 'unseen', 'unseen'])
  expect(ledger.stats().counts).toMatchObject({ kept: 1, unseen: 2 })
})

describe('the oldest ledger entries are dropped', () => {
  const filled = (limits: LedgerLimits) => {
    const bench = new Bench(memoryDatabase(), limits)
    bench.append(0, [])
    for (let number = 1; number <= 20; number++) {
      bench.promise({ number, payload: number, transactions: [number, number + 20] })
      bench.append(number, [number, number + 20])
      bench.clock.ms += HOUR_MS
    }
    const left = () =>
      [...bench.database.scan('ledger', ALL_KEYS)].filter(({ key }) => key[0]! <= 3).length
    return { bench, left }
  }
  const numbers = (bench: Bench) =>
    [...new Set(bench.found().map((one) => Number(one.split(' ')[0])))].toSorted((a, b) => a - b)

  test('as full heights when they are too old', () => {
    const { bench, left } = filled({ ...LIMITS, retentionMs: 5 * HOUR_MS })
    expect(bench.ledger.isDue()).toBe(true)
    for (const _ of bench.ledger.prune());
    expect(bench.ledger.isDue()).toBe(false)
    expect(numbers(bench)).toEqual([16, 17, 18, 19, 20])
    expect(left()).toBe(3 * 5)
    expect(openLedgerReader(bench.database).promisesOf(hashOf(1))).toEqual([])
    // The counts stay.
    expect(bench.ledger.stats().counts).toMatchObject({ promises: 40, kept: 40 })
    bench.clock.ms += 100 * HOUR_MS
    for (const _ of bench.ledger.prune());
    expect([left(), bench.ledger.stats().bytes]).toEqual([0, 0])
  })

  test('until the size limit is met, and no more', () => {
    const { bench } = filled(LIMITS)
    const { bytes } = bench.ledger.stats()
    const limits = { ...LIMITS, bytes: bytes / 2 }
    const ledger = new Ledger({ database: bench.database, limits, wallMs: () => bench.clock.ms })
    for (const _ of ledger.prune());
    const kept = numbers(bench)
    expect(kept.at(-1)).toBe(20)
    expect(kept.length).toBe(10)
    expect(ledger.stats().bytes).toBeLessThanOrEqual(bytes / 2)
  })

  test('even if they are open, and then count as unseen', () => {
    const { bench } = filled({ ...LIMITS, retentionMs: 5 * HOUR_MS })
    bench.promise({ number: 30, payload: 30, transactions: [7] })
    bench.clock.ms += 100 * HOUR_MS
    for (const _ of bench.ledger.prune());
    expect(bench.ledger.stats().counts).toMatchObject({ promises: 41, kept: 40, unseen: 1 })
  })
})

test('counts cover the requested minutes or hours and survive a restart', () => {
  const bench = new Bench()
  bench.append(0, [])
  for (let number = 1; number <= 8; number++) {
    bench.promise({ number, payload: number, transactions: [number] })
    bench.ledger.taken([number * 60])
    bench.append(number, number % 2 === 0 ? [number] : [])
    bench.clock.ms += HOUR_MS / 2
  }
  bench.start()
  const reader = openLedgerReader(bench.database)
  const since = (ms: number) => reader.countsSince(bench.clock.ms - ms, bench.clock.ms)
  expect(since(HOUR_MS).counts).toMatchObject({ promises: 2, kept: 1, dropped: 1 })
  expect(since(3 * HOUR_MS).counts.promises).toBeGreaterThanOrEqual(6)
  expect(since(100 * HOUR_MS).counts).toMatchObject({ promises: 8, kept: 4, dropped: 4 })
  expect(since(100 * HOUR_MS).counts.taken).toMatchObject({ count: 8, sumMs: 36 * 60 })
  expect(since(100 * HOUR_MS).fromMs % HOUR_MS).toBe(0)
  expect(bench.ledger.stats().counts).toMatchObject({ promises: 8, kept: 4, dropped: 4 })
})

test('counts by the minute are dropped after three hours', () => {
  const bench = new Bench()
  bench.append(0, [])
  for (let number = 1; number <= 400; number++) {
    bench.promise({ number, payload: number % 250, transactions: [number % 250] })
    bench.clock.ms += 60_000
  }
  const minutes = [...bench.database.scan('ledger', ALL_KEYS)].filter(({ key }) => key[0] === 4)
  expect(minutes.length).toBeLessThanOrEqual(185)
  expect(minutes.length).toBeGreaterThanOrEqual(175)
})

test('a quantile is the bound of its bucket', () => {
  const buckets = TIME_BOUNDS_MS.map(() => 0)
  const times = { count: 10, sumMs: 0, buckets: [4, 4, ...buckets.slice(2), 2] }
  expect([0.1, 0.4, 0.5, 0.8, 0.9].map((share) => quantile(times, share))).toEqual([
    10,
    10,
    25,
    25,
    undefined,
  ])
  expect(quantile({ ...times, count: 0 }, 0.5)).toBeUndefined()
})
