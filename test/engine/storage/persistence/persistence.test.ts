/**
 * The persistence thread is compared with worlds in maps: whatever happens between two slices,
 * every persisted block reads unchanged.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeHeader } from '../../../../engine/primitives/header.ts'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { META } from '../../../../engine/storage/database/meta.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { openLedgerReader } from '../../../../engine/storage/ledger/reader.ts'
import { createPersistence } from '../../../../engine/storage/persistence/persistence.ts'
import { type Action, action } from '../../../fixtures/chain-model.ts'
import { Bench, PERSIST_DEPTH, UNDO_WINDOW } from '../../../fixtures/persistence-bench.ts'
import {
  actionsOf,
  childOf,
  GENESIS_NUMBER,
  hex,
  type ModelBlock,
  plainWords,
} from '../../../fixtures/persistence-chain.ts'
import { promised } from '../../../fixtures/promised.ts'

type Step =
  | { kind: 'append'; flashblocks: Action[][]; isAdvanced: boolean }
  | { kind: 'run'; slices: number }
  | { kind: 'crash' }
  | { kind: 'reorg' | 'rewind'; depth: number }
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      flashblocks: fc.array(fc.array(action, { maxLength: 4 }), { minLength: 1, maxLength: 2 }),
      isAdvanced: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('run' as const),
      slices: fc.integer({ min: 1, max: 8 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('crash' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('reorg' as const, 'rewind' as const),
      depth: fc.integer({ min: 1, max: 6 }),
    }),
  },
)

test('every persisted block reads unchanged in any history of the persistence thread', () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 10, maxLength: 45 }), (steps) => {
      const bench = new Bench()
      for (const now of steps) {
        if (now.kind === 'append') bench.append(now.flashblocks, now.isAdvanced)
        else if (now.kind === 'run') for (let i = 0; i < now.slices; i++) bench.step()
        else if (now.kind === 'crash') bench.crash()
        else {
          const to = Math.max(GENESIS_NUMBER, bench.head.number - now.depth)
          if (to >= bench.head.number || to < bench.highestPersisted - UNDO_WINDOW) continue
          if (now.kind === 'rewind') {
            bench.rewind(to)
            bench.check(2)
            continue
          }
          bench.reorg(to)
          bench.append([[{ address: 1, isDeleted: false, nonce: 3, slots: [[1, 3]] }]], false)
        }
        bench.check(2)
      }
      bench.settle()
      bench.check()
      bench.checkIndexes()
      expect(bench.failures()).toEqual([])
      // The difference is smaller only where a reorg has left a shorter chain above its common
      // ancestor.
      expect(bench.head.number - bench.persisted).toBeLessThanOrEqual(PERSIST_DEPTH)
      bench.crash()
      bench.check()
    }),
    { numRuns: 40 },
  )
})

describe('a persist pass', () => {
  test('announces its block before its first write, and its end after the stamps', () => {
    const bench = new Bench()
    for (let i = 0; i < PERSIST_DEPTH; i++) bench.append([actionsOf(i)], true)
    bench.settle()
    expect(bench.persisted).toBe(GENESIS_NUMBER)
    expect(bench.words.state.persistedId).toBe(1)
    bench.append([actionsOf(9)], true)
    const first = bench.at(GENESIS_NUMBER + 1)
    bench.step()
    expect(bench.words.state.persistedId).toBe(first.append.id)
    expect(bench.responses).not.toContainEqual(expect.objectContaining({ type: 'folded' }))
    bench.settle()
    const { number, hash } = first
    expect(bench.responses).toContainEqual({ type: 'folded', id: first.append.id, number, hash })
    expect(new Set(bench.words.stamps.values())).toEqual(new Set([number]))
    expect(bench.persistence.stats()).toMatchObject({
      foldLag: PERSIST_DEPTH,
      foldedNumber: number,
    })
  })

  test('stops at a block whose header has another root', () => {
    const bench = new Bench()
    bench.append([actionsOf(1)], true)
    const wrong = childOf(bench.head, actionsOf(2), 50)
    const diff = childOf(bench.head, actionsOf(3), 50).append.diff
    bench.send({ type: 'append', block: { ...wrong.append, diff } })
    bench.chain.push(wrong)
    bench.append([], false)
    bench.append([], false)
    bench.settle()
    expect(bench.persisted).toBe(GENESIS_NUMBER + 1)
    expect(bench.failures()).toHaveLength(1)
    expect(bench.failures()[0]).toMatchObject({
      message: expect.stringContaining('its header says'),
    })
    // After reopening, the durable head is the last block with a right root.
    const { opened } = createPersistence({
      database: bench.database,
      words: plainWords(),
      now: () => 0,
    })
    expect(opened.durableHead.number).toBe(GENESIS_NUMBER + 1)
    expect(opened.dropped.map(({ number }) => number)).toEqual([9, 10, 11])
  })
})

describe('an unfinished persist pass', () => {
  /** Starts to persist the block on the genesis; `slices` slices of it are written. */
  const started = (slices: number) => {
    const bench = new Bench()
    bench.append([actionsOf(60)], true)
    for (let i = 1; i < PERSIST_DEPTH; i++) bench.append([[]], true)
    const competing = childOf(bench.at(GENESIS_NUMBER), actionsOf(61), 70)
    bench.send({ type: 'advance', id: 70, parentId: 1, diff: competing.diff })
    bench.settle()
    bench.append([[]], true)
    for (let i = 0; i < slices; i++) bench.step()
    expect(bench.persisted).toBe(GENESIS_NUMBER)
    return { bench, competing }
  }
  // After one slice some flat state is written, after two the undo rows. After three the trie is
  // written, after four the postings of its logs.
  const slices = [1, 2, 3, 4]

  test.each(slices)('is taken back by a reorg to its parent (%i slices)', (count) => {
    const { bench } = started(count)
    bench.reorg(GENESIS_NUMBER)
    for (let i = 0; i < PERSIST_DEPTH + 2; i++) bench.append([actionsOf(80 + i)], i % 2 === 1)
    expect(bench.words.state.unwinds).toBe(1)
    bench.settle()
    bench.check()
    bench.checkIndexes()
    expect(bench.failures()).toEqual([])
  })

  test.each(slices)('is taken back by the next open after such a reorg (%i slices)', (count) => {
    const { bench } = started(count)
    bench.reorg(GENESIS_NUMBER)
    const block = childOf(bench.head, [], 90)
    bench.send({ type: 'append', block: block.append })
    bench.chain.push(block)
    bench.crash()
    for (let i = 0; i < PERSIST_DEPTH + 1; i++) bench.append([actionsOf(80 + i)], false)
    bench.settle()
    bench.check()
  })

  test.each(slices)('is repeated by the next open (%i slices)', (count) => {
    const { bench } = started(count)
    bench.crash()
    expect(bench.persisted).toBe(GENESIS_NUMBER + 1)
    bench.check()
    bench.checkIndexes()
  })

  test('reads no diff for a preview on an unknown block', () => {
    const rows = memoryDatabase()
    let diffs = 0
    const get: Database['get'] = (column, key) => {
      if (column === 'diffs') diffs++
      return rows.get(column, key)
    }
    const bench = new Bench({ database: { ...rows, get } })
    for (let at = 0; at <= PERSIST_DEPTH; at++) bench.append([actionsOf(at)], true)
    bench.step()
    expect(rows.get('meta', META.persisting)).toBeDefined()
    diffs = 0
    bench.send({ type: 'preview', request: 7, parentStateRoot: new Uint8Array(32), diff: [] })
    bench.step()
    expect(bench.responses.at(-1)).toEqual({ type: 'preview', request: 7, roots: undefined })
    expect(diffs).toBe(0)
    expect(rows.get('meta', META.persisting)).toBeDefined()
  })

  test('offers no trie of its parent or of a competing block', () => {
    const { bench, competing } = started(1)
    const { stateRoot, append } = bench.at(GENESIS_NUMBER)
    const responded = bench.responses.length
    bench.send({ type: 'root', id: 70 })
    bench.send({ type: 'advance', id: 71, parentId: append.id, diff: competing.diff })
    bench.send({ type: 'root', id: 71 })
    bench.send({ type: 'preview', request: 1, parentStateRoot: stateRoot, diff: [] })
    for (let i = 0; i < 4; i++) bench.step()
    const preview = { type: 'preview', request: 1, roots: undefined }
    expect(bench.responses.slice(responded)).toEqual([preview])
  })
})

