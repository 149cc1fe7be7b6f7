/** A lazy directory is begun, opened again, begun anew; cut off anywhere, the same start finishes it. */
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
import { storageFailure } from '../../../../engine/storage/keeper/failure.ts'
import { createKeeper, type Keeper } from '../../../../engine/storage/keeper/keeper.ts'
import { MAX_QUEUED } from '../../../../engine/storage/keeper/state.ts'
import { beginLazy, lazyDirectory } from '../../../../engine/storage/lazy/begin.ts'
import { LazyStartError } from '../../../../engine/storage/lazy/start.ts'
import type { FillRow, KeeperAnswer } from '../../../../engine/storage/types.ts'
import { databases, temporaryDirectory } from '../../../fixtures/databases.ts'
import { openSmall } from '../../../fixtures/databases-open.ts'
import { dyingDatabase } from '../../../fixtures/dying-database.ts'
import { hex, importModelGenesis, plainWords } from '../../../fixtures/keeper-chain.ts'
import {
  LOG_ADDRESS,
  type SourceBlock,
  sourceBlock,
  sourceChain,
  startAt,
} from '../../../fixtures/lazy-chain.ts'
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

const openKeeper = (database: Database): Keeper =>
  createKeeper({ database, words: plainWords(1), now: () => 0, foldDepth: 2, undoWindow: 6 })

function run(keeper: Keeper, request: Parameters<Keeper['handle']>[0]): KeeperAnswer[] {
  const answers = [...keeper.handle(request)]
  while (keeper.hasWork()) answers.push(...keeper.step())
  return answers
}

/** Blocks of the source, each of which changes the account. */
function follow(keeper: Keeper, blocks: readonly SourceBlock[], parent: SourceBlock): void {
  let [parentId, parentHash] = [1, parent.hash]
  for (const { number, hash, header, transactions, receipts } of blocks) {
    const id = number
    const account = (nonce: number) => ({ nonce: BigInt(nonce), balance: 5n, codeHash: EMPTY_HASH })
    const before = account(number - HEAD)
    const change = { address: ADDRESS, before, after: account(number - HEAD + 1), slots: [] }
    const diff = encodeDiff([{ ...change, code: undefined }])
    const block = { id, parentId, number, hash, parentHash, header, transactions, receipts }
    const answers = run(keeper, { type: 'append', block: { ...block, diff, momentary: [] } })
    expect(answers).toContainEqual({ type: 'appended', id, number })
    ;[parentId, parentHash] = [id, hash]
  }
}

const rowsOf = (database: Database): readonly string[] =>
  COLUMN_NAMES.flatMap((column) =>
    [...database.scan(column, ALL_KEYS)].map(
      ({ key, value }) => `${column} ${hex(key)} ${hex(value)}`,
    ),
  )

/** A posting may come twice, and one of a block that went may stay: whoever finds it looks at the block. */
const unposted = (database: Database): readonly string[] =>
  rowsOf(database).filter((row) => !row.startsWith('logs '))

/** By height, by hash, its transactions, its logs by the index. */
function expectWhole(database: Database, { number, hash, transactions, receipts }: SourceBlock) {
  const store = openStore(database)
  expect(store.hashOfNumber(number)).toEqual(hash)
  expect(store.header(hash)).toBeDefined()
  expect(store.body(hash)?.transactions.map(({ raw }) => hex(raw))).toEqual(
    transactions.map(({ raw }) => hex(raw)),
  )
  expect(store.receipts(hash)?.map(hex)).toEqual(receipts.map(hex))
  const place = { blockNumber: number, index: 0 }
  expect(store.transactionPlace(transactions[0]!.hash)).toEqual(place)
  const [topic] = decodeStoredReceipt(receipts[0]!).logs[0]!.topics
  const bits = store.logBlocks([[LOG_ADDRESS], [topic!]], Math.floor(number / LOG_SHARD_BLOCKS))
  const offset = number % LOG_SHARD_BLOCKS
  expect(bits[offset >> 5]! & (1 << (offset & 31))).not.toBe(0)
}

