/**
 * Rows are read before the writer requests them: the tests check their choice, their number, and
 * when prefetching stops.
 */
import { expect, test } from 'vitest'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { encodeRlp, type RlpItem } from '../../../engine/primitives/rlp.ts'
import { DatabaseError } from '../../../engine/storage/database/options.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import { Prefetcher } from '../../../workers/feed-client/prefetcher.ts'

const address = (at: number): Bytes => new Uint8Array(20).fill(1).with(19, at)
const slot = (at: number): Bytes => new Uint8Array(32).fill(2).with(31, at)
/** Makes metadata with this many accounts from `from` on, each with two slots. */
const metadataOf = (count: number, from = 0) => {
  const list: RlpItem = Array.from({ length: count }, (_, at) => [
    ...[address(from + at), [[slot(at), []]], [slot(at + 100)], [], [], []],
  ])
  return { block_number: 1, access_list: bytesToHex(encodeRlp(list)) }
}

/** Makes a database in memory in which each row takes this long. */
function start(msPerRow: number, onRead: () => void = () => {}) {
  const database = memoryDatabase()
  const reads: string[] = []
  const counts: Record<string, number> = {}
  const warnings: string[] = []
  let ms = 0
  const prefetcher = new Prefetcher({
    database: {
      getMany(column, keys) {
        onRead()
        reads.push(`${column} ${keys.length}`)
        ms += msPerRow * keys.length
        return database.getMany(column, keys)
      },
    },
    bounds: { bytes: 100_000, items: 600 },
    now: () => ms,
    turn: async () => {},
    count: (what, by) => {
      counts[what] = (counts[what] ?? 0) + by
    },
    warn: (message) => warnings.push(message),
  })
  return { prefetcher, reads, counts, warnings }
}

test('all accounts and slots are read from a slow disk, in parts', async () => {
  const { prefetcher, reads, counts } = start(0.1)
  await prefetcher.read(metadataOf(70))
  expect(reads).toEqual(['accounts 64', 'accounts 6', 'slots 64', 'slots 64', 'slots 12'])
  expect(counts).toEqual({ access_lists: 1, rows_read_ahead: 210 })
})
test('the rest of a list is skipped when its rows are in memory already', async () => {
  const { prefetcher, reads } = start(0.01)
  await prefetcher.read(metadataOf(70))
  expect(reads).toEqual(['accounts 64', 'slots 64'])
})
test('a row is read only once', async () => {
  const { prefetcher, reads } = start(0.1)
  await prefetcher.read(metadataOf(10))
  await prefetcher.read(metadataOf(12))
  expect(reads).toEqual(['accounts 10', 'slots 20', 'accounts 2', 'slots 4'])
})
test('a newer list ends an older one', async () => {
  const { prefetcher, reads } = start(0.1)
  await Promise.all([prefetcher.read(metadataOf(70)), prefetcher.read(metadataOf(3, 100))])
  expect(reads).toEqual(['accounts 64', 'accounts 3', 'slots 6'])
})
test('without a valid list of limited size nothing is read', async () => {
  const { prefetcher, reads, counts, warnings } = start(0.1)
  await prefetcher.read(undefined)
  for (const access_list of [undefined, null, '0xc101', 5]) await prefetcher.read({ access_list })
  await prefetcher.read(metadataOf(201))
  expect(reads).toEqual([])
  expect(counts).toEqual({ access_lists_malformed: 2, access_lists_too_large: 1 })
  expect(warnings).toEqual([
    'an access list is ignored: access-list: expected a list',
    expect.stringContaining('access-list: expected'),
    'an access list is ignored: access-list-size: expected at most 600 accounts and slots, got more',
  ])
})
test('a database error is left to the writer', async () => {
  const { prefetcher } = start(0.1, () => {
    throw new DatabaseError('closed', 'the database is closed')
  })
  await expect(prefetcher.read(metadataOf(3))).resolves.toBeUndefined()
})
