/**
 * The trie: published cases, random tries compared with the root of the whole trie, versions, rows
 * and their undo.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Bytes } from '../../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../../engine/primitives/hex.ts'
import { EMPTY_HASH, keccak256 } from '../../../../engine/primitives/keccak.ts'
import { encodeRlp, rlpUint } from '../../../../engine/primitives/rlp.ts'
import { trieRoot } from '../../../../engine/primitives/trie-root.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { putNode } from '../../../../engine/storage/trie/rows.ts'
import { openTrie, type StateTrie, type TrieVersion } from '../../../../engine/storage/trie/trie.ts'
import { restoreNodes, undoRows } from '../../../../engine/storage/trie/undo.ts'
import {
  ADDRESSES,
  act,
  action,
  modelRoot,
  modelStorageRoot,
  SLOTS,
  type World,
} from '../../../fixtures/chain-model.ts'
import { unpatched } from '../../../fixtures/stored-rows.ts'
import { MemoryTrie } from '../../../fixtures/trie-memory.ts'

const hex = (bytes: Bytes) => bytesToHex(bytes)
// The work takes seconds, which a busy machine turns into a minute.
const timeout = 120_000
const text = (value: string): Bytes => new TextEncoder().encode(value)

describe('a secure trie of ethereum/tests', () => {
  const accounts = [
    [
      '0xa94f5374fce5edbc8e2a8697c15331677e6ebf0b',
      '0xf848018405f446a7a056e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421a0c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470',
    ],
    [
      '0x095e7baea6a6c7c4c2dfeb977efac326af552d87',
      '0xf8440101a056e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421a004bccc5d94f4d1f99aab44369a910179931772f2a5c001c3229f57831c102769',
    ],
    [
      '0xd2571607e241ecf590ed94b12d87c94babe36db6',
      '0xf8440180a0ba4b47865c55a341a4a78759bb913cd15c3ee8eaf30a62fa8d1c8863113d84e8a0c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470',
    ],
    [
      '0x62c01474f089b07dae603491675dc5b5748f7049',
      '0xf8448080a056e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421a0c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470',
    ],
    [
      '0x2adc25665018aa1fe0e6bc666dac8fc2697ff9ba',
      '0xf8478083019a59a056e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421a0c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470',
    ],
  ] as const
  const pairs = (table: Record<string, string>): [Bytes, Bytes][] =>
    Object.entries(table).map(([key, value]) => [text(key), text(value)])
  const cases: [name: string, entries: [Bytes, Bytes][], root: string][] = [
    [
      'five accounts',
      accounts.map(([key, value]) => [hexToBytes(key), hexToBytes(value)]),
      '0x730a444e08ab4b8dee147c9b232fc52d34a223d600031c1e9d25bfc985cbd797',
    ],
    [
      'singleItem',
      pairs({ A: 'a'.repeat(50) }),
      '0xe9e2935138352776cad724d31c9fa5266a5c593bb97726dd2a908fe6d53284df',
    ],
    [
      'dogs',
      pairs({ doe: 'reindeer', dog: 'puppy', dogglesworth: 'cat' }),
      '0xd4cd937e4a4368d7931a9cf51686b7e10abb3dce38a39000fd7902a092b64585',
    ],
    [
      'puppy',
      pairs({ do: 'verb', horse: 'stallion', doge: 'coin', dog: 'puppy' }),
      '0x29b235a58c3c25ab83010c327d5932bcf05324b7d6b1185e650798034783ca9d',
    ],
    [
      'foo',
      pairs({ foo: 'bar', food: 'bass' }),
      '0x1385f23a33021025d9e87cca5c66c00de06178807b96a9acc92b7d651ccde842',
    ],
  ]
  test.each(cases)('has its published root: %s', (_, entries, root) => {
    const changes = entries.map(([key, value]) => ({ key: keccak256(key), value }))
    expect(hex(new MemoryTrie().update(changes))).toBe(root)
    const oneByOne = new MemoryTrie()
    for (const change of changes) oneByOne.update([change])
    expect(hex(oneByOne.update([]))).toBe(root)
    oneByOne.update(changes.map(({ key }) => ({ key, value: undefined })))
    expect(oneByOne.root).toBeUndefined()
  })
})

// Keys have few bits at the two ends. They give long shared paths, extensions that split, and nodes
// short enough to be part of their parent.
const key = fc
  .tuple(fc.integer({ min: 0, max: 2 }), fc.integer({ min: 0, max: 3 }), fc.nat(20))
  .map(([first, middle, last]) => {
    const bytes = new Uint8Array(32)
    bytes[0] = first << 4
    bytes[15] = middle
    bytes[31] = last
    return bytes
  })
const value = fc.option(
  fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 2 }),
    fc.uint8Array({ minLength: 40, maxLength: 90 }),
  ),
  { nil: undefined },
)
const change = fc.record({ key, value })

test('any changes to a trie give the root of a new trie with all entries', { timeout }, () => {
  const rounds = fc.array(
    fc.record({ changes: fc.array(change, { maxLength: 12 }), store: fc.constantFrom(0, 1, 2) }),
    { maxLength: 8 },
  )
  fc.assert(
    fc.property(rounds, (list) => {
      const trie = new MemoryTrie()
      const model = new Map<string, { key: Bytes; value: Bytes }>()
      for (const { changes, store } of list) {
        for (const { key, value } of changes) {
          if (value === undefined) model.delete(hex(key))
          else model.set(hex(key), { key, value })
        }
        const full = [...model.values()]
        expect(hex(trie.update(changes))).toBe(hex(trieRoot(full)))
        if (store === 0) continue
        trie.store(store === 2)
        const fresh = new MemoryTrie()
        fresh.update(full)
        fresh.store(false)
        expect([...trie.rows].sort(byName)).toEqual([...fresh.rows].sort(byName))
      }
    }),
    { numRuns: 400 },
  )
})
const byName = ([a]: [string, unknown], [b]: [string, unknown]) => (a < b ? -1 : 1)

function rows(database: Database): string[] {
  const found: string[] = []
  for (const column of ['accountTrie', 'storageTrie'] as const) {
    const bounds = { gte: new Uint8Array(0), lt: new Uint8Array(70).fill(0xff) }
    for (const { key, value } of database.scan(column, bounds))
      found.push(`${column} ${hex(key)} ${hex(unpatched(column, value))}`)
  }
  return found
}

/** Writes the version like the persist pass does; the earlier rows can be restored under `name`. */
function store(database: Database, trie: StateTrie, version: TrieVersion, name: Bytes): void {
  for (const _ of storeInSteps(database, trie, version, name));
}