describe.each(databases)('in %s', (_, open) => {
  test('a start has its block, the hashes below it, the last blocks whole, and no state', async () => {
    const database = await open()
    expect(lazyDirectory(database)).toEqual({ status: 'empty' })
    const head = { number: HEAD, hash: at(HEAD).hash }
    expect(beginLazy(database, chain, startAt(upTo(HEAD)))).toEqual(head)
    const store = openStore(database)
    const start = { block: head, oldestBlock: HEAD - 19 }
    expect(lazyDirectory(database)).toEqual({ status: 'begun', start, durableHead: head })
    expect([store.isLazy(), store.lazyStart()]).toEqual([true, start])
    expect([store.durableHead(), store.foldHead()]).toEqual([head, head])
    expect(store.oldestState()).toBe(HEAD)
    expect(store.marks()).toEqual({ safe: HEAD - 2, finalized: HEAD - 4 })
    expect(store.isUnfoldable(HEAD)).toBe(true)
    expect(store.isUnfoldable(HEAD - 1)).toBe(false)
    for (let number = HEAD - 256; number <= HEAD; number++) {
      expect(store.hashOfNumber(number)).toEqual(at(number).hash)
      expect(store.header(at(number).hash)).toEqual(at(number).header)
    }
    expect(store.hashOfNumber(HEAD - 257)).toBeUndefined()
    for (let number = HEAD - 19; number <= HEAD; number++) expectWhole(database, at(number))
    expect(store.body(at(HEAD - 20).hash)).toBeUndefined()
    expect(store.flatAccount(ADDRESS)).toBe('missing')
    expect(() => store.trieAt(head.hash, { blocks: 1, bytes: 1 })).toThrow(NoTrieError)
    await database.close()
  })

  test('begun anew at another head the state goes, blocks stay', async () => {
    const database = await open()
    beginLazy(database, chain, startAt(upTo(HEAD)))
    const keeper = openKeeper(database)
    run(keeper, { type: 'fill', request: 1, block: at(HEAD), rows: [FILLED] })
    expect(openStore(database).flatAccount(ADDRESS)).toEqual(ACCOUNT)
    follow(keeper, source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
    expect(openStore(database).foldHead().number).toBe(HEAD + 6)
    // Six of the eight are the upstream's; far above, it is another branch.
    const kept = HEAD + 6
    const branch = [...upTo(kept), ...sourceChain(sourceBlock(kept + 1, at(kept).hash, 1), 300, 1)]
    const start = startAt(branch)
    beginLazy(database, chain, { ...start, keptUpTo: kept })
    const store = openStore(database)
    const { number, hash } = branch.at(-1)!
    expect([store.durableHead(), store.foldHead()]).toEqual([
      { number, hash },
      { number, hash },
    ])
    expect([store.oldestState(), store.marks().safe]).toEqual([number, number - 2])
    expect(store.flatAccount(ADDRESS)).toBe('missing')
    for (const column of ['accounts', 'slots', 'accountHistory', 'diffs', 'undo'] as const)
      expect([...database.scan(column, ALL_KEYS)]).toEqual([])
    for (let height = HEAD - 19; height <= kept; height++) expectWhole(database, at(height))
    for (const dropped of [HEAD + 7, HEAD + 8]) {
      expect(store.hashOfNumber(dropped)).not.toEqual(at(dropped).hash)
      expect(store.header(at(dropped).hash)).toBeUndefined()
      expect(store.transactionPlace(at(dropped).transactions[0]!.hash)).toBeUndefined()
    }
    for (const block of branch.slice(-20)) expectWhole(database, block)
    // It can be filled and followed as the first was.
    const again = openKeeper(database)
    const filled = run(again, { type: 'fill', request: 2, block: { number, hash }, rows: [FILLED] })
    expect(filled).toContainEqual({ type: 'filled', request: 2, kept: 1, dropped: 0 })
    expect(store.flatAccount(ADDRESS)).toEqual(ACCOUNT)
    await database.close()
  })
})

test('what waits for its fold when it is begun anew stays too', () => {
  const database = memoryDatabase()
  beginLazy(database, chain, startAt(upTo(HEAD)))
  follow(openKeeper(database), source.slice(HEAD + 1 - FIRST, HEAD + 4 - FIRST), at(HEAD))
  expect(openStore(database).foldHead().number).toBe(HEAD + 1)
  beginLazy(database, chain, { ...startAt(upTo(HEAD + 60)), keptUpTo: HEAD + 3 })
  for (let number = HEAD - 19; number <= HEAD + 3; number++) expectWhole(database, at(number))
  expect(openStore(database).hashOfNumber(HEAD + 4)).toEqual(at(HEAD + 4).hash)
})

test('where none is known to be kept, none is', () => {
  const database = memoryDatabase()
  beginLazy(database, chain, startAt(upTo(HEAD)))
  const other = sourceChain(sourceBlock(FIRST, ZERO_32, 1), 350, 1)
  beginLazy(database, chain, startAt(other))
  const plain = memoryDatabase()
  beginLazy(plain, chain, startAt(other))
  expect(unposted(database)).toEqual(unposted(plain))
})

test('begun anew below its own head: what is above goes', () => {
  const database = memoryDatabase()
  beginLazy(database, chain, startAt(upTo(HEAD)))
  beginLazy(database, chain, { ...startAt(upTo(HEAD - 10)), keptUpTo: HEAD })
  const store = openStore(database)
  expect(store.durableHead().number).toBe(HEAD - 10)
  expect(store.hashOfNumber(HEAD - 9)).toBeUndefined()
  expectWhole(database, at(HEAD - 10))
})

// One commit or clearing fails after the other; a process that dies there leaves the same.
test('cut off anywhere, it is as it was or says so, and the same start finishes it', () => {
  const first = () => {
    const inner = memoryDatabase()
    beginLazy(inner, chain, startAt(upTo(HEAD)))
    follow(openKeeper(inner), source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
    return inner
  }
  const start = { ...startAt(upTo(HEAD + 90)), keptUpTo: HEAD + 5 }
  const expected = first()
  beginLazy(expected, chain, start)
  const statuses = new Set<string>()
  for (let call = 1; ; call++) {
    const inner = first()
    try {
      beginLazy(dying(inner, call), chain, start)
      break
    } catch {
      const { status } = lazyDirectory(inner)
      statuses.add(status)
      if (status === 'cut') {
        expect(() => openKeeper(inner)).toThrow('was being begun anew')
        expect(failureOf(() => openKeeper(inner))).toMatch(/run the same `follow` again$/)
      } else openKeeper(inner)
    }
    beginLazy(inner, chain, start)
    expect(unposted(inner)).toEqual(unposted(expected))
    expectWhole(inner, at(HEAD + 5))
  }
  expect([...statuses].sort()).toEqual(['begun', 'cut'])
})

/** Its nth commit or clearing is not made. */
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

describe('refused, with nothing written:', () => {
  const whole = startAt(upTo(HEAD))
  const [header] = whole.headers
  const block = whole.blocks[3]!
  const other = sourceBlock(HEAD + 50, ZERO_32)
  const withBlock = (changed: object) => ({
    ...whole,
    blocks: whole.blocks.with(3, { ...block, ...changed }),
  })
  const cases: [string, Parameters<typeof beginLazy>[2], RegExp][] = [
    ['no block', { ...whole, headers: [], blocks: [] }, /needs one whole block/],
    [
      'too few headers',
      { ...whole, headers: whole.headers.slice(1) },
      /255 ancestors, BLOCKHASH needs 256/,
    ],
    ['a hole', { ...whole, headers: whole.headers.toSpliced(5, 1) }, /block \d+ comes after block/],
    [
      'a header of another chain',
      { ...whole, headers: whole.headers.with(0, sourceBlock(HEAD - 256, ZERO_32, 1).header) },
      /block \d+ is not the parent that \d+ names/,
    ],
    [
      'other transactions',
      withBlock({ transactions: other.transactions }),
      /block 1284: its transactions/,
    ],
    ['no receipts', withBlock({ receipts: [] }), /block 1284: its receipts/],
    [
      'a safe block above',
      { ...whole, safe: HEAD + 1 },
      /the safe block is 1301, the newest is 1300/,
    ],
    ['a header cut short', { ...whole, headers: whole.headers.with(0, header!.slice(1)) }, /rlp/],
  ]
  test.each(cases)('%s', (_, start, message) => {
    const database = memoryDatabase()
    expect(() => beginLazy(database, chain, start)).toThrow(message)
    expect(rowsOf(database)).toEqual([])
  })

  test('rules of before Cancun', () => {
    const rulesAt = () => ({ keepsDestroyed: false }) as never
    expect(() => beginLazy(memoryDatabase(), { ...chain, rulesAt }, whole)).toThrow('before Cancun')
  })
  test('a whole directory', () => {
    const database = memoryDatabase()
    importModelGenesis(database)
    expect(lazyDirectory(database)).toEqual({ status: 'whole' })
    expect(() => beginLazy(database, chain, whole)).toThrow('holds a whole state')
  })
  test('a kept block that is not the upstream’s', () => {
    const database = memoryDatabase()
    beginLazy(database, chain, whole)
    const rows = rowsOf(database)
    const branch = [
      ...upTo(HEAD - 3),
      ...sourceChain(sourceBlock(HEAD - 2, at(HEAD - 3).hash, 1), 9, 1),
    ]
    const start = { ...startAt(branch), keptUpTo: HEAD - 1 }
    expect(() => beginLazy(database, chain, start)).toThrow(LazyStartError)
    expect(rowsOf(database)).toEqual(rows)
  })
})

test('a chain that is shorter than BLOCKHASH reaches is begun with what there is', () => {
  const database = memoryDatabase()
  const short = { ...chain, genesisNumber: BigInt(FIRST) }
  beginLazy(database, short, startAt(upTo(FIRST + 9)))
  expect(openStore(database).lazyStart()?.oldestBlock).toBe(FIRST)
})

test('its keeper refuses what needs a trie, and fills of a whole directory', () => {
  const database = memoryDatabase()
  beginLazy(database, chain, startAt(upTo(HEAD)))
  const keeper = openKeeper(database)
  keeper.handle({ type: 'root', id: 1 })
  expect(() => keeper.step()).toThrow('asks for a trie')
  const whole = memoryDatabase()
  importModelGenesis(whole)
  const other = openKeeper(whole)
  other.handle({ type: 'fill', request: 1, block: at(HEAD), rows: [] })
  expect(() => other.step()).toThrow('nothing is fetched for a whole directory')
})

describe('while it runs, its keeper', () => {
  const begun = (now = () => 0) => {
    const database = memoryDatabase()
    beginLazy(database, chain, startAt(upTo(HEAD)))
    const words = plainWords(1)
    const keeper = createKeeper({ database, words, now, foldDepth: 2, undoWindow: 6 })
    run(keeper, { type: 'fill', request: 1, block: at(HEAD), rows: [FILLED] })
    follow(keeper, source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
    return { database, words, keeper }
  }
  const request = (start: ReturnType<typeof startAt>, keptUpTo?: number) =>
    ({
      ...({ type: 'begin', id: 77, genesisNumber: Number(chain.genesisNumber) } as const),
      start: { ...start, keptUpTo },
    }) as const

  test('begins it anew: the same directory as after a restart, and every older view is void', () => {
    const { database, words, keeper } = begun()
    const fill = { type: 'fill', request: 9, block: at(HEAD + 8), rows: [FILLED] } as const
    keeper.handle(fill)
    const answers = run(keeper, request(startAt(upTo(HEAD + 80)), HEAD + 8))
    const { number, hash } = at(HEAD + 80)
    expect(answers).toEqual([
      { type: 'filled', request: 9, kept: 0, dropped: 1 },
      { type: 'begun', id: 77, head: { number, hash }, unfolds: 1 },
    ])
    expect(words.state).toMatchObject({ fold: 77, unfolds: 1, oldest: HEAD + 80 })
    for (let kept = HEAD; kept <= HEAD + 8; kept++) expectWhole(database, at(kept))
    expect(openStore(database).flatAccount(ADDRESS)).toBe('missing')
    const restarted = memoryDatabase()
    beginLazy(restarted, chain, startAt(upTo(HEAD)))
    const other = openKeeper(restarted)
    run(other, { type: 'fill', request: 1, block: at(HEAD), rows: [FILLED] })
    follow(other, source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
    beginLazy(restarted, chain, { ...startAt(upTo(HEAD + 80)), keptUpTo: HEAD + 8 })
    expect(rowsOf(database)).toEqual(rowsOf(restarted))
  })

  test('answers each of more fills than may wait, and goes on', () => {
    const { keeper } = begun()
    const answers = new Map<number, number>()
    const note = (all: readonly KeeperAnswer[]) => {
      for (const answer of all) {
        if (answer.type !== 'filled') throw new Error(`it says ${answer.type}`)
        answers.set(answer.request, (answers.get(answer.request) ?? 0) + 1)
      }
    }
    const count = MAX_QUEUED + 500
    for (let request = 0; request < count; request++) {
      note(keeper.handle({ type: 'fill', request, block: at(HEAD + 8), rows: [FILLED] }))
      expect(keeper.stats().queuedRequests).toBeLessThanOrEqual(MAX_QUEUED)
    }
    expect(answers.size).toBe(500)
    while (keeper.stats().queuedRequests > 0) note(keeper.step())
    expect([answers.size, new Set(answers.values())]).toEqual([count, new Set([1])])
  })

  test('begins anew under more fills than may wait', () => {
    const { keeper } = begun()
    const answers = [...keeper.handle(request(startAt(upTo(HEAD + 80)), HEAD + 8))]
    const count = MAX_QUEUED + 500
    for (let number = 0; number < count; number++)
      answers.push(
        ...keeper.handle({ type: 'fill', request: number, block: at(HEAD + 80), rows: [FILLED] }),
      )
    while (keeper.hasWork()) answers.push(...keeper.step())
    expect(answers.filter(({ type }) => type === 'begun')).toHaveLength(1)
    const filled = answers.flatMap((answer) => (answer.type === 'filled' ? [answer.request] : []))
    expect(filled.sort((a, b) => a - b)).toEqual([...Array(count).keys()])
  })

  test('does it in slices, and answers afterwards what it is asked meanwhile', () => {
    let ms = 0
    const { database, words, keeper } = begun(() => ++ms)
    expect(keeper.handle(request(startAt(upTo(HEAD + 80)), HEAD + 8))).toEqual([])
    expect(lazyDirectory(database).status).toBe('begun')
    const fill = { type: 'fill', request: 9, block: at(HEAD + 80), rows: [FILLED] } as const
    const answers = [...keeper.step(), ...keeper.handle(fill)]
    let slices = 1
    for (; words.state.fold !== 77; slices++) {
      expect(answers).toEqual([])
      expect(keeper.hasWork()).toBe(true)
      answers.push(...keeper.step())
    }
    expect(slices).toBeGreaterThan(20)
    while (keeper.hasWork()) answers.push(...keeper.step())
    expect(answers).toMatchObject([
      { type: 'begun', id: 77, head: { number: HEAD + 80 } },
      { type: 'filled', request: 9, kept: 1, dropped: 0 },
    ])
    expect(openStore(database).flatAccount(ADDRESS)).toEqual(ACCOUNT)
    expect(() => {
      keeper.handle(request(startAt(upTo(HEAD + 90)), HEAD + 80))
      keeper.handle(request(startAt(upTo(HEAD + 95)), HEAD + 80))
    }).toThrow('begin, while a lazy state begins anew')
  })

  test('goes on from there: fills at the new head, blocks on it, an unfold down to it', () => {
    const { database, words, keeper } = begun()
    run(keeper, request(startAt(upTo(HEAD + 80)), HEAD + 8))
    const old = { type: 'fill', request: 2, block: at(HEAD + 8), rows: [FILLED] } as const
    expect(run(keeper, old)).toEqual([{ type: 'filled', request: 2, kept: 0, dropped: 1 }])
    run(keeper, { type: 'fill', request: 3, block: at(HEAD + 80), rows: [FILLED] })
    expect(openStore(database).flatAccount(ADDRESS)).toEqual(ACCOUNT)
    const blocks = source.slice(HEAD + 81 - FIRST, HEAD + 85 - FIRST)
    follow(keeper, blocks, at(HEAD + 80))
    expect(openStore(database).foldHead().number).toBe(HEAD + 82)
    expect(words.state.fold).toBe(HEAD + 82)
    keeper.handle({ type: 'forget', id: HEAD + 3 })
    expect(keeper.step()).toEqual([])
  })

  test('goes on as before where the start is none', () => {
    const { database, words, keeper } = begun()
    const before = rowsOf(database)
    const other = startAt(upTo(HEAD + 80))
    const wrong = other.headers.toSpliced(100, 1, other.headers[99]!)
    expect(keeper.handle(request({ ...other, headers: wrong }, HEAD + 8))).toMatchObject([
      { type: 'notBegun', id: 77, reason: expect.stringContaining('comes after block') },
    ])
    const fork = source.slice(0, HEAD + 7 - FIRST)
    const { number, hash } = fork.at(-1)!
    const branch = startAt([...fork, ...sourceChain(sourceBlock(number + 1, hash, 1), 80, 1)])
    expect(keeper.handle(request(branch, HEAD + 8))).toMatchObject([
      { type: 'notBegun', reason: expect.stringContaining('is to be kept, but the upstream has') },
    ])
    expect([rowsOf(database), words.state.unfolds]).toEqual([before, 0])
    follow(keeper, source.slice(HEAD + 9 - FIRST, HEAD + 10 - FIRST), at(HEAD + 8))
  })
})

test('how far history was pruned is forgotten: it begins anew as well', () => {
  const database = memoryDatabase()
  beginLazy(database, chain, startAt(upTo(HEAD)))
  const keeper = createKeeper({
    ...{ database, words: plainWords(1), now: () => 0, foldDepth: 1, undoWindow: 2 },
    historyBlocks: 2,
  })
  run(keeper, { type: 'fill', request: 1, block: at(HEAD), rows: [FILLED] })
  follow(keeper, source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
  expect(database.get('meta', META.pruned)).toBeDefined()
  expect(openStore(database).oldestState()).toBeGreaterThan(HEAD)
  // Below what was pruned: it would never be pruned again.
  beginLazy(database, chain, { ...startAt(upTo(HEAD - 10)), keptUpTo: HEAD - 10 })
  expect(database.get('meta', META.pruned)).toBeUndefined()
  expect(openStore(database).oldestState()).toBe(HEAD - 10)
})

test('an account’s slots are listed without those that are known to be zero', () => {
  const database = memoryDatabase()
  beginLazy(database, chain, startAt(upTo(HEAD)))
  const keeper = openKeeper(database)
  const key = (fill: number) => new Uint8Array(32).fill(fill)
  const slot = (fill: number, value: Bytes | undefined): FillRow => ({
    ...({ kind: 'slot', address: ADDRESS } as const),
    ...{ key: key(fill), value },
  })
  // The mark of an account without storage stands among them.
  const empty: FillRow = { ...FILLED, hasNoStorage: true }
  const rows = [slot(1, key(7)), slot(2, undefined), slot(3, key(8)), empty]
  run(keeper, { type: 'fill', request: 1, block: at(HEAD), rows })
  expect([...openStore(database).flatSlots(ADDRESS)]).toEqual([
    { key: key(1), value: key(7) },
    { key: key(3), value: key(8) },
  ])
})

test('headers below are taken where their child names them', () => {
  const database = memoryDatabase()
  beginLazy(database, chain, startAt(upTo(HEAD)))
  const keeper = openKeeper(database)
  const lowest = HEAD - 256
  const header = (number: number, salt = 0): FillRow => ({
    ...{ kind: 'header', number },
    header: salt === 0 ? at(number).header : sourceBlock(number, ZERO_32, salt).header,
  })
  const rows = [header(lowest - 2), header(lowest - 1), header(lowest - 3, 1), header(lowest)]
  const answers = run(keeper, { type: 'fill', request: 7, block: at(HEAD), rows })
  expect(answers).toContainEqual({ type: 'filled', request: 7, kept: 2, dropped: 2 })
  const store = openStore(database)
  expect(store.hashOfNumber(lowest - 2)).toEqual(at(lowest - 2).hash)
  expect(store.hashOfNumber(lowest - 3)).toBeUndefined()
})

test('after a restart of RocksDB it is as it was', async () => {
  const path = join(temporaryDirectory(), 'state')
  let database = await openSmall(path)
  beginLazy(database, chain, startAt(upTo(HEAD)))
  let keeper = openKeeper(database)
  run(keeper, { type: 'fill', request: 1, block: at(HEAD), rows: [FILLED] })
  follow(keeper, source.slice(HEAD + 1 - FIRST, HEAD + 9 - FIRST), at(HEAD))
  beginLazy(database, chain, { ...startAt(upTo(HEAD + 80)), keptUpTo: HEAD + 8 })
  const rows = rowsOf(database)
  await database.close()
  database = await openSmall(path)
  expect(rowsOf(database)).toEqual(rows)
  keeper = openKeeper(database)
  expect(keeper.opened.durableHead.number).toBe(HEAD + 80)
  await database.close()
})
