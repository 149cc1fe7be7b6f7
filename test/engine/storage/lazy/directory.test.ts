/**
 * A lazy directory is started, restarted and resynced; after a cut at any point, the same start
 * completes it.
 */
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Bytes } from '../../../../engine/primitives/bytes.ts'
import { EMPTY_HASH } from '../../../../engine/primitives/keccak.ts'
import { decodeStoredReceipt } from '../../../../engine/primitives/receipt-codec.ts'
import { ZERO_32 } from '../../../../engine/primitives/words.ts'
import { encodeAccount } from '../../../../engine/state/account-codec.ts'
import { encodeDiff } from '../../../../engine/state/diff-codec.ts'
import { LOG_SHARD_BLOCKS } from '../../../../engine/storage/blocks/log-index.ts'
import { NoTrieError } from '../../../../engine/storage/blocks/proof.ts'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { COLUMN_NAMES } from '../../../../engine/storage/database/columns.ts'
import { META } from '../../../../engine/storage/database/meta.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import { lazyDirectory, startLazyState } from '../../../../engine/storage/lazy/directory.ts'
import { LazyStartError } from '../../../../engine/storage/lazy/start.ts'
import { storageFailure } from '../../../../engine/storage/persistence/failure.ts'
import {
  createPersistence,
  type Persistence,
} from '../../../../engine/storage/persistence/persistence.ts'
import { MAX_QUEUED } from '../../../../engine/storage/persistence/persistence-state.ts'
import type { FillRow, PersistenceResponse } from '../../../../engine/storage/types.ts'
import { databases, temporaryDirectory } from '../../../fixtures/databases.ts'
import { openSmall } from '../../../fixtures/databases-open.ts'
import { dyingDatabase } from '../../../fixtures/dying-database.ts'
import {
  LOG_ADDRESS,
  type SourceBlock,
  sourceBlock,
  sourceChain,
  startAt,
} from '../../../fixtures/lazy-chain.ts'
import { hex, importModelGenesis, plainWords } from '../../../fixtures/persistence-chain.ts'
import { ALL_KEYS } from '../../../fixtures/stored-rows.ts'

const FIRST = 1_000
const chain = {
  name: 'model',
  genesisNumber: 0n,
  rulesAt: () => ({ keepsDestroyed: true }) as never,
}
const source = sourceChain(sourceBlock(FIRST, ZERO_32), 400)
const at = (number: number): SourceBlock => source[number - FIRST]!
const upTo = (number: number) => source.slice(0, number - FIRST + 1)
const HEAD = FIRST + 300

const ADDRESS: Bytes = new Uint8Array(20).fill(9)
const ACCOUNT = encodeAccount({ nonce: 1n, balance: 5n, codeHash: EMPTY_HASH })
const FILLED: FillRow = { kind: 'account', address: ADDRESS, value: ACCOUNT, hasNoStorage: false }

const openPersistence = (database: Database): Persistence =>
  createPersistence({ database, words: plainWords(1), now: () => 0, foldDepth: 2, undoWindow: 6 })

function run(
  persistence: Persistence,
  request: Parameters<Persistence['handle']>[0],
): PersistenceResponse[] {
  const responses = [...persistence.handle(request)]
  while (persistence.hasWork()) responses.push(...persistence.step())
  return responses
}

/** Appends blocks of the source, each of which changes the account. */
function follow(
  persistence: Persistence,
  blocks: readonly SourceBlock[],
  parent: SourceBlock,
): void {
  let [parentId, parentHash] = [1, parent.hash]
  for (const { number, hash, header, transactions, receipts } of blocks) {
    const id = number
    const account = (nonce: number) => ({ nonce: BigInt(nonce), balance: 5n, codeHash: EMPTY_HASH })
    const before = account(number - HEAD)
    const change = { address: ADDRESS, before, after: account(number - HEAD + 1), slots: [] }
    const diff = encodeDiff([{ ...change, code: undefined }])
    const block = { id, parentId, number, hash, parentHash, header, transactions, receipts }
    const responses = run(persistence, {
      type: 'append',
      block: { ...block, diff, partialHeaders: [] },
    })
    expect(responses).toContainEqual({ type: 'appended', id, number })
    ;[parentId, parentHash] = [id, hash]
  }
}

