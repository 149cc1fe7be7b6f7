/** Fetched state is limited: unread rows are evicted, but never those that a block has written. */
import { expect, test } from 'vitest'
import { EMPTY_HASH, keccak256 } from '../../../../engine/primitives/keccak.ts'
import { bigintToBytes, concatBytes, ZERO_32 } from '../../../../engine/primitives/words.ts'
import { encodeAccount } from '../../../../engine/state/account-codec.ts'
import { encodeDiff } from '../../../../engine/state/diff-codec.ts'
import { latin1 } from '../../../../engine/state/words.ts'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { startLazyState } from '../../../../engine/storage/lazy/directory.ts'
import { createPersistence } from '../../../../engine/storage/persistence/persistence.ts'
import type { FillRow } from '../../../../engine/storage/types.ts'
import { databases } from '../../../fixtures/databases.ts'
import { sourceBlock, startAt } from '../../../fixtures/lazy-chain.ts'
import { plainWords } from '../../../fixtures/persistence-chain.ts'
import { ALL_KEYS } from '../../../fixtures/stored-rows.ts'

const chain = {
  name: 'model',
  genesisNumber: 9n,
  rulesAt: () => ({ keepsDestroyed: true }) as never,
}
const LIMIT = 20_000
const first = sourceBlock(9, ZERO_32)
const addressAt = (at: number) => bigintToBytes(BigInt(at + 1), 20)
const account = (nonce: number, codeHash = EMPTY_HASH) => ({
  nonce: BigInt(nonce),
  balance: 5n,
  codeHash,
})
const accountRow = (at: number, hasNoStorage = false): FillRow => ({
  kind: 'account',
  address: addressAt(at),
  value: encodeAccount(account(at)),
  hasNoStorage,
})
const slotRow = (at: number, key: number): FillRow => ({
  kind: 'slot',
  address: addressAt(at),
  key: bigintToBytes(BigInt(key), 32),
  value: bigintToBytes(7n, 32),
})
const slotKey = (at: number, key: number) =>
  concatBytes(addressAt(at), bigintToBytes(BigInt(key), 32))

function open(database: Database) {
  startLazyState(database, chain, startAt([first]))
  const words = plainWords(1)
  const persistence = createPersistence({
    database,
    words,
    now: () => 0,
    foldDepth: 0,
    lazyCacheBytes: LIMIT,
  })
  const settle = () => {
    let steps = 0
    for (; persistence.hasWork(); steps++) persistence.step()
    return steps
  }
  return {
    words,
    store: openStore(database),
    settle,
    fill(rows: readonly FillRow[]) {
      persistence.handle({ type: 'fill', request: 1, block: first, rows })
      settle()
    },
    append(diff: Parameters<typeof encodeDiff>[0]) {
      const { number, hash, header } = sourceBlock(10, first.hash)
      const ids = { id: 2, parentId: 1, number, hash, parentHash: first.hash, header }
      const rows = { transactions: [], receipts: [], partialHeaders: [], diff: encodeDiff(diff) }
      persistence.handle({ type: 'append', block: { ...ids, ...rows } })
      settle()
    },
    bytes: () =>
      (['accounts', 'slots', 'code'] as const)
        .flatMap((column) => [...database.scan(column, ALL_KEYS)])
        .reduce((sum, { key, value }) => sum + key.length + value.length, 0),
  }
}

test.each(databases)('fetched state in %s is bounded, and used rows stay', async (_, make) => {
  const database = await make()
  const node = open(database)
  const hot = [0, 1, 2, 3, 4]
  node.fill(hot.map((at) => accountRow(at)))
  for (let round = 0; round < 40; round++) {
    for (const at of hot) node.words.reads.add(latin1(addressAt(at)))
    node.fill(
      Array.from({ length: 20 }, (_, at) => {
        const name = 100 + round * 20 + at
        return at % 2 === 0 ? accountRow(name) : slotRow(name, at)
      }),
    )
    expect(node.bytes()).toBeLessThan(LIMIT)
    for (const at of hot) expect(node.store.flatAccount(addressAt(at))).not.toBe('missing')
  }
  expect(node.bytes()).toBeGreaterThan(LIMIT / 4)
  expect(node.store.flatAccount(addressAt(100))).toBe('missing')
  // An evicted row is fetched and cached again.
  node.fill([accountRow(100)])
  expect(node.store.flatAccount(addressAt(100))).toEqual(encodeAccount(account(100)))
  await database.close()
})

