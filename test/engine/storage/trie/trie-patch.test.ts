/**
 * Rows get patches until a row is written as a whole, also by consecutive versions. Undo data makes
 * the earlier row from the later one.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Bytes } from '../../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import { EMPTY_HASH, keccak256 } from '../../../../engine/primitives/keccak.ts'
import { concatBytes } from '../../../../engine/primitives/words.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { TrieError } from '../../../../engine/storage/trie/node.ts'
import { MAX_PATCHES, plainRow } from '../../../../engine/storage/trie/patch.ts'
import { putNode, type TrieWrite } from '../../../../engine/storage/trie/rows.ts'
import { openTrie, type StateTrie, type TrieVersion } from '../../../../engine/storage/trie/trie.ts'
import {
  replacedNodes,
  restoreNodes,
  rowBefore,
  undoRows,
} from '../../../../engine/storage/trie/undo.ts'
import { ALL_KEYS } from '../../../fixtures/stored-rows.ts'

const ADDRESS = new Uint8Array(20).fill(7)
const ACCOUNT = { nonce: 1n, balance: 0n, codeHash: EMPTY_HASH }
const take = (length: number) => new Uint8Array(length)

function word(value: number): Bytes {
  const bytes = new Uint8Array(32)
  new DataView(bytes.buffer).setUint32(28, value)
  return bytes
}
const diffOf = (before: Map<number, number>, after: Map<number, number>) => [
  {
    address: ADDRESS,
    before: ACCOUNT,
    after: ACCOUNT,
    code: undefined,
    slots: [...after].map(([slot, value]) => ({
      key: word(slot),
      before: word(before.get(slot) ?? 0),
      after: word(value),
    })),
  },
]

function writesOf(trie: StateTrie, version: TrieVersion): readonly TrieWrite[] {
  const steps = trie.writes(version)
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}
function put(database: Database, writes: readonly TrieWrite[]): void {
  const batch = database.batch()
  for (const write of writes) putNode(batch, write)
  batch.commit()
}
function persist(database: Database, trie: StateTrie, version: TrieVersion): readonly TrieWrite[] {
  const writes = writesOf(trie, version)
  put(database, writes)
  trie.stored(version)
  for (const _ of trie.cacheWritten(version, writes));
  return writes
}
const rowsOf = (database: Database) => [...database.scan('storageTrie', ALL_KEYS)]
const patchesOf = (database: Database) =>
  rowsOf(database).map(({ value }) => plainRow(value, take).patches)
/** Formats the rows with their patches applied. */
const plain = (database: Database) =>
  rowsOf(database).map(
    ({ key, value }) => `${bytesToHex(key)} ${bytesToHex(plainRow(value, take).row)}`,
  )

const SLOTS = Array.from({ length: 3_000 }, (_, slot) => slot)
/** Makes a persisted trie of some levels. */
function largeTrie(cacheBytes: number) {
  const database = memoryDatabase()
  const trie = openTrie({ database, cacheBytes })
  const values = new Map<number, number>()
  const version = trie.fork(trie.base())
  const first = new Map(SLOTS.map((slot) => [slot, slot + 1_000_000]))
  trie.apply(version, diffOf(values, first))
  persist(database, trie, version)
  return { database, trie, values: first }
}

/** Makes the rows of a trie that was built at once. */
function fullRows(values: Map<number, number>): readonly string[] {
  const database = memoryDatabase()
  const trie = openTrie({ database })
  const version = trie.fork(trie.base())
  trie.apply(version, diffOf(new Map(), values))
  persist(database, trie, version)
  return plain(database)
}

test.each([
  ['nodes in memory', 4_194_304, 1],
  ['nodes in memory, several versions', 4_194_304, 4],
  ['nodes read again', 0, 1],
  ['nodes read again, several versions', 0, 3],
])('a row is patched up to a limit and then written in full: %s', (_, cacheBytes, depth) => {
  const { database, trie, values } = largeTrie(cacheBytes)
  const waiting: TrieVersion[] = []
  const seen = new Set<number>()
  let appended = 0
  for (let round = 1; round <= 40; round++) {
    const version = trie.fork(waiting.at(-1) ?? trie.base())
    // Each round changes the same slots, in two parts, and some others.
    for (const part of [0, 1]) {
      const changes = new Map([5, 77, 1_234, round * 3].map((slot) => [slot + part, round * 1_000]))
      trie.apply(version, diffOf(values, changes))
      for (const [slot, value] of changes) values.set(slot, value)
    }
    waiting.push(version)
    if (waiting.length < depth) continue
    const writes = persist(database, trie, waiting.shift()!)
    appended += writes.filter(({ patches }) => patches > 0).length
    for (const patches of patchesOf(database)) seen.add(patches)
  }
  for (const version of waiting) persist(database, trie, version)
  expect([...seen].sort()).toEqual(Array.from({ length: MAX_PATCHES + 1 }, (_, count) => count))
  expect(appended).toBeGreaterThan(200)
  expect(plain(database)).toEqual(fullRows(values))
  const reopened = openTrie({ database })
  expect(bytesToHex(reopened.storageRoot(reopened.base(), ADDRESS))).toBe(
    bytesToHex(trie.storageRoot(trie.base(), ADDRESS)),
  )
})