/** Runs in the steps of writing the version. */
function* storeInSteps(
  ...[database, trie, version, name]: [Database, StateTrie, TrieVersion, Bytes]
): Generator<undefined, void> {
  const steps = trie.writes(version)
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  const writes = step.value
  for (const column of ['accountTrie', 'storageTrie'] as const) {
    const put = writes.filter((write) => write.column === column && write.value !== undefined)
    expect(put).toEqual(put.toSorted((a, b) => Buffer.compare(a.key, b.key)))
  }
  const batch = database.batch()
  for (const row of undoRows(name, writes)) batch.put('undo', row.key, row.value)
  for (const write of writes) putNode(batch, write)
  batch.commit()
  trie.stored(version)
  yield* trie.cacheWritten(version, writes)
}

function freshRows(world: World): string[] {
  const database = memoryDatabase()
  const trie = openTrie({ database })
  const version = trie.fork(trie.base())
  trie.apply(version, act(world, []).diff)
  trie.apply(
    version,
    [...world].map(([name, { account, slots }]) => ({
      address: Uint8Array.from(Buffer.from(name, 'latin1')),
      before: undefined,
      after: account,
      slots: [...slots].map(([slot, after]) => ({
        key: Uint8Array.from(Buffer.from(slot, 'latin1')),
        before: new Uint8Array(32),
        after,
      })),
      code: undefined,
    })),
  )
  store(database, trie, version, new Uint8Array(32))
  return rows(database)
}