const rowsOf = (database: Database): readonly string[] =>
  COLUMN_NAMES.flatMap((column) =>
    [...database.scan(column, ALL_KEYS)].map(
      ({ key, value }) => `${column} ${hex(key)} ${hex(value)}`,
    ),
  )

/**
 * Lists the rows without log postings. A posting may come twice, and one of a removed block may
 * stay, because readers check the block.
 */
const unposted = (database: Database): readonly string[] =>
  rowsOf(database).filter((row) => !row.startsWith('logs '))

/**
 * Checks the stored block by height and by hash, with its transactions, and its logs by the index.
 */
function expectStored(database: Database, { number, hash, transactions, receipts }: SourceBlock) {
  const store = openStore(database)
  expect(store.hashOfNumber(number)).toEqual(hash)
  expect(store.header(hash)).toBeDefined()
  expect(store.body(hash)?.transactions.map(({ raw }) => hex(raw))).toEqual(
    transactions.map(({ raw }) => hex(raw)),
  )
  expect(store.receipts(hash)?.map(hex)).toEqual(receipts.map(hex))
  const location = { blockNumber: number, index: 0 }
  expect(store.transactionLocation(transactions[0]!.hash)).toEqual(location)
  const [topic] = decodeStoredReceipt(receipts[0]!).logs[0]!.topics
  const bits = store.logBlocks([[LOG_ADDRESS], [topic!]], Math.floor(number / LOG_SHARD_BLOCKS))
  const offset = number % LOG_SHARD_BLOCKS
  expect(bits[offset >> 5]! & (1 << (offset & 31))).not.toBe(0)
}