describe('a rewind', () => {
  const grown = () => {
    const bench = new Bench()
    for (let i = 0; i < 7; i++) bench.append([actionsOf(i)], i % 2 === 0)
    bench.settle()
    return bench
  }
  const goesOn = (bench: Bench) => {
    bench.check()
    for (let i = 0; i < PERSIST_DEPTH + 2; i++) bench.append([actionsOf(80 + i)], i % 2 === 1)
    bench.settle()
    bench.check()
    bench.checkIndexes()
    expect(bench.failures()).toEqual([])
  }

  test('to an unpersisted block moves only the durable head', () => {
    const bench = grown()
    const { number, hash } = bench.at(bench.persisted + 1)
    bench.rewind(number)
    expect(bench.responses.at(-1)).toEqual({ type: 'rewound', hash })
    expect(bench.words.state.unwinds).toBe(0)
    goesOn(bench)
  })

  test('to a persisted block unwinds to it without a new block', () => {
    const bench = grown()
    const to = bench.at(bench.persisted - 2)
    bench.rewind(to.number)
    expect(bench.responses.at(-1)).toMatchObject({ type: 'unfolded', toNumber: to.number })
    expect(bench.persisted).toBe(to.number)
    expect(bench.persistence.stats()).toMatchObject({ durableNumber: to.number, foldLag: 0 })
    goesOn(bench)
  })

  test.each([0, 1, 2, 3])('is finished by the next open (%i slices)', (slices) => {
    const bench = grown()
    bench.sendRewind(bench.persisted - 2)
    for (let at = 0; at < slices; at++) bench.step()
    bench.crash()
    goesOn(bench)
  })

  test('beyond the undo window is refused', () => {
    const bench = new Bench()
    for (let i = 0; i < UNDO_WINDOW + 5; i++) bench.append([actionsOf(i)], false)
    bench.settle()
    const to = bench.at(GENESIS_NUMBER)
    const { durableNumber } = bench.persistence.stats()
    bench.send({ type: 'rewind', to: { number: to.number, hash: to.hash } })
    expect(bench.failures()).toMatchObject([
      { message: expect.stringContaining('cannot be unwound') },
    ])
    expect(bench.persistence.stats()).toMatchObject({ durableNumber })
  })
})

