/**
 * Rows that are read before the writer asks for them: which, how many, and when it is not worth it.
 */
import { expect, test } from 'vitest'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { encodeRlp, type RlpItem } from '../../../engine/primitives/rlp.ts'
import { DatabaseError } from '../../../engine/storage/database/options.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import { ReadAhead } from '../../../workers/feeds/read-ahead.ts'

const address = (at: number): Bytes => new Uint8Array(20).fill(1).with(19, at)
const slot = (at: number): Bytes => new Uint8Array(32).fill(2).with(31, at)
/** So many accounts from `from` on, each with two slots. */
const metadataOf = (count: number, from = 0) => {
  const list: RlpItem = Array.from({ length: count }, (_, at) => [
    ...[address(from + at), [[slot(at), []]], [slot(at + 100)], [], [], []],
  ])
  return { block_number: 1, access_list: bytesToHex(encodeRlp(list)) }
}

/** A database in memory whose rows take so long, each. */
function start(msPerRow: number, onRead: () => void = () => {}) {
  const database = memoryDatabase()
  const reads: string[] = []
  const counts: Record<string, number> = {}
  const warnings: string[] = []
  let ms = 0
  const ahead = new ReadAhead({
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
  return { ahead, reads, counts, warnings }
}

test('from a disk: all accounts and slots, a few at a time', async () => {
  const { ahead, reads, counts } = start(0.1)
  await ahead.read(metadataOf(70))
  expect(reads).toEqual(['accounts 64', 'accounts 6', 'slots 64', 'slots 64', 'slots 12'])
  expect(counts).toEqual({ access_lists: 1, rows_read_ahead: 210 })
})
test('in memory already: the rest of the list is left', async () => {
  const { ahead, reads } = start(0.01)
  await ahead.read(metadataOf(70))
  expect(reads).toEqual(['accounts 64', 'slots 64'])
})
test('what was read before is not read again', async () => {
  const { ahead, reads } = start(0.1)
  await ahead.read(metadataOf(10))
  await ahead.read(metadataOf(12))
  expect(reads).toEqual(['accounts 10', 'slots 20', 'accounts 2', 'slots 4'])
})
test('a newer list ends an older one', async () => {
  const { ahead, reads } = start(0.1)
  await Promise.all([ahead.read(metadataOf(70)), ahead.read(metadataOf(3, 100))])
  expect(reads).toEqual(['accounts 64', 'accounts 3', 'slots 6'])
})
test('without metadata, without a list, and with one that is wrong or too large nothing is read', async () => {
  const { ahead, reads, counts, warnings } = start(0.1)
  await ahead.read(undefined)
  for (const access_list of [undefined, null, '0xc101', 5]) await ahead.read({ access_list })
  await ahead.read(metadataOf(201))
  expect(reads).toEqual([])
  expect(counts).toEqual({ access_lists_malformed: 2, access_lists_too_large: 1 })
  expect(warnings).toEqual([
    'an access list is ignored: access-list: expected a list',
    expect.stringContaining('access-list: expected'),
    'an access list is ignored: access-list-size: expected at most 600 accounts and slots, got more',
  ])
})
test('a database that fails is the writer’s to report', async () => {
  const { ahead } = start(0.1, () => {
    throw new DatabaseError('closed', 'the database is closed')
  })
  await expect(ahead.read(metadataOf(3))).resolves.toBeUndefined()
})
