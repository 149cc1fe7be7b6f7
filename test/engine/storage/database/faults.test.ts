/** Commits fail, one after the other; RocksDB is compared with the memory implementation. */
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { COLUMN_NAMES } from '../../../../engine/storage/database/columns.ts'
import { DatabaseError } from '../../../../engine/storage/database/options.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { PROMISED_BYTES } from '../../../../engine/storage/ledger-types.ts'
import { temporaryDirectory } from '../../../fixtures/databases.ts'
import { openSmall } from '../../../fixtures/databases-open.ts'
import { Bench } from '../../../fixtures/persistence-bench.ts'
import { actionsOf, childOf, hex, type ModelBlock } from '../../../fixtures/persistence-chain.ts'

/** Makes a database whose commits fail from some commit on, like with a full disk. */
function failing(inner: Database) {
  const state = { commitsLeft: Number.POSITIVE_INFINITY, written: 0 }
  const database: Database = {
    ...inner,
    batch() {
      const batch = inner.batch()
      return {
        put: batch.put,
        delete: batch.delete,
        merge: batch.merge,
        get length() {
          return batch.length
        },
        commit(options) {
          if (state.commitsLeft-- <= 0) throw new DatabaseError('io', 'No space left on device')
          state.written++
          batch.commit(options)
        },
      }
    },
  }
  return { database, state }
}

/**
 * Appends, persists and makes a deep reorg; stops at the first failure. `before` is the chain
 * before the last append.
 */
function* history(bench: Bench): Generator<{ before: readonly ModelBlock[] }, void> {
  for (let i = 0; i < 12; i++) {
    const before = bench.chain.slice()
    if (i === 8) bench.reorg(bench.head.number - 4)
    bench.append([actionsOf(i)], false)
    if (i % 2 === 1) bench.settle()
    yield { before }
  }
}

// The work takes seconds, which a busy machine turns into minutes.
const timeout = 180_000

describe('the persistence thread', { timeout }, () => {
  test('writes nothing after a failed commit, and the next open finds a full chain', () => {
    let failures = 0
    for (let commits = 0; ; commits++) {
      const { database, state } = failing(memoryDatabase())
      const bench = new Bench({ database })
      state.commitsLeft = commits
      let before: readonly ModelBlock[] = bench.chain
      for (const step of history(bench)) {
        before = step.before
        if (bench.failures().length > 0) break
      }
      if (bench.failures().length === 0) break
      failures++
      expect(bench.failures()[0]).toMatchObject({
        message: expect.stringContaining('No space left'),
      })
      expect(bench.persistence.hasWork()).toBe(false)
      const { written } = state
      state.commitsLeft = Number.POSITIVE_INFINITY
      bench.step()
      bench.send({ type: 'append', block: childOf(bench.head, [], 81).append })
      expect(bench.failures()).toHaveLength(2)
      expect(state.written).toBe(written)
      const durable = hex(openStore(database).durableHead().hash)
      if (durable !== hex(bench.head.hash)) bench.chain.splice(0, bench.chain.length, ...before)
      bench.crash()
      bench.settle()
      bench.check()
      bench.checkIndexes()
    }
    expect(failures).toBeGreaterThan(40)
  })

  test.each(['flush', 'sync'] as const)(
    'stops at a background error of RocksDB during a %s',
    async (call) => {
      const { database } = failing(memoryDatabase())
      const stats = { ...database.stats(), backgroundErrors: 1 }
      const bench = new Bench({ database: { ...database, stats: () => stats } })
      bench.record(await bench.persistence[call]())
      expect(bench.failures()[0]).toMatchObject({
        message: expect.stringContaining('background errors; repair the disk'),
      })
    },
  )

  const full = 'IO error: No space left on device: While appending to file: /d/state/000024.sst'
  test.each([
    ['the next write fails with this reason', full, undefined],
    ['the device has little free space', undefined, { path: '/d/state', freeBytes: 4_096 }],
  ])('reports a full disk after a background error, when %s', async (_, reason, disk) => {
    const { database } = failing(memoryDatabase())
    const stats = { ...database.stats(), backgroundErrors: 1, ...(disk && { disk }) }
    const flush = () => {
      if (reason !== undefined) throw new DatabaseError('io', reason)
    }
    const bench = new Bench({ database: { ...database, flush, stats: () => stats } })
    bench.record(await bench.persistence.flush())
    expect(bench.failures()[0]).toMatchObject({
      message: expect.stringMatching(
        /^storage: no space left on the device that holds \/d\/state \(.*\); free space on the disk/,
      ),
    })
  })

  test('stops when the disk does not take the log', async () => {
    const { database, state } = failing(memoryDatabase())
    const problem = new DatabaseError('io', 'EIO: i/o error, fdatasync')
    const bench = new Bench({ database: { ...database, sync: () => Promise.reject(problem) } })
    bench.record(await bench.persistence.sync())
    expect(bench.failures()).toEqual([])
    bench.append([actionsOf(0)], true)
    const { written } = state
    bench.record(await bench.persistence.sync())
    expect(bench.failures()[0]).toMatchObject({ message: expect.stringContaining('fdatasync') })
    expect(await bench.persistence.sync()).toEqual([])
    expect(bench.persistence.hasWork()).toBe(false)
    bench.send({ type: 'append', block: childOf(bench.head, [], 81).append })
    expect(state.written).toBe(written)
  })

  test('flushes at the end unless the log is already on the disk', async () => {
    const taken = Promise.withResolvers<void>()
    let flushes = 0
    const flush = () => void flushes++
    const inner = memoryDatabase()
    const bench = new Bench({ database: { ...inner, flush, sync: () => taken.promise } })
    bench.append([actionsOf(0)], true)
    const synced = bench.persistence.sync()
    bench.persistence.flush()
    expect(flushes).toBe(1)
    taken.resolve()
    await synced
    bench.persistence.flush()
    expect(flushes).toBe(1)
  })
})

test('RocksDB and memory have the same rows after the same history', { timeout }, async () => {
  const rocks = await openSmall(join(temporaryDirectory(), 'state'))
  const [left, right] = [rocks, memoryDatabase()].map((database) => {
    const bench = new Bench({ database, historyBlocks: 7 })
    bench.send({ type: 'promise', promised: PROMISED })
    for (const _ of history(bench)) bench.check()
    bench.crash()
    bench.settle()
    bench.record(bench.persistence.flush())
    expect(bench.failures()).toEqual([])
    const all = { gte: new Uint8Array(0), lt: new Uint8Array(80).fill(0xff) }
    return COLUMN_NAMES.map((column) =>
      [...database.scan(column, all)].map(
        ({ key, value }) => `${column} ${hex(key)} ${hex(value)}`,
      ),
    )
  })
  expect(left).toEqual(right)
  expect(left!.filter((rows) => rows.length === 0)).toEqual([])
  await rocks.close()
})

/** The promise belongs to a block in the middle of the history. */
const PROMISED = {
  number: 5,
  payloadId: new Uint8Array(8).fill(3),
  index: 1,
  atMs: 1,
  transactions: new Uint8Array(2 * PROMISED_BYTES).fill(7),
}