describe('an unwind', () => {
  test('comes after the new branch is durable, and its first write voids older views', () => {
    const bench = new Bench()
    for (let i = 0; i < 7; i++) bench.append([actionsOf(i)], i % 2 === 0)
    bench.settle()
    const persisted = bench.persisted
    const to = bench.at(persisted - 2)
    bench.reorg(to.number)
    const block = childOf(to, actionsOf(77), 90)
    bench.send({ type: 'append', block: block.append })
    expect(hex(openStore(bench.database).durableHead().hash)).toBe(hex(block.hash))
    expect(bench.persisted).toBe(persisted)
    expect(bench.words.state.unwinds).toBe(1)
    bench.chain.push(block)
    while (bench.isUnwinding()) bench.step()
    const [unpersisted, appended] = bench.responses.slice(-2)
    const toId = to.append.id
    expect(unpersisted).toEqual({
      type: 'unfolded',
      toNumber: to.number,
      toHash: to.hash,
      toId,
      unwinds: 1,
    })
    expect(appended).toEqual({ type: 'appended', id: 90, number: block.number })
    expect(bench.words.state.persistedId).toBe(toId)
    bench.check()
    bench.send({ type: 'root', id: 90 })
    bench.step()
    const { stateRoot, withdrawalsRoot } = block
    expect(bench.responses.at(-1)).toEqual({ type: 'root', id: 90, stateRoot, withdrawalsRoot })
  })

  test('is finished by the next open', () => {
    const bench = new Bench()
    for (let i = 0; i < 7; i++) bench.append([actionsOf(i)], false)
    bench.settle()
    const to = bench.at(bench.persisted - 3)
    bench.reorg(to.number)
    const block = childOf(to, actionsOf(77), 90)
    bench.send({ type: 'append', block: block.append })
    bench.step()
    bench.chain.push(block)
    bench.crash()
    bench.check()
    expect(bench.persisted).toBe(to.number)
  })

  test('below the undo window is refused', () => {
    const bench = new Bench()
    for (let i = 0; i < UNDO_WINDOW + 6; i++) bench.append([actionsOf(i)], false)
    bench.settle()
    const before = bench.head
    const block = childOf(bench.at(GENESIS_NUMBER + 1), actionsOf(77), 90)
    bench.send({ type: 'append', block: block.append })
    expect(bench.failures()[0]).toMatchObject({
      message: expect.stringContaining('cannot be unwound'),
    })
    expect(hex(openStore(bench.database).durableHead().hash)).toBe(hex(before.hash))
    expect(bench.persistence.hasWork()).toBe(false)
  })
})