test('a persist pass that was cut anywhere can be undone and repeated', () => {
  const { database, trie, values } = largeTrie(0)
  const name = (round: number) => new Uint8Array(32).fill(round)
  for (let round = 1; round <= 12; round++) {
    const before = plain(database)
    const version = trie.fork(trie.base())
    const changes = new Map([5, 77, 2_000 + round, 9_000 + round].map((slot) => [slot, round]))
    // One slot is deleted, and one is added.
    changes.set(1_000 + round, 0)
    trie.apply(version, diffOf(values, changes))
    for (const [slot, value] of changes) values.set(slot, value)
    const writes = writesOf(trie, version)
    const batch = database.batch()
    for (const { key, value } of undoRows(name(round), writes)) batch.put('undo', key, value)
    batch.commit()
    for (const cut of [0, 1, writes.length >> 1, writes.length]) {
      put(database, writes.slice(0, cut))
      const undo = database.batch()
      expect(restoreNodes(database, undo, name(round))).toBe(1)
      undo.commit()
      expect(plain(database)).toEqual(before)
    }
    trie.reload()
    const reopened = trie.fork(trie.base())
    trie.apply(reopened, diffOf(new Map(), changes))
    persist(database, trie, reopened)
  }
  values.forEach((value, slot) => {
    if (value === 0) values.delete(slot)
  })
  expect(plain(database)).toEqual(fullRows(values))
})

/** Makes a row that was patched. */
function patchedRow() {
  const { database, trie, values } = largeTrie(0)
  const version = trie.fork(trie.base())
  trie.apply(version, diffOf(values, new Map([[5, 1]])))
  persist(database, trie, version)
  return {
    database,
    trie,
    row: rowsOf(database).find(({ value }) => plainRow(value, take).patches > 0)!,
  }
}

test.each([
  ['beyond the end of the row', (row: Bytes) => concatBytes(row, Uint8Array.of(0, 0, 9, 0, 1, 7))],
  ['that is cut short', (row: Bytes) => concatBytes(row, Uint8Array.of(0, 0, 0, 9, 5, 7))],
  ['with another byte', (row: Bytes) => row.with(-1, row.at(-1)! ^ 1)],
])('a patch %s is detected as damage', (_, spoil) => {
  const { database, trie, row } = patchedRow()
  const batch = database.batch()
  batch.put('storageTrie', row.key, spoil(row.value))
  batch.commit()
  trie.reload()
  const all = new Map(SLOTS.map((slot) => [slot, 3]))
  expect(() => trie.apply(trie.fork(trie.base()), diffOf(new Map(), all))).toThrow(
    /the node at depth \d is another: the database is damaged/,
  )
})

test('undo data gives the earlier row from the later row and from itself', () => {
  const bytes = fc.uint8Array({ minLength: 33, maxLength: 80 })
  const row = fc.tuple(bytes, fc.array(fc.tuple(fc.nat(79), fc.nat(255)), { maxLength: 6 }))
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 5 }), fc.boolean(), (list, isLonger) => {
      const writes = list.map(([previous, changes], at): TrieWrite => {
        const value = isLonger ? concatBytes(previous, Uint8Array.of(1)) : previous.slice()
        for (const [offset, byte] of changes) value[offset % value.length] = byte
        return {
          column: 'storageTrie',
          key: Uint8Array.of(at),
          value,
          previous,
          patch: undefined,
          patches: 0,
          name: 0,
          hashIn: undefined,
          hashAt: -1,
        }
      })
      const database = memoryDatabase()
      const batch = database.batch()
      for (const { key, value } of undoRows(new Uint8Array(32), writes))
        batch.put('undo', key, value)
      batch.commit()
      const nodes = [...replacedNodes(database, new Uint8Array(32))]
      expect(nodes.length).toBe(writes.length)
      for (const [at, { value, previous }] of writes.entries()) {
        expect(rowBefore(nodes[at]!, value)).toEqual(previous)
        expect(rowBefore(nodes[at]!, previous)).toEqual(previous)
      }
    }),
  )
})

test('a patch of another row is refused, and undo data of the older form is read', () => {
  const node = { column: 'storageTrie', key: Uint8Array.of(1), raw: undefined } as const
  const patch = Uint8Array.of(0, 3, 0, 1, 1, 9)
  expect(rowBefore({ ...node, patch }, Uint8Array.of(1, 2, 3))).toEqual(Uint8Array.of(1, 9, 3))
  for (const now of [undefined, Uint8Array.of(1, 2), Uint8Array.of(1, 2, 3, 4)])
    expect(() => rowBefore({ ...node, patch }, now)).toThrow(TrieError)
  const database = memoryDatabase()
  const batch = database.batch()
  const name = keccak256(Uint8Array.of(1))
  // The list has two items: a node of 2 bytes at the key 5, and none at the key 6.
  const items = [Uint8Array.of(1, 1, 1, 5, 0xc1, 0x80), Uint8Array.of(0, 0, 1, 6)]
  const list = [
    Uint8Array.of(0, 0, 0, 2),
    ...items.flatMap((item) => [word(item.length).slice(28), item]),
  ]
  batch.put('undo', concatBytes(name, Uint8Array.of(0, 0, 0, 0)), concatBytes(...list))
  batch.put('accountTrie', Uint8Array.of(6), Uint8Array.of(0xc1, 0x80))
  expect(restoreNodes(database, batch, name)).toBe(0)
  batch.commit()
  const undo = database.batch()
  expect(restoreNodes(database, undo, name)).toBe(1)
  undo.commit()
  expect(database.get('storageTrie', Uint8Array.of(5))).toEqual(Uint8Array.of(0xc1, 0x80))
  expect(database.get('accountTrie', Uint8Array.of(6))).toBeUndefined()
})
