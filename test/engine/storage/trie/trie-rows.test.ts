/**
 * Rows contain small nodes: a trie has exactly one form, older rows may exist beside them, and
 * changes are undone one by one. Another trie checks the roots.
 */
import { createMPT } from '@ethereumjs/mpt'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Bytes } from '../../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import { EMPTY_HASH, keccak256 } from '../../../../engine/primitives/keccak.ts'
import { encodeRlp, rlpUint } from '../../../../engine/primitives/rlp.ts'
import { nibbleAt } from '../../../../engine/primitives/trie-root.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { buildTrie } from '../../../../engine/storage/trie/build.ts'
import { decodeNode } from '../../../../engine/storage/trie/codec.ts'
import { inlineOf } from '../../../../engine/storage/trie/inline.ts'
import { rlpOf, setNibble, withNibble } from '../../../../engine/storage/trie/node.ts'
import { nodeKey, putNode } from '../../../../engine/storage/trie/rows.ts'
import { openTrie, type StateTrie, type TrieVersion } from '../../../../engine/storage/trie/trie.ts'
import { restoreNodes, undoRows } from '../../../../engine/storage/trie/undo.ts'
import { ALL_KEYS, unpatched } from '../../../fixtures/stored-rows.ts'

const ADDRESS = new Uint8Array(20).fill(7)
const ACCOUNT = { nonce: 1n, balance: 0n, codeHash: EMPTY_HASH }
const SPACE = { column: 'storageTrie', prefix: keccak256(ADDRESS) } as const
const timeout = 120_000

function word(value: number): Bytes {
  const bytes = new Uint8Array(32)
  new DataView(bytes.buffer).setUint32(28, value)
  return bytes
}

/** The slots that are not zero. */
type Slots = Map<number, number>
type Change = { readonly slot: number; readonly value: number }

const diffOf = (slots: Slots, changes: readonly Change[]) => [
  {
    address: ADDRESS,
    before: ACCOUNT,
    after: ACCOUNT,
    code: undefined,
    slots: changes.map(({ slot, value }) => ({
      key: word(slot),
      before: word(slots.get(slot) ?? 0),
      after: word(value),
    })),
  },
]
function change(slots: Slots, changes: readonly Change[]): void {
  for (const { slot, value } of changes)
    if (value === 0) slots.delete(slot)
    else slots.set(slot, value)
}

async function rootOf(slots: Slots): Promise<string> {
  const trie = await createMPT({ useKeyHashing: true, useKeyHashingFunction: keccak256 })
  for (const [slot, value] of slots) await trie.put(word(slot), encodeRlp(rlpUint(BigInt(value))))
  return bytesToHex(trie.root())
}

function store(database: Database, trie: StateTrie, version: TrieVersion, name: Bytes): void {
  const steps = trie.writes(version)
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  const batch = database.batch()
  for (const { key, value } of undoRows(name, step.value)) batch.put('undo', key, value)
  for (const write of step.value) putNode(batch, write)
  batch.commit()
  trie.stored(version)
  for (const _ of trie.cacheWritten(version, step.value));
}

const rowsOf = (database: Database): readonly string[] =>
  Array.from(database.scan('storageTrie', ALL_KEYS), (row) =>
    named(row.key, unpatched('storageTrie', row.value)),
  )
const named = (key: Bytes, value: Bytes) => `${bytesToHex(key)} ${bytesToHex(value)}`

/** Makes the rows of a bulk load, which is independent of updates. */
function builtRows(slots: Slots): readonly string[] {
  const database = memoryDatabase()
  const batch = database.batch()
  const builder = buildTrie(SPACE, batch)
  const leaves = [...slots].map(([slot, value]) => ({ key: keccak256(word(slot)), value }))
  leaves.sort((a, b) => Buffer.compare(a.key, b.key))
  for (const { key, value } of leaves) builder.add(key, encodeRlp(rlpUint(BigInt(value))))
  builder.finish()
  batch.commit()
  return rowsOf(database)
}

/** Makes a row for each node, like the older format without embedded nodes. */
function plainRows(
  database: Database,
): Map<string, { readonly key: Bytes; readonly value: Bytes }> {
  const rows = new Map<string, { key: Bytes; value: Bytes }>()
  const visit = (raw: Bytes, key: Bytes, depth: number): void => {
    const node = decodeNode(raw, depth)
    const at = nodeKey(SPACE, { key, depth })
    expect(rows.has(bytesToHex(at))).toBe(false)
    rows.set(bytesToHex(at), { key: at, value: rlpOf(node) })
    if (node.kind === 'extension' && raw.length > node.size) {
      const below = key.slice()
      for (const [i, nibble] of node.path.entries()) setNibble(below, depth + i, nibble)
      visit(inlineOf(node, 0)!, below, depth + node.path.length)
    } else if (node.kind === 'branch')
      for (let nibble = 0; nibble < 16; nibble++) {
        const row = inlineOf(node, nibble)
        if (row !== undefined) visit(row, withNibble(key, depth, nibble), depth + 1)
      }
  }
  for (const { key, value } of database.scan('storageTrie', ALL_KEYS)) {
    const way = new Uint8Array(32)
    way.set(key.subarray(33))
    visit(unpatched('storageTrie', value), way, key[32]!)
  }
  return rows
}

