/** A column with few writes must not make RocksDB retain its log for ever. */
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { bigintToBytes } from '../../../../engine/primitives/words.ts'
import {
  COLUMN_NAMES,
  type ColumnName,
  MEMTABLE_BYTES,
} from '../../../../engine/storage/database/columns.ts'
import { openLogLength } from '../../../../engine/storage/database/log-length.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { temporaryDirectory } from '../../../fixtures/databases.ts'
import { openSmall } from '../../../fixtures/databases-open.ts'
import { Bench, PERSIST_DEPTH } from '../../../fixtures/persistence-bench.ts'
import { actionsOf } from '../../../fixtures/persistence-chain.ts'
import { mulberry32 } from '../../../kit/run-options.ts'

const MIB = 2 ** 20
const random = mulberry32(1)
/** Makes bytes that cannot be compressed. */
const noise = (length: number) => Uint8Array.from({ length }, () => random() * 256)
const NOISE = noise(MIB)
const keyOf = (at: number) => bigintToBytes(BigInt(at), 32)
const ALL = { gte: new Uint8Array(0), lt: new Uint8Array(70).fill(0xff) }
const ROW = 4000

test('the log stays short under rarely written columns, and every row stays', async () => {
  const span = 12 * MIB
  const database = await openSmall(join(temporaryDirectory(), 'state'))
  onTestFinished(() => database.close())
  const log = openLogLength(database, span)
  const batch = log.database.batch()
  for (const column of COLUMN_NAMES) batch.put(column, keyOf(0), noise(1000))
  batch.commit()
  const bodies: number[] = []
  let passes = 0
  while (bodies.length * ROW < 3 * span) {
    const offset = Math.floor(random() * (MIB - ROW))
    bodies.push(offset)
    batch.put('bodies', keyOf(bodies.length), NOISE.subarray(offset, offset + ROW))
    batch.put('numbers', keyOf(bodies.length), new Uint8Array(0))
    batch.commit()
    if (!log.isDue()) continue
    // The filler rows make the log longer too.
    while (log.isDue()) for (const _ of log.shorten());
    passes++
    // RocksDB writes files and deletes log files in its own threads.
    await expect.poll(() => database.logBytes()).toBeLessThan(span + MEMTABLE_BYTES.bodies * 2)
  }
  expect(passes).toBeGreaterThan(1)
  for (const column of COLUMN_NAMES) {
    const grown = column === 'bodies' || column === 'numbers'
    expect([...database.scan(column, ALL)]).toHaveLength(grown ? bodies.length + 1 : 1)
  }
  for (const [at, offset] of bodies.entries())
    if (at % 100 === 0)
      expect(database.get('bodies', keyOf(at + 1))).toEqual(NOISE.slice(offset, offset + ROW))
})

/** Counts the deletions of filler rows in each column. */
function watched(inner: Database, counts: Map<ColumnName, number>): Database {
  return {
    ...inner,
    batch() {
      const batch = inner.batch()
      let columns: ColumnName[] = []
      return {
        put: batch.put,
        merge: batch.merge,
        delete(column, key) {
          columns.push(column)
          batch.delete(column, key)
        },
        get length() {
          return batch.length
        },
        commit(options) {
          for (const column of columns) counts.set(column, (counts.get(column) ?? 0) + 1)
          if (options?.isRetained !== true) columns = []
          batch.commit(options)
        },
      }
    },
  }
}

test('only columns that lag get filler rows, each for two of its memtables', () => {
  const counts = new Map<ColumnName, number>()
  const inner = watched(memoryDatabase(), counts)
  const log = openLogLength(inner, 64 * MIB)
  const batch = log.database.batch()
  let at = 0
  for (; !log.isDue(); at++) {
    batch.put('bodies', keyOf(at % 100), new Uint8Array(64 * 1024))
    if (at % 2 === 0) batch.put('undo', keyOf(at % 100), new Uint8Array(64 * 1024))
    batch.commit()
  }
  expect(counts.size).toBe(0)
  // Undo rows are half as large as bodies, so two thirds of the log are bodies.
  expect(at * 1.5 * 64 * 1024).toBeGreaterThan(63 * MIB)
  expect(at * 1.5 * 64 * 1024).toBeLessThan(65 * MIB)
  for (const _ of log.shorten());
  expect([...counts.keys()].sort()).toEqual(
    COLUMN_NAMES.filter((name) => name !== 'bodies' && name !== 'undo').sort(),
  )
  for (const [column, count] of counts)
    expect((count * 30) / MEMTABLE_BYTES[column]).toBeGreaterThan(2.2)
  expect([...inner.scan('code', ALL)]).toEqual([])
  expect(log.isDue()).toBe(false)
  const before = new Map(counts)
  for (const _ of log.shorten());
  expect(counts).toEqual(before)
})

test('one commit fills at most one memtable, however large it is', () => {
  const counts = new Map<ColumnName, number>()
  const log = openLogLength(watched(memoryDatabase(), counts), 8 * MIB)
  const batch = log.database.batch()
  batch.put('meta', keyOf(0), new Uint8Array(9 * MIB))
  batch.commit()
  expect(log.isDue()).toBe(true)
  for (const _ of log.shorten());
  // The commit filled the first of its two memtables.
  expect((counts.get('meta')! * 30) / MEMTABLE_BYTES.meta).toBeLessThan(2)
  expect((counts.get('heights')! * 30) / MEMTABLE_BYTES.heights).toBeGreaterThan(2.2)
})

test('the persistence thread shortens the log between persist passes', () => {
  const counts = new Map<ColumnName, number>()
  const bench = new Bench({ database: watched(memoryDatabase(), counts), logSpanBytes: 1 })
  for (let i = 0; i < 10; i++) bench.append([actionsOf(i)], true)
  expect(bench.persistence.hasWork()).toBe(true)
  bench.stepUntil(() => bench.persisted === bench.head.number - PERSIST_DEPTH)
  bench.stepUntil(() => (counts.get('code') ?? 0) * 30 > 2 * MEMTABLE_BYTES.code)
  expect(bench.failures()).toEqual([])
  bench.check()
})