test('rows that a block wrote stay, and a created account still has no other slots', async () => {
  const database = await databases[0]![1]()
  const node = open(database)
  node.fill([accountRow(1), slotRow(1, 1), accountRow(3, true), accountRow(4, true)])
  const slots = [{ key: bigintToBytes(1n, 32), before: bigintToBytes(7n, 32), after: ZERO_32 }]
  const created = [{ key: bigintToBytes(1n, 32), before: ZERO_32, after: bigintToBytes(9n, 32) }]
  node.append([
    { address: addressAt(1), before: account(1), after: account(2), slots, code: undefined },
    {
      address: addressAt(2),
      before: undefined,
      after: account(1),
      slots: created,
      code: undefined,
    },
    {
      address: addressAt(4),
      before: account(4),
      after: account(5),
      slots: created,
      code: undefined,
    },
  ])
  for (let round = 0; round < 20; round++)
    node.fill(Array.from({ length: 20 }, (_, at) => accountRow(100 + round * 20 + at)))
  expect(node.bytes()).toBeLessThan(LIMIT + 2_000)
  const { store } = node
  expect(store.flatAccount(addressAt(1))).toEqual(encodeAccount(account(2)))
  expect(store.flatSlot(slotKey(1, 1))).toBeUndefined()
  expect(store.flatAccount(addressAt(2))).toEqual(encodeAccount(account(1)))
  expect(store.flatSlot(slotKey(2, 1))).toEqual(bigintToBytes(9n, 32))
  expect(store.flatSlot(slotKey(2, 5))).toBeUndefined()
  expect(store.flatSlot(slotKey(4, 1))).toEqual(bigintToBytes(9n, 32))
  expect(store.flatSlot(slotKey(4, 5))).toBeUndefined()
  // The evicted account took the knowledge of its storage with it.
  expect(store.flatAccount(addressAt(3))).toBe('missing')
  expect(store.flatSlot(slotKey(3, 5))).toBe('missing')
})

test('evicted code can be fetched again through an account that has it', async () => {
  const database = await databases[0]![1]()
  const node = open(database)
  const codes = Array.from({ length: 10 }, (_, at) => new Uint8Array(4_000).fill(at))
  for (const [at, code] of codes.entries()) {
    const hash = keccak256(code)
    const value = encodeAccount(account(1, hash))
    node.fill([
      { kind: 'account', address: addressAt(at), value, hasNoStorage: false },
      { kind: 'code', hash, code, address: addressAt(at) },
    ])
    expect(node.bytes()).toBeLessThan(LIMIT + 5_000)
  }
  const gone = codes.filter((code) => node.store.code(keccak256(code)) === undefined)
  expect(gone.length).toBeGreaterThan(4)
  for (const [at, code] of codes.entries())
    expect(node.store.codeOrigin(keccak256(code))).toEqual(addressAt(at))
})

test('eviction ends even when every row was read again', async () => {
  const database = await databases[0]![1]()
  const node = open(database)
  const rows = Array.from({ length: 300 }, (_, at) => accountRow(at))
  const takeRead = node.words.takeRead
  Object.assign(node.words, { takeRead: () => true })
  node.fill(rows)
  expect(node.settle()).toBe(0)
  expect(node.bytes()).toBeGreaterThan(LIMIT)
  node.fill(Array.from({ length: 10 }, (_, at) => accountRow(1_000 + at)))
  Object.assign(node.words, { takeRead })
  node.fill(Array.from({ length: 60 }, (_, at) => accountRow(2_000 + at)))
  expect(node.bytes()).toBeLessThan(LIMIT)
})
