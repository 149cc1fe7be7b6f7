/**
 * The log index is compared with a plain search of every receipt. Postings come in any order,
 * repeatedly, and from abandoned branches.
 */
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { logSpans } from '../../../../engine/chain/logs.ts'
import type { Log } from '../../../../engine/primitives/receipt.ts'
import { encodeStoredReceipt } from '../../../../engine/primitives/receipt-codec.ts'
import { equalBytes } from '../../../../engine/primitives/words.ts'
import { LOG_SHARD_BLOCKS, logPostings } from '../../../../engine/storage/blocks/log-index.ts'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import type { LogValues } from '../../../../engine/storage/types.ts'
import { temporaryDirectory } from '../../../fixtures/databases.ts'
import { openSmall } from '../../../fixtures/databases-open.ts'
import { execute, filled, log, transfer } from '../../../fixtures/executed.ts'

const FIRST = LOG_SHARD_BLOCKS - 5
const LAST = 3 * LOG_SHARD_BLOCKS + 5
const TRANSACTION = transfer(0n)

/**
 * Addresses and topics have equal values, so that neither is taken for the other, nor one position
 * for another.
 */
const address = fc.nat(3).map((byte) => filled(20, byte))
const topic = fc.nat(3).map((byte) => filled(32, byte))
const logs = fc
  .tuple(fc.array(topic, { maxLength: 4 }), address)
  .map(([topics, by]) => log(topics, by))
/** Heights are mostly near the ends of shards. */
const height = fc.oneof(
  fc.integer({ min: FIRST, max: LAST }),
  fc
    .tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: -3, max: 3 }))
    .map(([shard, off]) => shard * LOG_SHARD_BLOCKS + off),
)
const post = fc.record({ number: height, receipts: fc.array(fc.array(logs, { maxLength: 3 })) })
type Post = { readonly number: number; readonly receipts: readonly (readonly Log[])[] }
const values: fc.Arbitrary<LogValues> = fc
  .tuple(
    fc.array(address, { maxLength: 3 }),
    fc.array(fc.array(topic, { maxLength: 2 }), { maxLength: 4 }),
  )
  .map(([by, topics]) => [by, ...topics])
const question = fc.record({ values, first: height, last: height, base: height })

function add(database: Database, posts: readonly Post[]): void {
  const batch = database.batch()
  for (const { number, receipts } of posts) {
    const rows = execute(
      receipts.map(() => TRANSACTION),
      receipts,
    ).map(({ receipt }) => encodeStoredReceipt(receipt))
    for (const { key, value } of logPostings(number, rows)) batch.merge('logs', key, value)
    batch.commit()
  }
}

/** Lists the heights at which the postings have a value of each group. */
function candidates(posts: readonly Post[], requested: LogValues): ReadonlySet<number> {
  const at = new Map<number, Log[]>()
  for (const { number, receipts } of posts)
    at.set(number, [...(at.get(number) ?? []), ...receipts.flat()])
  const has = (all: readonly Log[], kind: number) =>
    all.some(({ address: by, topics }) =>
      requested[kind]!.some((one) => {
        const value = [by, ...topics][kind]
        return value !== undefined && equalBytes(value, one)
      }),
    )
  const isRequested = (all: readonly Log[]) =>
    requested.every((group, kind) => group.length === 0 || has(all, kind))
  return new Set([...at].filter(([, all]) => isRequested(all)).map(([number]) => number))
}

function check(
  database: Database,
  posts: readonly Post[],
  { values, first, last, base }: { values: LogValues; first: number; last: number; base: number },
): void {
  const found = candidates(posts, values)
  const isScanned = values.every((group) => group.length === 0)
  const expected: bigint[] = []
  for (let number = first; number <= last; number++)
    if (isScanned || number > base || found.has(number)) expected.push(BigInt(number))
  let next = BigInt(first)
  const got: bigint[] = []
  for (const span of logSpans({ store: openStore(database), base }, values, { first, last })) {
    expect(span.first).toBe(next)
    next = (span.first / BigInt(LOG_SHARD_BLOCKS) + 1n) * BigInt(LOG_SHARD_BLOCKS)
    if (span.first <= base && !isScanned && BigInt(base) < next) next = BigInt(base + 1)
    got.push(...span.numbers)
  }
  expect(got).toEqual(expected)
}

test('the log index names blocks with a value of each group, and all above the base', () => {
  fc.assert(
    fc.property(
      fc.array(post, { maxLength: 12 }),
      fc.array(question, { minLength: 1 }),
      (posts, questions) => {
        const database = memoryDatabase()
        // Every other posting is added twice, like in a persist pass that was restarted.
        add(database, [...posts, ...posts.filter((_, at) => at % 2 === 0)])
        for (const each of questions) check(database, posts, each)
      },
    ),
    { numRuns: 60 },
  )
})

const rocks: Database[] = []
afterAll(async () => {
  for (const database of rocks) await database.close()
})

test('the log index is right on RocksDB, with rows in log, memory and files', async () => {
  const path = join(temporaryDirectory(), 'state')
  const posts: Post[] = []
  for (const seed of [1, 2, 3]) {
    const database = await openSmall(path)
    rocks.push(database)
    const more = fc.sample(post, { numRuns: 40, seed })
    add(database, more)
    posts.push(...more)
    for (const each of fc.sample(question, { numRuns: 40, seed })) check(database, posts, each)
    await database.close()
    rocks.pop()
  }
})