test('a late promise is decided at once by the branch of the durable head', () => {
  const bench = new Bench()
  for (let n = 0; n < 2; n++) bench.append([[]], false)
  for (const number of [GENESIS_NUMBER + 3, GENESIS_NUMBER + 1])
    bench.send({ type: 'promise', promised: promised({ number, transactions: [1] }) })
  const { promisesAt } = openLedgerReader(bench.database)
  expect(promisesAt(GENESIS_NUMBER + 1)).toMatchObject([{ outcome: 'dropped' }])
  expect(promisesAt(GENESIS_NUMBER + 3)).toMatchObject([{ outcome: 'open' }])
})

test('a preview gives the roots of a diff over any known block and keeps nothing', () => {
  const bench = new Bench()
  const parent = bench.append([actionsOf(1)], true)
  const requested = childOf(parent, actionsOf(2), 99)
  const request = (parentStateRoot: Uint8Array) => {
    bench.send({ type: 'preview', request: 5, parentStateRoot, diff: requested.diff })
    bench.step()
    return bench.responses.at(-1)
  }
  const { stateRoot, withdrawalsRoot } = requested
  const roots = { stateRoot, withdrawalsRoot }
  expect(request(parent.stateRoot)).toEqual({ type: 'preview', request: 5, roots })
  expect(request(parent.stateRoot)).toEqual({ type: 'preview', request: 5, roots })
  expect(request(new Uint8Array(32))).toEqual({ type: 'preview', request: 5, roots: undefined })
  bench.append([actionsOf(3)], true)
})

test('a forgotten payload has no root, and labelled heads are stored', () => {
  const bench = new Bench()
  const competing = childOf(bench.head, actionsOf(5), 70)
  bench.send({ type: 'advance', id: 70, parentId: 1, diff: competing.diff })
  bench.send({ type: 'forget', id: 70 })
  bench.send({ type: 'root', id: 70 })
  bench.settle()
  expect(bench.responses).toEqual([])
  const store = openStore(bench.database)
  expect(store.labelledHeads()).toEqual({ safe: GENESIS_NUMBER, finalized: GENESIS_NUMBER })
  bench.send({ type: 'marks', safe: 2 ** 33, finalized: 8 })
  expect(store.labelledHeads()).toEqual({ safe: 2 ** 33, finalized: 8 })
})

test('pruning removes old partial headers, branches, undo data and history', () => {
  const bench = new Bench({ historyBlocks: 8 })
  const all: ModelBlock[] = []
  for (let i = 0; i < 90; i++) {
    if (i === 3) {
      all.push(bench.append([actionsOf(500)], true))
      bench.reorg(bench.head.number - 1)
    }
    all.push(bench.append([actionsOf(i)], true))
    bench.settle()
    if (i % 10 === 0) bench.check()
  }
  bench.check()
  const store = openStore(bench.database)
  const persisted = bench.persisted
  expect(store.oldestState()).toBe(persisted - 8)
  expect(bench.words.state.oldest).toBe(persisted - 8)
  const rows = (column: Parameters<Database['scan']>[0]) => [
    ...bench.database.scan(column, { gte: new Uint8Array(0), lt: new Uint8Array(60).fill(0xff) }),
  ]
  const historyHeights = rows('slotHistory').map(({ key }) => Buffer.from(key).readUInt32BE(56))
  expect(historyHeights.length).toBeGreaterThan(0)
  expect(Math.min(...historyHeights)).toBeGreaterThan(persisted - 8)
  expect(rows('diffs')).toHaveLength(8 + PERSIST_DEPTH)
  expect(rows('heights')).toHaveLength(UNDO_WINDOW + PERSIST_DEPTH)
  expect(new Set(rows('undo').map(({ key }) => hex(key.slice(0, 32)))).size).toBeLessThanOrEqual(6)
  const [recent, old] = [bench.at(persisted - 63), bench.at(persisted - 64)]
  for (const [block, isRetained] of [
    [recent, true],
    [old, false],
  ] as const) {
    const { hash, header, index } = block.append.partialHeaders[1]!
    const found = store.partialHeader(hash)
    expect(found !== undefined).toBe(isRetained)
    if (found !== undefined)
      expect([hex(found.blockHash), hex(found.header), found.index]).toEqual([
        hex(block.hash),
        hex(header),
        index,
      ])
  }
  const dropped = all.find(
    ({ hash }) => !bench.chain.some((block) => hex(block.hash) === hex(hash)),
  )!
  expect(store.header(dropped.hash)).toBeUndefined()
  expect(store.body(dropped.hash)).toBeUndefined()
  expect(Number(decodeHeader(store.header(bench.at(12).hash)!).number)).toBe(12)
})