test('versions of a chain have the right roots and rows, and can be undone', {
  timeout,
}, () => {
  const block = fc.record({
    flashblocks: fc.array(fc.array(action, { maxLength: 6 }), { minLength: 1, maxLength: 3 }),
    competing: fc.array(action, { maxLength: 4 }),
  })
  const chain = fc.array(block, { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(
      chain,
      fc.integer({ min: 1, max: 3 }),
      fc.constantFrom(0, 4_096, 1_048_576),
      (blocks, depth, cacheBytes) => {
        const database = memoryDatabase()
        const trie = openTrie({ database, cacheBytes })
        const worlds: World[] = [new Map()]
        const unpersisted: { version: TrieVersion; world: World }[] = []
        let persisted = 0
        const persist = () => {
          const { version, world } = unpersisted.shift()!
          store(database, trie, version, Uint8Array.of(++persisted))
          expect(rows(database)).toEqual(freshRows(world))
        }
        for (const { flashblocks, competing } of blocks) {
          const parent = unpersisted.at(-1)?.version ?? trie.base()
          const parentWorld = unpersisted.at(-1)?.world ?? worlds.at(-1)!
          const other = trie.fork(parent)
          const otherAct = act(parentWorld, competing)
          trie.apply(other, otherAct.diff)
          const version = trie.fork(parent)
          const all: (typeof competing)[number][] = []
          for (const actions of flashblocks) {
            all.push(...actions)
            // The actions are cumulative against the parent, like the diffs of flashblocks.
            const { diff, world } = act(parentWorld, all)
            trie.apply(version, diff)
            expect(hex(trie.stateRoot(version))).toBe(hex(modelRoot(world)))
          }
          const { world } = act(parentWorld, all)
          expect(hex(trie.stateRoot(other))).toBe(hex(modelRoot(otherAct.world)))
          for (const address of ADDRESSES)
            expect(hex(trie.storageRoot(version, address))).toBe(
              hex(modelStorageRoot(world, address)),
            )
          worlds.push(world)
          unpersisted.push({ version, world })
          if (unpersisted.length > depth) persist()
        }
        while (unpersisted.length > 0) persist()
        for (let height = persisted; height > 0; height--) {
          const batch = database.batch()
          restoreNodes(database, batch, Uint8Array.of(height))
          batch.commit()
          trie.reload()
          expect(hex(trie.stateRoot(trie.base()))).toBe(hex(modelRoot(worlds[height - 1]!)))
          expect(rows(database)).toEqual(freshRows(worlds[height - 1]!))
        }
      },
    ),
    { numRuns: 60 },
  )
})

test('nodes are cached in steps while other blocks are applied', { timeout }, () => {
  const address = ADDRESSES[0]!
  const account = { nonce: 1n, balance: 0n, codeHash: EMPTY_HASH }
  const word = (value: number) => {
    const bytes = new Uint8Array(32)
    new DataView(bytes.buffer).setUint32(28, value)
    return bytes
  }
  /** The earlier values of the slots are unknown. */
  const diffOf = (first: number, step: number, value: number) => [
    {
      address,
      before: undefined,
      after: account,
      code: undefined,
      slots: Array.from({ length: Math.ceil((8_000 - first) / step) }, (_, at) => ({
        key: word(first + at * step),
        before: word(0),
        after: word(value),
      })),
    },
  ]
  const database = memoryDatabase()
  const trie = openTrie({ database, cacheBytes: 65_536 })
  const known = openTrie({ database: memoryDatabase() })
  let version = trie.fork(trie.base())
  const plain = known.fork(known.base())
  const change = (first: number, step: number, value: number) => {
    const diff = diffOf(first, step, value)
    trie.apply(version, diff)
    known.apply(plain, diff)
    expect(hex(trie.stateRoot(version))).toBe(hex(known.stateRoot(plain)))
  }
  change(0, 1, 1)
  for (let block = 2; block < 5; block++) {
    const persisted = version
    version = trie.fork(persisted)
    let steps = 0
    for (const _ of storeInSteps(database, trie, persisted, Uint8Array.of(block)))
      change(steps++, 7, block)
    // The first change reads more than 10,000 nodes, later ones those that were used since.
    expect(steps).toBeGreaterThanOrEqual(block === 2 ? 8 : 0)
  }
  store(database, trie, version, Uint8Array.of(9))
  trie.reload()
  expect(hex(trie.stateRoot(trie.base()))).toBe(hex(known.stateRoot(plain)))
})

test('a leaf is read only when its diff has the wrong earlier value', () => {
  const number = (value: number) => {
    const word = new Uint8Array(32)
    new DataView(word.buffer).setUint32(28, value)
    return word
  }
  const COUNT = 300
  /** Makes the diff of every slot from its values, 0 for none. */
  const diffOf = (before: (index: number) => number, after: (index: number) => number) => {
    const account = { nonce: 1n, balance: 0n, codeHash: keccak256(text('code')) }
    const slots = Array.from({ length: COUNT }, (_, index) => ({
      key: number(index),
      before: number(before(index)),
      after: number(after(index)),
    }))
    return [{ address: ADDRESSES[0]!, before: account, after: account, slots, code: undefined }]
  }
  const first = (index: number) => index * 1_000 + 1
  const second = (index: number) => (index % 3 === 0 ? 0 : index * 7)
  const readsAfter = (before: (index: number) => number) => {
    const database = memoryDatabase()
    const filled = openTrie({ database })
    const start = filled.fork(filled.base())
    filled.apply(
      start,
      diffOf(() => 0, first),
    )
    store(database, filled, start, new Uint8Array(32))
    let reads = 0
    const trie = openTrie({
      database: {
        get: (column, key) => database.get(column, key),
        getMany(column, keys) {
          reads += keys.length
          return database.getMany(column, keys)
        },
      },
    })
    const version = trie.fork(trie.base())
    trie.apply(version, diffOf(before, second))
    return { reads, root: hex(trie.storageRoot(version, ADDRESSES[0]!)) }
  }
  const expected = new MemoryTrie().update(
    Array.from({ length: COUNT }, (_, index) => index)
      .filter((index) => second(index) !== 0)
      .map((index) => ({
        key: keccak256(number(index)),
        value: encodeRlp(rlpUint(second(index))),
      })),
  )
  const known = readsAfter(first)
  const wrong = readsAfter((index) => first(index) + 1)
  expect(known.root).toBe(hex(expected))
  expect(wrong.root).toBe(hex(expected))
  expect(wrong.reads).toBeGreaterThan(COUNT)
  expect(known.reads).toBeLessThan(COUNT / 2)
})

describe('a version of the trie', () => {
  const account = { nonce: 1n, balance: 5n, codeHash: keccak256(new Uint8Array(0)) }
  const word = (last: number) => new Uint8Array(32).fill(last, 31)
  const change = (slots: { key: Bytes; before: Bytes; after: Bytes }[]) => ({
    address: ADDRESSES[0]!,
    before: undefined,
    after: account,
    slots,
    code: undefined,
  })

  test('gives storage roots of changes that it does not include', () => {
    const trie = openTrie({ database: memoryDatabase() })
    const version = trie.fork(trie.base())
    const slots = [{ key: SLOTS[0]!, before: word(0), after: word(7) }]
    trie.apply(version, [change([])])
    const requested = trie.storageRootAfter(version, ADDRESSES[0]!, slots)
    const root = trie.stateRoot(version)
    const next = trie.fork(version)
    trie.apply(next, [change(slots)])
    expect(hex(trie.storageRoot(next, ADDRESSES[0]!))).toBe(hex(requested))
    expect(hex(trie.stateRoot(version))).toBe(hex(root))
  })

  test('refuses a deleted account that keeps slots', () => {
    const trie = openTrie({ database: memoryDatabase() })
    const version = trie.fork(trie.base())
    trie.apply(version, [change([{ key: SLOTS[0]!, before: word(0), after: word(7) }])])
    expect(() => trie.apply(version, [{ ...change([]), after: undefined }])).toThrow('keeps slots')
  })

  test('detects missing nodes', () => {
    const database = memoryDatabase()
    const trie = openTrie({ database })
    const version = trie.fork(trie.base())
    const many = ADDRESSES.map((address) => ({ ...change([]), address }))
    trie.apply(version, many)
    store(database, trie, version, Uint8Array.of(1))
    const bounds = { gte: new Uint8Array(0), lt: new Uint8Array(40).fill(0xff), limit: 9 }
    const batch = database.batch()
    for (const { key } of database.range('accountTrie', bounds).slice(1))
      batch.delete('accountTrie', key)
    batch.commit()
    trie.reload()
    const next = trie.fork(trie.base())
    expect(() => trie.apply(next, many)).toThrow('the database is damaged')
  })
})
