/**
 * Pages of the history columns, which are indexed by prefix, over several files: together they give
 * all rows in order.
 */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Bytes } from '../../../../engine/primitives/bytes.ts'
import { keccak256 } from '../../../../engine/primitives/keccak.ts'
import { bigintToBytes } from '../../../../engine/primitives/words.ts'
import { withNumber } from '../../../../engine/storage/blocks/block-codec.ts'
import { readPage } from '../../../../engine/storage/bootstrap/pages.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { temporaryDirectory } from '../../../fixtures/databases.ts'
import { openSmall } from '../../../fixtures/databases-open.ts'

const FILES = 5
const ROWS = 4_000

/**
 * Makes keys of slots of few contracts that differ in their last byte or anywhere; some have much
 * history.
 */
function keyOf(seed: number): Bytes {
  const random = keccak256(bigintToBytes(BigInt(seed), 8))
  const key = new Uint8Array(52)
  key.fill(random[0]! % 5, 0, 20)
  if (random[1]! % 2 === 0) key.set(random.subarray(0, 32), 20)
  else key[51] = random[2]! % 2 === 0 ? 255 - (random[3]! % 3) : random[3]! % 40
  return withNumber(key, (random[4]! * 256 + random[5]!) % 900)
}

function fill(database: Database, file: number): void {
  const batch = database.batch()
  for (let at = 0; at < ROWS; at++)
    batch.put('slotHistory', keyOf(file * ROWS + at), new Uint8Array(at % 2 === 0 ? 32 : 0))
  batch.commit()
}

test('pages of any size give all rows of a range of blocks in order', async () => {
  const path = join(temporaryDirectory(), 'state')
  const memory = memoryDatabase()
  // Each opening writes the log's contents to a file.
  for (let file = 0; file < FILES; file++) {
    const database = await openSmall(path)
    fill(database, file)
    fill(memory, file)
    await database.close()
  }
  const database = await openSmall(path)
  const range = { column: 'slotHistory', to: undefined, above: 10, upTo: 800 } as const
  const wanted = readPage(
    memory,
    { ...range, from: new Uint8Array(0) },
    Number.MAX_SAFE_INTEGER / 8,
  )
  expect(wanted.next).toBeUndefined()
  expect(wanted.rows.length).toBeGreaterThan(5_000)
  for (const bytes of [4_000, 40_000, 900_000]) {
    const keys: string[] = []
    for (let from: Bytes | undefined = new Uint8Array(0); from !== undefined; ) {
      const page = readPage(database, { ...range, from }, bytes)
      for (const { key } of page.rows) keys.push(Buffer.from(key).toString('hex'))
      from = page.next
    }
    expect(keys.length, String(bytes)).toBe(wanted.rows.length)
    expect(keys).toEqual(wanted.rows.map(({ key }) => Buffer.from(key).toString('hex')))
  }
  await database.close()
})