describe.each(databases)('a lazy directory in %s', (_, open) => {
  test('starts with its block, 256 ancestors, the last 20 full blocks and no state', async () => {
    const database = await open()
    expect(lazyDirectory(database)).toEqual({ status: 'empty' })
    const head = { number: HEAD, hash: at(HEAD).hash }
    expect(startLazyState(database, chain, startAt(upTo(HEAD)))).toEqual(head)
    const store = openStore(database)
    const start = { block: head, oldestBlock: HEAD - 19 }
    expect(lazyDirectory(database)).toEqual({ status: 'begun', start, durableHead: head })
    expect([store.isLazy(), store.lazyStart()]).toEqual([true, start])
    expect([store.durableHead(), store.persistedHead()]).toEqual([head, head])
    expect(store.oldestState()).toBe(HEAD)
    expect(store.labelledHeads()).toEqual({ safe: HEAD - 2, finalized: HEAD - 4 })
    expect(store.canUnwindTo(HEAD)).toBe(true)
    expect(store.canUnwindTo(HEAD - 1)).toBe(false)
    for (let number = HEAD - 256; number <= HEAD; number++) {
      expect(store.hashOfNumber(number)).toEqual(at(number).hash)
      expect(store.header(at(number).hash)).toEqual(at(number).header)
    }
    expect(store.hashOfNumber(HEAD - 257)).toBeUndefined()
    for (let number = HEAD - 19; number <= HEAD; number++) expectStored(database, at(number))
    expect(store.body(at(HEAD - 20).hash)).toBeUndefined()
    expect(store.flatAccount(ADDRESS)).toBe('missing')
    expect(() => store.trieAt(head.hash, { blocks: 1, bytes: 1 })).toThrow(NoTrieError)
    await database.close()
  })

  test('loses its state and keeps its blocks in a resync', async () => {
    const database = await open()
    startLazyState(database, chain, startAt(upTo(HEAD)))
    const persistence = openPersistence(database)
    run(persistence, { type: 'fill', request: 1, block: at(HEAD), rows: [FILLED] })
    expect(openStore(database).flatAccount(ADDRESS)).toEqual(ACCOUNT)
    follow(persistence, source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
    expect(openStore(database).persistedHead().number).toBe(HEAD + 6)
    // Six of the eight blocks are the upstream's; far above, the branch is another one.
    const retained = HEAD + 6
    const branch = [
      ...upTo(retained),
      ...sourceChain(sourceBlock(retained + 1, at(retained).hash, 1), 300, 1),
    ]
    const start = startAt(branch)
    startLazyState(database, chain, { ...start, keptUpTo: retained })
    const store = openStore(database)
    const { number, hash } = branch.at(-1)!
    expect([store.durableHead(), store.persistedHead()]).toEqual([
      { number, hash },
      { number, hash },
    ])
    expect([store.oldestState(), store.labelledHeads().safe]).toEqual([number, number - 2])
    expect(store.flatAccount(ADDRESS)).toBe('missing')
    for (const column of ['accounts', 'slots', 'accountHistory', 'diffs', 'undo'] as const)
      expect([...database.scan(column, ALL_KEYS)]).toEqual([])
    for (let height = HEAD - 19; height <= retained; height++) expectStored(database, at(height))
    for (const dropped of [HEAD + 7, HEAD + 8]) {
      expect(store.hashOfNumber(dropped)).not.toEqual(at(dropped).hash)
      expect(store.header(at(dropped).hash)).toBeUndefined()
      expect(store.transactionLocation(at(dropped).transactions[0]!.hash)).toBeUndefined()
    }
    for (const block of branch.slice(-20)) expectStored(database, block)
    // The state can be filled and followed like the first one.
    const reopened = openPersistence(database)
    const filled = run(reopened, {
      type: 'fill',
      request: 2,
      block: { number, hash },
      rows: [FILLED],
    })
    expect(filled).toContainEqual({ type: 'filled', request: 2, written: 1, dropped: 0 })
    expect(store.flatAccount(ADDRESS)).toEqual(ACCOUNT)
    await database.close()
  })
})

test('a resync keeps blocks that wait for their persist pass', () => {
  const database = memoryDatabase()
  startLazyState(database, chain, startAt(upTo(HEAD)))
  follow(openPersistence(database), source.slice(HEAD + 1 - FIRST, HEAD + 4 - FIRST), at(HEAD))
  expect(openStore(database).persistedHead().number).toBe(HEAD + 1)
  startLazyState(database, chain, { ...startAt(upTo(HEAD + 60)), keptUpTo: HEAD + 3 })
  for (let number = HEAD - 19; number <= HEAD + 3; number++) expectStored(database, at(number))
  expect(openStore(database).hashOfNumber(HEAD + 4)).toEqual(at(HEAD + 4).hash)
})

test('a resync without known shared blocks keeps no old block', () => {
  const database = memoryDatabase()
  startLazyState(database, chain, startAt(upTo(HEAD)))
  const other = sourceChain(sourceBlock(FIRST, ZERO_32, 1), 350, 1)
  startLazyState(database, chain, startAt(other))
  const plain = memoryDatabase()
  startLazyState(plain, chain, startAt(other))
  expect(unposted(database)).toEqual(unposted(plain))
})

test('a resync below the head removes the blocks above', () => {
  const database = memoryDatabase()
  startLazyState(database, chain, startAt(upTo(HEAD)))
  startLazyState(database, chain, { ...startAt(upTo(HEAD - 10)), keptUpTo: HEAD })
  const store = openStore(database)
  expect(store.durableHead().number).toBe(HEAD - 10)
  expect(store.hashOfNumber(HEAD - 9)).toBeUndefined()
  expectStored(database, at(HEAD - 10))
})

// Each commit or clear fails in turn, which leaves the same state as a process that dies there.
test('a resync cut anywhere changed nothing or is reported, and a repeat completes it', () => {
  const first = () => {
    const inner = memoryDatabase()
    startLazyState(inner, chain, startAt(upTo(HEAD)))
    follow(openPersistence(inner), source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
    return inner
  }
  const start = { ...startAt(upTo(HEAD + 90)), keptUpTo: HEAD + 5 }
  const expected = first()
  startLazyState(expected, chain, start)
  const statuses = new Set<string>()
  for (let call = 1; ; call++) {
    const inner = first()
    try {
      startLazyState(dying(inner, call), chain, start)
      break
    } catch {
      const { status } = lazyDirectory(inner)
      statuses.add(status)
      if (status === 'cut') {
        expect(() => openPersistence(inner)).toThrow('was being begun anew')
        expect(failureOf(() => openPersistence(inner))).toMatch(/run the same `follow` again$/)
      } else openPersistence(inner)
    }
    startLazyState(inner, chain, start)
    expect(unposted(inner)).toEqual(unposted(expected))
    expectStored(inner, at(HEAD + 5))
  }
  expect([...statuses].sort()).toEqual(['begun', 'cut'])
})

/** Makes a database that dies at its nth commit or clear. */
function dying(inner: Database, nth: number): Database {
  let left = nth
  return dyingDatabase(inner, () => {
    if (--left === 0) throw new Error('died')
  })
}

const failureOf = (work: () => unknown): string | undefined => {
  try {
    work()
  } catch (error) {
    return storageFailure(error)
  }
  return undefined
}

describe('a start is refused without a write for', () => {
  const full = startAt(upTo(HEAD))
  const [header] = full.headers
  const block = full.blocks[3]!
  const other = sourceBlock(HEAD + 50, ZERO_32)
  const withBlock = (changed: object) => ({
    ...full,
    blocks: full.blocks.with(3, { ...block, ...changed }),
  })
  const cases: [string, Parameters<typeof startLazyState>[2], RegExp][] = [
    ['no block', { ...full, headers: [], blocks: [] }, /needs one whole block/],
    [
      'too few headers',
      { ...full, headers: full.headers.slice(1) },
      /255 ancestors, BLOCKHASH needs 256/,
    ],
    [
      'a missing header',
      { ...full, headers: full.headers.toSpliced(5, 1) },
      /block \d+ comes after block/,
    ],
    [
      'a header of another chain',
      { ...full, headers: full.headers.with(0, sourceBlock(HEAD - 256, ZERO_32, 1).header) },
      /block \d+ is not the parent that \d+ names/,
    ],
    [
      'other transactions',
      withBlock({ transactions: other.transactions }),
      /block 1284: its transactions/,
    ],
    ['no receipts', withBlock({ receipts: [] }), /block 1284: its receipts/],
    [
      'a safe block above the newest block',
      { ...full, safe: HEAD + 1 },
      /the safe block is 1301, the newest is 1300/,
    ],
    ['a header cut short', { ...full, headers: full.headers.with(0, header!.slice(1)) }, /rlp/],
  ]
  test.each(cases)('%s', (_, start, message) => {
    const database = memoryDatabase()
    expect(() => startLazyState(database, chain, start)).toThrow(message)
    expect(rowsOf(database)).toEqual([])
  })

  test('rules from before Cancun', () => {
    const rulesAt = () => ({ keepsDestroyed: false }) as never
    expect(() => startLazyState(memoryDatabase(), { ...chain, rulesAt }, full)).toThrow(
      'before Cancun',
    )
  })
  test('a directory with whole state', () => {
    const database = memoryDatabase()
    importModelGenesis(database)
    expect(lazyDirectory(database)).toEqual({ status: 'whole' })
    expect(() => startLazyState(database, chain, full)).toThrow('holds a whole state')
  })
  test('a shared block that the upstream does not have', () => {
    const database = memoryDatabase()
    startLazyState(database, chain, full)
    const rows = rowsOf(database)
    const branch = [
      ...upTo(HEAD - 3),
      ...sourceChain(sourceBlock(HEAD - 2, at(HEAD - 3).hash, 1), 9, 1),
    ]
    const start = { ...startAt(branch), keptUpTo: HEAD - 1 }
    expect(() => startLazyState(database, chain, start)).toThrow(LazyStartError)
    expect(rowsOf(database)).toEqual(rows)
  })
})

test('a chain shorter than the reach of BLOCKHASH starts with all of its blocks', () => {
  const database = memoryDatabase()
  const short = { ...chain, genesisNumber: BigInt(FIRST) }
  startLazyState(database, short, startAt(upTo(FIRST + 9)))
  expect(openStore(database).lazyStart()?.oldestBlock).toBe(FIRST)
})

test('a lazy directory refuses trie requests, and one with whole state refuses fills', () => {
  const database = memoryDatabase()
  startLazyState(database, chain, startAt(upTo(HEAD)))
  const persistence = openPersistence(database)
  persistence.handle({ type: 'root', id: 1 })
  expect(() => persistence.step()).toThrow('asks for a trie')
  const full = memoryDatabase()
  importModelGenesis(full)
  const other = openPersistence(full)
  other.handle({ type: 'fill', request: 1, block: at(HEAD), rows: [] })
  expect(() => other.step()).toThrow('nothing is fetched for a whole directory')
})

describe('the persistence thread of a running lazy node', () => {
  const started = (now = () => 0) => {
    const database = memoryDatabase()
    startLazyState(database, chain, startAt(upTo(HEAD)))
    const words = plainWords(1)
    const persistence = createPersistence({ database, words, now, foldDepth: 2, undoWindow: 6 })
    run(persistence, { type: 'fill', request: 1, block: at(HEAD), rows: [FILLED] })
    follow(persistence, source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
    return { database, words, persistence }
  }
  const request = (start: ReturnType<typeof startAt>, keptUpTo?: number) =>
    ({
      ...({ type: 'begin', id: 77, genesisNumber: Number(chain.genesisNumber) } as const),
      start: { ...start, keptUpTo },
    }) as const

  test('resyncs to the rows of a restart, and every older view is void', () => {
    const { database, words, persistence } = started()
    const fill = { type: 'fill', request: 9, block: at(HEAD + 8), rows: [FILLED] } as const
    persistence.handle(fill)
    const responses = run(persistence, request(startAt(upTo(HEAD + 80)), HEAD + 8))
    const { number, hash } = at(HEAD + 80)
    expect(responses).toEqual([
      { type: 'filled', request: 9, written: 0, dropped: 1 },
      { type: 'begun', id: 77, head: { number, hash }, unwinds: 1 },
    ])
    expect(words.state).toMatchObject({ persistedId: 77, unwinds: 1, oldest: HEAD + 80 })
    for (let retained = HEAD; retained <= HEAD + 8; retained++) expectStored(database, at(retained))
    expect(openStore(database).flatAccount(ADDRESS)).toBe('missing')
    const restarted = memoryDatabase()
    startLazyState(restarted, chain, startAt(upTo(HEAD)))
    const other = openPersistence(restarted)
    run(other, { type: 'fill', request: 1, block: at(HEAD), rows: [FILLED] })
    follow(other, source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
    startLazyState(restarted, chain, { ...startAt(upTo(HEAD + 80)), keptUpTo: HEAD + 8 })
    expect(rowsOf(database)).toEqual(rowsOf(restarted))
  })

  test('responds to every fill, also to those above its queue limit', () => {
    const { persistence } = started()
    const responses = new Map<number, number>()
    const record = (all: readonly PersistenceResponse[]) => {
      for (const response of all) {
        if (response.type !== 'filled') throw new Error(`it says ${response.type}`)
        responses.set(response.request, (responses.get(response.request) ?? 0) + 1)
      }
    }
    const count = MAX_QUEUED + 500
    for (let request = 0; request < count; request++) {
      record(persistence.handle({ type: 'fill', request, block: at(HEAD + 8), rows: [FILLED] }))
      expect(persistence.stats().queuedRequests).toBeLessThanOrEqual(MAX_QUEUED)
    }
    expect(responses.size).toBe(500)
    while (persistence.stats().queuedRequests > 0) record(persistence.step())
    expect([responses.size, new Set(responses.values())]).toEqual([count, new Set([1])])
  })

  test('resyncs under more fills than its queue takes', () => {
    const { persistence } = started()
    const responses = [...persistence.handle(request(startAt(upTo(HEAD + 80)), HEAD + 8))]
    const count = MAX_QUEUED + 500
    for (let number = 0; number < count; number++)
      responses.push(
        ...persistence.handle({
          type: 'fill',
          request: number,
          block: at(HEAD + 80),
          rows: [FILLED],
        }),
      )
    while (persistence.hasWork()) responses.push(...persistence.step())
    expect(responses.filter(({ type }) => type === 'begun')).toHaveLength(1)
    const filled = responses.flatMap((response) =>
      response.type === 'filled' ? [response.request] : [],
    )
    expect(filled.sort((a, b) => a - b)).toEqual([...Array(count).keys()])
  })

  test('resyncs in slices and responds to later requests at the end', () => {
    let ms = 0
    const { database, words, persistence } = started(() => ++ms)
    expect(persistence.handle(request(startAt(upTo(HEAD + 80)), HEAD + 8))).toEqual([])
    expect(lazyDirectory(database).status).toBe('begun')
    const fill = { type: 'fill', request: 9, block: at(HEAD + 80), rows: [FILLED] } as const
    const responses = [...persistence.step(), ...persistence.handle(fill)]
    let slices = 1
    for (; words.state.persistedId !== 77; slices++) {
      expect(responses).toEqual([])
      expect(persistence.hasWork()).toBe(true)
      responses.push(...persistence.step())
    }
    expect(slices).toBeGreaterThan(20)
    while (persistence.hasWork()) responses.push(...persistence.step())
    expect(responses).toMatchObject([
      { type: 'begun', id: 77, head: { number: HEAD + 80 } },
      { type: 'filled', request: 9, written: 1, dropped: 0 },
    ])
    expect(openStore(database).flatAccount(ADDRESS)).toEqual(ACCOUNT)
    expect(() => {
      persistence.handle(request(startAt(upTo(HEAD + 90)), HEAD + 80))
      persistence.handle(request(startAt(upTo(HEAD + 95)), HEAD + 80))
    }).toThrow('begin, while a lazy state begins anew')
  })

  test('continues after a resync with fills and blocks at the new head', () => {
    const { database, words, persistence } = started()
    run(persistence, request(startAt(upTo(HEAD + 80)), HEAD + 8))
    const old = { type: 'fill', request: 2, block: at(HEAD + 8), rows: [FILLED] } as const
    expect(run(persistence, old)).toEqual([{ type: 'filled', request: 2, written: 0, dropped: 1 }])
    run(persistence, { type: 'fill', request: 3, block: at(HEAD + 80), rows: [FILLED] })
    expect(openStore(database).flatAccount(ADDRESS)).toEqual(ACCOUNT)
    const blocks = source.slice(HEAD + 81 - FIRST, HEAD + 85 - FIRST)
    follow(persistence, blocks, at(HEAD + 80))
    expect(openStore(database).persistedHead().number).toBe(HEAD + 82)
    expect(words.state.persistedId).toBe(HEAD + 82)
    persistence.handle({ type: 'forget', id: HEAD + 3 })
    expect(persistence.step()).toEqual([])
  })

  test('continues as before when the start of a resync is invalid', () => {
    const { database, words, persistence } = started()
    const before = rowsOf(database)
    const other = startAt(upTo(HEAD + 80))
    const wrong = other.headers.toSpliced(100, 1, other.headers[99]!)
    expect(persistence.handle(request({ ...other, headers: wrong }, HEAD + 8))).toMatchObject([
      { type: 'notBegun', id: 77, reason: expect.stringContaining('comes after block') },
    ])
    const fork = source.slice(0, HEAD + 7 - FIRST)
    const { number, hash } = fork.at(-1)!
    const branch = startAt([...fork, ...sourceChain(sourceBlock(number + 1, hash, 1), 80, 1)])
    expect(persistence.handle(request(branch, HEAD + 8))).toMatchObject([
      { type: 'notBegun', reason: expect.stringContaining('is to be kept, but the upstream has') },
    ])
    expect([rowsOf(database), words.state.unwinds]).toEqual([before, 0])
    follow(persistence, source.slice(HEAD + 9 - FIRST, HEAD + 10 - FIRST), at(HEAD + 8))
  })
})

test('a resync forgets how far history was pruned', () => {
  const database = memoryDatabase()
  startLazyState(database, chain, startAt(upTo(HEAD)))
  const persistence = createPersistence({
    database,
    words: plainWords(1),
    now: () => 0,
    foldDepth: 1,
    undoWindow: 2,
    historyBlocks: 2,
  })
  run(persistence, { type: 'fill', request: 1, block: at(HEAD), rows: [FILLED] })
  follow(persistence, source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
  expect(database.get('meta', META.pruned)).toBeDefined()
  expect(openStore(database).oldestState()).toBeGreaterThan(HEAD)
  // The start is below the pruned block, which would otherwise never be pruned again.
  startLazyState(database, chain, { ...startAt(upTo(HEAD - 10)), keptUpTo: HEAD - 10 })
  expect(database.get('meta', META.pruned)).toBeUndefined()
  expect(openStore(database).oldestState()).toBe(HEAD - 10)
})

test('the slots of an account are listed without those that are known to be zero', () => {
  const database = memoryDatabase()
  startLazyState(database, chain, startAt(upTo(HEAD)))
  const persistence = openPersistence(database)
  const key = (fill: number) => new Uint8Array(32).fill(fill)
  const slot = (fill: number, value: Bytes | undefined): FillRow => ({
    ...({ kind: 'slot', address: ADDRESS } as const),
    key: key(fill),
    value,
  })
  // The mark of an account without storage is among the rows.
  const empty: FillRow = { ...FILLED, hasNoStorage: true }
  const rows = [slot(1, key(7)), slot(2, undefined), slot(3, key(8)), empty]
  run(persistence, { type: 'fill', request: 1, block: at(HEAD), rows })
  expect([...openStore(database).flatSlots(ADDRESS)]).toEqual([
    { key: key(1), value: key(7) },
    { key: key(3), value: key(8) },
  ])
})

test('older headers are stored if their child names them', () => {
  const database = memoryDatabase()
  startLazyState(database, chain, startAt(upTo(HEAD)))
  const persistence = openPersistence(database)
  const lowest = HEAD - 256
  const header = (number: number, salt = 0): FillRow => ({
    kind: 'header',
    number,
    header: salt === 0 ? at(number).header : sourceBlock(number, ZERO_32, salt).header,
  })
  const rows = [header(lowest - 2), header(lowest - 1), header(lowest - 3, 1), header(lowest)]
  const responses = run(persistence, { type: 'fill', request: 7, block: at(HEAD), rows })
  expect(responses).toContainEqual({ type: 'filled', request: 7, written: 2, dropped: 2 })
  const store = openStore(database)
  expect(store.hashOfNumber(lowest - 2)).toEqual(at(lowest - 2).hash)
  expect(store.hashOfNumber(lowest - 3)).toBeUndefined()
})

test('a lazy directory on RocksDB has the same rows after a reopen', async () => {
  const path = join(temporaryDirectory(), 'state')
  let database = await openSmall(path)
  startLazyState(database, chain, startAt(upTo(HEAD)))
  let persistence = openPersistence(database)
  run(persistence, { type: 'fill', request: 1, block: at(HEAD), rows: [FILLED] })
  follow(persistence, source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
  startLazyState(database, chain, { ...startAt(upTo(HEAD + 80)), keptUpTo: HEAD + 8 })
  const rows = rowsOf(database)
  await database.close()
  database = await openSmall(path)
  expect(rowsOf(database)).toEqual(rows)
  persistence = openPersistence(database)
  expect(persistence.opened.durableHead.number).toBe(HEAD + 80)
  await database.close()
})
