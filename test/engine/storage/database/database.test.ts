/**
 * RocksDB and the memory implementation pass one suite of the database interface; further tests are
 * for RocksDB only.
 */
import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Bytes } from '../../../../engine/primitives/bytes.ts'
import { columnOptions } from '../../../../engine/storage/database/columns.ts'
import { attachDatabase, openDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { databases, temporaryDirectory } from '../../../fixtures/databases.ts'
import { openSmall } from '../../../fixtures/databases-open.ts'

const text = (value: string): Bytes => new TextEncoder().encode(value)
const read = (value: Bytes | undefined) => value && Buffer.from(value).toString()
const reasonOf = (call: () => unknown): string => {
  try {
    call()
    return 'no error'
  } catch (error) {
    return (error as { reason: string }).reason
  }
}

describe.each(databases)('the database in %s', (_, open) => {
  let database: Database
  beforeAll(async () => {
    database = await open()
  })
  afterAll(() => database.close())

  test('shows a batch only after its commit, which empties the batch', () => {
    const batch = database.batch()
    batch.put('slots', text('a'), text('1'))
    batch.put('meta', text('a'), text(''))
    batch.put('slots', text('a'), text('2'))
    expect(batch.length).toBe(3)
    expect(database.get('slots', text('a'))).toBeUndefined()
    batch.commit()
    expect(batch.length).toBe(0)
    expect(read(database.get('slots', text('a')))).toBe('2')
    expect(database.get('meta', text('a'))).toHaveLength(0)
    expect(database.get('code', text('a'))).toBeUndefined()
    batch.delete('slots', text('a'))
    batch.commit({ isSynced: true })
    expect(database.get('slots', text('a'))).toBeUndefined()
    database.flush()
  })

  test('can be synced while it takes other commits', async () => {
    const batch = database.batch()
    batch.put('meta', text('safe'), text('1'))
    batch.commit()
    const synced = database.sync()
    batch.put('meta', text('safe'), text('2'))
    batch.commit()
    await synced
    await database.sync()
    expect(read(database.get('meta', text('safe')))).toBe('2')
    expect(await database.logBytes()).toBeGreaterThanOrEqual(0)
  })

  test('copies keys and values', () => {
    const key = text('mine')
    const value = text('mine')
    const batch = database.batch()
    batch.put('meta', key, value)
    key.fill(0)
    value.fill(0)
    batch.commit()
    const found = database.get('meta', text('mine'))
    expect(read(found)).toBe('mine')
    found?.fill(0)
    expect(read(database.get('meta', text('mine')))).toBe('mine')
  })

  test('returns bytes whose slices are copies', () => {
    const batch = database.batch()
    batch.put('meta', text('sliced'), text('0123456789'))
    batch.commit()
    const range = { gte: text('sliced'), lt: text('slicee') }
    const found = [
      ...database.getMany('meta', [text('sliced')]),
      ...database.range('meta', { ...range, limit: 1 }).map(({ value }) => value),
      ...[...database.scan('meta', range)].flatMap(({ key, value }) => [value, key]),
    ]
    expect(found).toHaveLength(4)
    for (const bytes of found) {
      const part = bytes!.slice(1, 5)
      const before = read(part)
      bytes!.fill(0)
      expect(read(part)).toBe(before)
    }
  })

  test('keeps order and duplicates in getMany', () => {
    const batch = database.batch()
    batch.put('code', text('x'), text('X'))
    batch.put('code', text('y'), text('Y'))
    batch.commit()
    for (const isOnce of [false, true]) {
      const found = database.getMany('code', ['y', 'none', 'x', 'y'].map(text), { isOnce })
      expect(found.map(read)).toEqual(['Y', undefined, 'X', 'Y'])
    }
  })

  test('scans the rows of one moment', () => {
    const batch = database.batch()
    for (let i = 0; i < 2500; i++) batch.put('headers', text(`s${1000 + i}`), text('old'))
    batch.commit()
    const bounds = { gte: text('s'), lt: text('t') }
    let seen = 0
    for (const { value } of database.scan('headers', bounds)) {
      if (seen === 0) {
        batch.put('headers', text('s9999'), text('new'))
        batch.put('headers', text('s3000'), text('new'))
        batch.commit()
      }
      expect(read(value)).toBe('old')
      seen++
    }
    expect(seen).toBe(2500)
    expect(database.range('headers', { ...bounds, limit: 10 })).toHaveLength(10)
    for (const { key } of database.scan('headers', { ...bounds, reverse: true })) {
      expect(read(key)).toBe('s9999')
      break
    }
  })

  test('appends merges in the order of the batch and of the commits', () => {
    const batch = database.batch()
    batch.merge('logs', text('list'), text('a'))
    batch.merge('logs', text('list'), text('b'))
    batch.commit()
    batch.merge('logs', text('list'), text('c'))
    batch.merge('logs', text('other'), text('x'))
    expect(read(database.get('logs', text('list')))).toBe('ab')
    batch.commit()
    expect(database.getMany('logs', [text('list'), text('other')]).map(read)).toEqual(['abc', 'x'])
    batch.delete('logs', text('list'))
    batch.merge('logs', text('list'), text('d'))
    batch.commit()
    expect(read(database.get('logs', text('list')))).toBe('d')
    expect(reasonOf(() => batch.merge('meta', text('list'), text('a')))).toBe('invalid')
  })

  test('refuses invalid calls', () => {
    const nowhere = 'nowhere' as 'meta'
    const nothing = 5 as unknown as Bytes
    const batch = database.batch()
    const bounds = { gte: text('a'), lt: text('b') }
    expect(reasonOf(() => database.get(nowhere, text('a')))).toBe('invalid')
    expect(reasonOf(() => database.get('meta', nothing))).toBe('invalid')
    expect(reasonOf(() => batch.put(nowhere, text('a'), text('a')))).toBe('invalid')
    expect(reasonOf(() => batch.put('meta', nothing, text('a')))).toBe('invalid')
    expect(reasonOf(() => database.range('meta', { ...bounds, gte: nothing, limit: 1 }))).toBe(
      'invalid',
    )
    expect(reasonOf(() => database.range('meta', { ...bounds, limit: 0 }))).toBe('invalid')
  })

  test('gives ranges like a sorted list', () => {
    const key = fc.uint8Array({ minLength: 0, maxLength: 3 })
    const writes = fc.array(fc.tuple(key, fc.boolean()), { maxLength: 30 })
    fc.assert(
      fc.property(writes, key, key, fc.integer({ min: 1, max: 9 }), (list, gte, lt, limit) => {
        const batch = database.batch()
        for (const { key: old } of database.scan('diffs', ALL)) batch.delete('diffs', old)
        const model = new Map<string, Bytes>()
        for (const [name, isPut] of list) {
          const id = Buffer.from(name).toString('hex')
          if (isPut) {
            batch.put('diffs', name, name)
            model.set(id, name)
          } else {
            batch.delete('diffs', name)
            model.delete(id)
          }
        }
        batch.commit()
        const inside = [...model.values()]
          .sort(Buffer.compare)
          .filter((name) => Buffer.compare(name, gte) >= 0 && Buffer.compare(name, lt) < 0)
        const hex = (entries: { key: Bytes }[]) =>
          entries.map((entry) => Buffer.from(entry.key).toString('hex'))
        const expected = inside.map((name) => Buffer.from(name).toString('hex'))
        expect(hex(database.range('diffs', { gte, lt, limit }))).toEqual(expected.slice(0, limit))
        expect(hex(database.range('diffs', { gte, lt, limit, reverse: true }))).toEqual(
          expected.toReversed().slice(0, limit),
        )
      }),
      { numRuns: 100 },
    )
  })

  test('refuses every call after its close', async () => {
    const other = await open()
    const batch = other.batch()
    batch.put('meta', text('a'), text('a'))
    await other.close()
    expect(reasonOf(() => other.get('meta', text('a')))).toBe('closed')
    expect(reasonOf(() => batch.commit())).toBe('closed')
    await other.close()
  })
})

const ALL = { gte: new Uint8Array(0), lt: new Uint8Array(8).fill(0xff) }

describe('a RocksDB database', () => {
  const reject = (promise: Promise<unknown>) =>
    promise.then(
      () => 'no error',
      (error: { reason: string; message: string }) => `${error.reason}: ${error.message}`,
    )

  test('refuses options that the binding would ignore', async () => {
    const path = join(temporaryDirectory(), 'state')
    const columns = columnOptions()
    expect(await reject(openDatabase(path, columns))).toBe(`missing: no database in ${path}`)
    expect(await reject(openDatabase(path, columns, { writeBufferSize: 1 } as object))).toBe(
      'invalid: database: unknown option "writeBufferSize"',
    )
    const wrong = { ...columns, slots: { cacheSize: 2 ** 32 } }
    expect(await reject(openDatabase(path, wrong))).toBe(
      'invalid: column slots: bad value for "cacheSize": 4294967296',
    )
  })

  test('locks its directory, and has its commits after a reopen', async () => {
    const path = join(temporaryDirectory(), 'state')
    const database = await openSmall(path)
    expect(await reject(openSmall(path))).toMatch(/^locked: /)
    const batch = database.batch()
    batch.put('meta', text('a'), text('kept'))
    batch.commit()
    expect(database.stats()).toMatchObject({ backgroundErrors: 0, isWriteStopped: false })
    expect(database.stats().sequence).toBeGreaterThan(0)
    await database.close()
    const reopened = await openSmall(path)
    expect(read(reopened.get('meta', text('a')))).toBe('kept')
    await reopened.close()
  })

  test('can be read by attached threads, which cannot write and survive its close', async () => {
    const database = await openSmall(join(temporaryDirectory(), 'state'))
    const reader = attachDatabase(database.share())
    expect(reasonOf(() => reader.batch())).toBe('invalid')
    await reader.close()
    const workers = await Promise.all([0, 1].map(() => startReader(database)))
    const batch = database.batch()
    for (let i = 0; i < 50; i++) {
      batch.put('meta', text('word'), text(`${i}`))
      batch.commit()
      workers[0]!.postMessage('read')
      expect(await once(workers[0]!, 'message')).toEqual([`${i}`])
    }
    // One worker is terminated in the middle of reads, so it never leaves the read barrier by
    // itself.
    workers[1]!.postMessage('spin')
    await once(workers[1]!, 'message')
    await workers[1]!.terminate()
    workers[0]!.postMessage('spin')
    await once(workers[0]!, 'message')
    const last = once(workers[0]!, 'message')
    await database.close()
    expect(await last).toEqual(['closed'])
    await workers[0]!.terminate()
  })
})

async function startReader(database: Database): Promise<Worker> {
  const url = new URL('../../../fixtures/database-reader.ts', import.meta.url)
  const worker = new Worker(url, { workerData: database.share() })
  const id = worker.threadId
  worker.once('exit', () => database.threadEnded(id))
  await once(worker, 'message')
  return worker
}