function makePlain(database: Database): void {
  const batch = database.batch()
  for (const { key, value } of plainRows(database).values()) batch.put('storageTrie', key, value)
  batch.commit()
}
const plainOf = (database: Database) =>
  [...plainRows(database).values()].map(({ key, value }) => named(key, value)).sort()

// The hashes of these slots start alike: small branches are below small branches, below extensions,
// and alone.
const CROWD = (() => {
  const slots: number[] = []
  for (let slot = 0; slots.length < 40; slot++)
    if (nibbleAt(keccak256(word(slot)), 0) === 3 && nibbleAt(keccak256(word(slot)), 1) < 3)
      slots.push(slot)
  return slots
})()
const slot = fc.oneof(fc.nat(400), fc.constantFrom(...CROWD))
const one = fc.record({ slot, value: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 9e8 })) })
const part = fc.array(one, { maxLength: 60 })
const block = fc.record({ first: part, second: part, isForgotten: fc.boolean() })

test('a trie has exactly one form of rows, and every block can be undone', {
  timeout,
}, async () => {
  const start = fc.array(one, { minLength: 1, maxLength: 400 })
  const blocks = fc.array(block, { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(start, blocks, fc.boolean(), async (first, list, isOlder) => {
      const database = memoryDatabase()
      let trie = openTrie({ database, cacheBytes: 32_768 })
      const slots: Slots = new Map()
      const startVersion = trie.fork(trie.base())
      trie.apply(startVersion, diffOf(slots, first))
      change(slots, first)
      store(database, trie, startVersion, Uint8Array.of(1))
      expect(rowsOf(database)).toEqual(builtRows(slots))
      if (isOlder) makePlain(database)
      trie.reload()
      const before: (readonly string[])[] = []
      for (const [at, { first, second, isForgotten }] of list.entries()) {
        before.push(rowsOf(database))
        const version = trie.fork(trie.base())
        for (const changes of [first, second]) {
          trie.apply(version, diffOf(slots, changes))
          change(slots, changes)
        }
        expect(bytesToHex(trie.storageRoot(version, ADDRESS))).toBe(await rootOf(slots))
        store(database, trie, version, Uint8Array.of(2 + at))
        if (isForgotten) trie = openTrie({ database })
        const full = memoryDatabase()
        const batch = full.batch()
        for (const row of builtRows(slots)) {
          const [key, value] = row.split(' ') as [string, string]
          batch.put(
            'storageTrie',
            Buffer.from(key.slice(2), 'hex'),
            Buffer.from(value.slice(2), 'hex'),
          )
        }
        batch.commit()
        // No node is left over, and none is in two rows.
        expect(plainOf(database)).toEqual(plainOf(full))
        if (!isOlder) expect(rowsOf(database)).toEqual(rowsOf(full))
      }
      for (const [at, rows] of [...before.entries()].reverse()) {
        const batch = database.batch()
        restoreNodes(database, batch, Uint8Array.of(2 + at))
        batch.commit()
        expect(rowsOf(database)).toEqual(rows)
      }
    }),
    { numRuns: 60 },
  )
})

test('small nodes have no rows of their own, and a damaged one is detected', () => {
  const database = memoryDatabase()
  const trie = openTrie({ database })
  const slots: Slots = new Map()
  const all = Array.from({ length: 2_000 }, (_, slot) => ({ slot, value: slot + 1 }))
  const version = trie.fork(trie.base())
  trie.apply(version, diffOf(slots, all))
  change(slots, all)
  store(database, trie, version, Uint8Array.of(1))
  const rows = rowsOf(database).length
  const nodes = plainRows(database).size
  expect(nodes - rows).toBeGreaterThan(200)
  const batch = database.batch()
  for (const { key, value } of database.scan('storageTrie', ALL_KEYS)) {
    const node = decodeNode(value, key[32]!)
    if (value.length === node.size) continue
    const spoilt = value.slice()
    spoilt[spoilt.length - 2]! ^= 1
    batch.put('storageTrie', key, spoilt)
  }
  batch.commit()
  trie.reload()
  const next = trie.fork(trie.base())
  expect(() => trie.apply(next, diffOf(slots, all))).toThrow("in its parent's row is another")
})

test.each([
  ['cut short', (row: Bytes) => row.slice(0, -1)],
  ['with an extra byte', (row: Bytes) => Uint8Array.of(...row, 0)],
  ['with a bit for a missing child', (row: Bytes) => row.with(-1 - 3 - 83, 0xff)],
])('a row %s is refused', (_, spoil) => {
  const [key, row] = fullRow()
  expect(decodeNode(row, key[32]!).kind).toBe('branch')
  expect(() => decodeNode(spoil(row), key[32]!)).toThrow()
})

/** Makes a row that contains a single branch of two leaves. */
function fullRow(): readonly [Bytes, Bytes] {
  const database = memoryDatabase()
  const batch = database.batch()
  for (const line of builtRows(new Map(Array.from({ length: 40 }, (_, slot) => [slot, 1])))) {
    const [key, value] = line.split(' ').map((part) => Buffer.from(part.slice(2), 'hex'))
    batch.put('storageTrie', key!, value!)
  }
  batch.commit()
  for (const { key, value } of database.scan('storageTrie', ALL_KEYS)) {
    const node = decodeNode(value, key[32]!)
    if (node.kind === 'branch' && value.length === node.size + 3 + 83) return [key, value]
  }
  throw new Error('no such row')
}
