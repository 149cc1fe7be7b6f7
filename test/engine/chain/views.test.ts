import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createLogRowsCache } from '../../../engine/chain/log-rows-cache.ts'
import { openChainReader } from '../../../engine/chain/reader.ts'
import type {
  Block,
  ChainReader,
  Endpoint,
  FlashblockId,
  LatestHead,
  LeasedView,
  LogPattern,
} from '../../../engine/chain/types.ts'
import type { Log } from '../../../engine/primitives/receipt.ts'
import { bigintToBytes } from '../../../engine/primitives/words.ts'
import { FlashblockUnavailableError, ViewError } from '../../../engine/state/reader.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import type { PersistenceWords, StoreReader } from '../../../engine/storage/types.ts'
import { createViews, persistenceWords } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import { FULL_BLOCK_INDEX } from '../../../engine/views/types.ts'
import { foundLogs } from '../../fixtures/found-logs.ts'
import { mapStore } from '../../fixtures/map-store.ts'
import { ADDRESSES, EMPTY_WORLD } from '../../fixtures/view-blocks.ts'
import { plainChain } from '../../fixtures/view-chain.ts'
import { checkBlock, checkNumber, checkState, MixedView } from '../../fixtures/view-check.ts'
import { type Built, Driver, type Durable, isAncestor } from '../../fixtures/view-driver.ts'
import { persistenceDurable } from '../../fixtures/view-persistence.ts'

const PAGE = 2048
const GENESIS = 1000
const word = (n: number) => bigintToBytes(BigInt(n), 32)

type Kind = 'maps' | 'persistence'

function open(pages: number, kind: Kind = 'maps') {
  const views = createViews({
    bytes: pages * PAGE,
    threads: 3,
    seed: 99,
    pageBytes: PAGE,
    cacheEntries: 64,
  })
  const words = persistenceWords(views)
  const chain = plainChain(GENESIS)
  const { store, durable } = kind === 'maps' ? inMaps(words) : inPersistence(words)
  const publisher = openPublisher(views, { number: GENESIS, hash: chain.genesisHash })
  const driver = new Driver(publisher, durable, EMPTY_WORLD)
  const reader = (thread: number, latest?: LatestHead) => {
    // The cache holds a few blocks, so that entries are evicted all the time.
    const logRows = createLogRowsCache(4_000)
    return openChainReader({ views, store, chain, thread, logRows, ...(latest && { latest }) })
  }
  return { driver, reader, unwinds: { count: 0 } }
}
function inMaps(words: PersistenceWords): { store: StoreReader; durable: Durable } {
  const store = mapStore({ world: EMPTY_WORLD, number: GENESIS })
  store.attach(words)
  return { store, durable: store }
}
function inPersistence(words: PersistenceWords): { store: StoreReader; durable: Durable } {
  const database = memoryDatabase()
  const durable = persistenceDurable({ database, words, genesisNumber: GENESIS, pieces: 1 })
  return { store: openStore(database), durable }
}

/** A pinned entry is a leased view with the truth at the publish of its snapshot. */
type Pinned = {
  readonly leased: LeasedView
  readonly endpoint: Endpoint
  readonly top: Built
  readonly topIndex: number
  readonly latest: Built
  /** The number of the newest block that the snapshot knows to be persisted. */
  readonly base: number
  readonly unwinds: number
}

function pin(world: ReturnType<typeof open>, reader: ChainReader, endpoint: Endpoint): Pinned {
  const { driver, unwinds } = world
  const isStandard = endpoint === 'standard'
  const top = isStandard ? driver.canonical : driver.pending
  return {
    leased: reader.lease(endpoint),
    endpoint,
    top,
    topIndex: top.final === undefined ? top.steps.length - 1 : -1,
    latest: isStandard ? driver.canonical : driver.complete,
    base: driver.publisher.base.number,
    unwinds: unwinds.count,
  }
}

/** Compares one block of a view, chosen by `pick`, with the truth. */
function check(world: ReturnType<typeof open>, pinned: Pinned, pick: number): void {
  const { view } = pinned.leased
  const { top, topIndex } = pinned
  try {
    const heights = top.number - GENESIS + 1
    const height = GENESIS + (pick % heights)
    let wanted: Built | undefined = top
    while (wanted!.number > height) wanted = wanted!.parent
    const isTop = wanted === top
    const head = isTop && topIndex >= 0 ? wanted!.steps[topIndex]! : wanted!.final!
    const block = view.block({ number: BigInt(height) })
    expect(block?.hash).toEqual(head.hash)
    expect(block?.flashblockIndex).toBe(isTop && topIndex >= 0 ? topIndex : undefined)
    checkNumber(view, BigInt(height))
    expect(view.latest.hash).toEqual(pinned.latest.final!.hash)
    expect(view.pending.number).toBe(BigInt(top.number))
    const step = pick % wanted!.steps.length
    const prefix = view.block({ hash: wanted!.steps[step]!.hash, requireCanonical: false })
    if (height === GENESIS) return
    if (pinned.endpoint === 'standard') expect(prefix).toBeUndefined()
    else if (isTop && topIndex >= 0 && step > topIndex) expect(prefix).toBeUndefined()
    else {
      expect(prefix!.flashblockIndex).toBe(step)
      checkBlock(view, prefix!)
      checkStateIfRetained(view, prefix!)
    }
    checkFlashblock(pinned, wanted!, step)
    checkLogs(pinned)
    const other = world.driver.pending
    if (!isAncestor(other, top))
      for (const { transaction } of other.steps.at(-1)!.executed.slice(-1)) {
        const isBelow = [...chainOf(top, topIndex)].includes(transaction.hash)
        if (!isBelow) expect(view.findTransaction(transaction.hash)).toBeUndefined()
      }
  } catch (error) {
    const isVoid = error instanceof ViewError && error.reason === 'void'
    if (isVoid && pinned.unwinds < world.unwinds.count) return
    throw error
  }
}

/**
 * Compares a block at one of its flashblocks, read by number and index, with what was published
 * then. The flashblock is readable while the snapshot's base is below.
 */
function checkFlashblock(
  { leased: { view }, base, top, topIndex }: Pinned,
  wanted: Built,
  index: number,
): void {
  const number = BigInt(wanted.number)
  const { payloadId } = wanted
  const read = (flashblockId: Partial<FlashblockId> = {}) =>
    view.block({ flashblock: { number, index, ...flashblockId } })
  expect(read({ number: BigInt(top.number + 1) })).toBeUndefined()
  if (wanted.number <= base) {
    expect(read).toThrow(expect.objectContaining({ reason: 'pruned', why: 'gone' }))
    return
  }
  const last = wanted === top && topIndex >= 0 ? topIndex : wanted.steps.length - 1
  expect(read({ index: last + 1 })).toBeUndefined()
  expect(() => read({ payloadId: '0xffffffffffffffff' })).toThrow(
    expect.objectContaining({ why: 'replaced' }),
  )
  const block = read({ payloadId })
  if (index > last) {
    expect(block).toBeUndefined()
    return
  }
  expect(block?.hash).toEqual(wanted.steps[index]!.hash)
  expect(block?.flashblockIndex).toBe(index)
  expect(read()?.hash).toEqual(block?.hash)
  checkBlock(view, block!)
  checkState(view, block!)
  const pinned = retainedOf(() => read({ number: BigInt(base) }))
  expect(pinned.newest).toMatchObject({ number: BigInt(top.number), payloadId: top.payloadId })
  expect(pinned.oldest).toMatchObject({ number: BigInt(base + 1), index: 0 })
}

function retainedOf(read: () => unknown): NonNullable<FlashblockUnavailableError['retained']> {
  try {
    read()
  } catch (error) {
    if (error instanceof FlashblockUnavailableError && error.retained !== undefined)
      return error.retained
    throw error
  }
  throw new Error('a persisted block has a flashblock')
}

/** Compares all logs, of persisted blocks and others, with the truth. */
function checkLogs({ leased: { view }, top, topIndex }: Pinned): void {
  const range = { fromBlock: BigInt(GENESIS), toBlock: BigInt(top.number) }
  const found = foundLogs(
    view,
    { ...range, addresses: [], topics: [] },
    { maxLogs: 10_000, maxBytes: 1e9, maxReads: 10_000, isExpired: () => false },
  )
  if (found.status !== 'found') throw new Error(found.status)
  const wanted: unknown[][] = []
  for (let at: Built | undefined = top; at !== undefined; at = at.parent) {
    const step = at === top && topIndex >= 0 ? at.steps[topIndex]! : at.steps.at(-1)!
    let logIndex = 0
    const own = step.executed.flatMap(({ transaction, receipt }, index) =>
      receipt.logs.map((log) => [at!.number, transaction.hash, index, logIndex++, log]),
    )
    wanted.unshift(...own)
  }
  const flat = found.logs.map(({ block, transactionHash, transactionIndex, logIndex, log }) => [
    ...[Number(block.number), transactionHash, transactionIndex, logIndex, log],
  ])
  expect(flat).toEqual(wanted)
}

function* chainOf(top: Built, topIndex: number) {
  for (let at: Built | undefined = top; at !== undefined; at = at.parent) {
    const step = at === top && topIndex >= 0 ? at.steps[topIndex]! : at.steps.at(-1)!
    for (const { transaction } of step.executed) yield transaction.hash
  }
}

/**
 * Checks the state, unless it is the state between two flashblocks of a persisted block, which is
 * not retained.
 */
function checkStateIfRetained(view: LeasedView['view'], block: Parameters<typeof checkState>[1]) {
  try {
    checkState(view, block)
  } catch (error) {
    const isGone = error instanceof ViewError && error.reason === 'pruned'
    if (!isGone || block.flashblockIndex === undefined) throw error
  }
}

const OPS = [
  'payload',
  'flashblock',
  'flashblock',
  'seal',
  'advance',
  'flush',
  'replace',
  'slice',
  'slice',
  'slice',
  'unfold',
  'lease',
  'adopt',
  'release',
] as const

const step: fc.Arbitrary<Step> = fc.record({
  op: fc.constantFrom(...OPS),
  seed: fc.nat(100_000),
})

type Step = { readonly op: (typeof OPS)[number]; readonly seed: number }

function run(steps: readonly Step[], pages: number, kind: Kind) {
  const world = open(pages, kind)
  const { driver, unwinds } = world
  const readers = [world.reader(0), world.reader(1), world.reader(2)]
  const pinned: Pinned[] = []
  for (const { op, seed } of steps) {
    if (op === 'payload') driver.payload(seed)
    else if (op === 'flashblock') driver.flashblock(seed)
    else if (op === 'seal') driver.seal()
    else if (op === 'advance') driver.advance()
    else if (op === 'flush') driver.flush()
    else if (op === 'replace') driver.replace(seed)
    else if (op === 'slice') driver.slice(seed % 3)
    else if (op === 'unfold' && seed % 2 === 0 && driver.persisted.length > 1) {
      const to = driver.persisted.at(-1 - (seed % Math.min(3, driver.persisted.length)))!
      const before = unwinds.count
      driver.branch(to, seed, () => {
        if (unwinds.count === before) unwinds.count++
        // The writer goes on meanwhile, and its new snapshots are as void as older ones.
        driver.publish()
        const now = pin(world, readers[0]!, 'standard')
        for (const each of [...pinned, { ...now, unwinds: before }]) check(world, each, seed)
        now.leased.release()
      })
    } else if (op === 'lease' && pinned.length < 5)
      pinned.push(pin(world, readers[seed % 3]!, seed % 2 === 0 ? 'standard' : 'flashblocks'))
    else if (op === 'adopt' && pinned.length > 0 && pinned.length < 5) {
      const from = pinned[seed % pinned.length]!
      const leased = readers[seed % 3]!.adopt(from.leased.snapshot, from.endpoint)
      // Only the front's lease protects a worker's lease for certain.
      if (leased !== undefined) pinned.push({ ...from, leased })
    } else if (op === 'release')
      for (const each of pinned.splice(seed % (pinned.length + 1), 1)) each.leased.release()
    for (const each of pinned) check(world, each, seed)
    const now = pin(world, readers[0]!, 'flashblocks')
    check(world, now, seed)
    now.leased.release()
  }
  for (const { leased } of pinned) leased.release()
  return world
}

describe('views', () => {
  test.each([
    ['a large arena', 400, 'maps'],
    ['a tiny arena', 24, 'maps'],
    ['the persistence thread instead of maps', 24, 'persistence'],
  ] as const)('a view matches plain execution at its snapshot with %s', (_, pages, kind) => {
    const seen = { refused: 0, persists: 0, unwinds: 0 }
    fc.assert(
      fc.property(fc.array(step, { minLength: 20, maxLength: 120, size: 'max' }), (steps) => {
        const { driver, unwinds } = run(steps, pages, kind)
        seen.refused += driver.refused
        seen.persists += driver.persisted.length - 1
        seen.unwinds += unwinds.count
      }),
      // A failure is shrunk as far as possible in this time.
      { numRuns: 40 },
    )
    expect(seen.refused > 0).toBe(pages < 100)
    expect(seen.persists).toBeGreaterThan(10)
    expect(seen.unwinds).toBeGreaterThan(3)
  })

  test('a prefix of a persisted block has no state, though its diff layer exists', () => {
    const { driver, reader } = open(64)
    driver.payload(4457)
    driver.flashblock(7847)
    driver.seal()
    driver.advance()
    while (driver.unpersisted.length > 0) driver.slice(0)
    const { view } = reader(0).lease('flashblocks')
    const { hash } = driver.complete.steps[0]!
    const prefix = view.block({ hash, requireCanonical: false })!
    expect(prefix.flashblockIndex).toBe(0)
    checkBlock(view, prefix)
    expect(() => view.state(prefix)).toThrow('state within block 1001 is not kept any more')
    checkNumber(view, 1001n)
  })

  test('a view that mixes two states is found by the check', () => {
    const { driver, reader } = open(64)
    driver.payload(48)
    const { view } = reader(0).lease('flashblocks')
    const block = view.block({ tag: 'pending' })!
    const other = { ...view, state: () => view.state(view.block({ tag: 'latest' })!) }
    expect(() => checkState(other, block)).toThrow(MixedView)
  })
})

test('a block without flashblocks is not in the range of retained flashblocks', () => {
  const { driver, reader } = open(64)
  driver.payload(4457)
  driver.seal()
  driver.advance()
  const handle = driver.publisher.start(driver.complete.handle)
  const { header, hash, executed: transactions } = driver.complete.steps[0]!
  const full = { index: 0, header, hash, transactions, diff: [] }
  driver.publisher.add(handle, full)
  driver.publisher.finish(handle, header, hash)
  const [heads, safe] = [driver.complete.handle, GENESIS]
  const labelledHeads = { safe, finalized: safe }
  driver.publisher.publish({
    canonical: heads,
    complete: handle,
    pending: handle,
    ...labelledHeads,
  })
  const { view } = reader(0).lease('flashblocks')
  const number = BigInt(GENESIS + 2)
  const flashblockId = {
    number: BigInt(GENESIS + 1),
    index: 0,
    payloadId: driver.complete.payloadId,
  }
  expect(retainedOf(() => view.block({ flashblock: { number, index: 0 } }))).toEqual({
    oldest: flashblockId,
    newest: flashblockId,
  })
})

test('the part of a block that no flashblock had comes after its flashblocks', () => {
  const { driver, reader } = open(64)
  driver.payload(4457)
  driver.flashblock(12)
  const { handle, steps, payloadId } = driver.pending
  const { header, hash } = steps.at(-1)!
  const rest = { index: FULL_BLOCK_INDEX, header, hash, transactions: [], diff: [] }
  driver.publisher.add(handle, rest)
  driver.publish()
  const { view } = reader(0).lease('flashblocks')
  expect(view.pending).toMatchObject({ index: FULL_BLOCK_INDEX, payloadId })
  const block = view.block({ tag: 'pending' })!
  const from = (index: number) =>
    view.growth(block, index).flashblocks.map(({ flashblockIndex }) => flashblockIndex)
  expect([from(0), from(1), from(2), from(FULL_BLOCK_INDEX + 1)]).toEqual([
    [0, 1, FULL_BLOCK_INDEX],
    [1, FULL_BLOCK_INDEX],
    [FULL_BLOCK_INDEX],
    [],
  ])
})

describe('a log search', () => {
  /**
   * Makes four blocks, two of them persisted, and a pending one; each transaction has up to three
   * logs.
   */
  function filled() {
    const world = open(400)
    for (let number = 1; number <= 4; number++) {
      world.driver.payload(number * 3 + 1)
      world.driver.flashblock(number * 3 + 2)
      world.driver.flashblock(number * 3 + 4)
      world.driver.seal()
      world.driver.advance()
    }
    while (world.driver.canonical.number - world.driver.persisted.at(-1)!.number > 2)
      world.driver.slice(2)
    world.driver.payload(7)
    const { view } = world.reader(0).lease('flashblocks')
    const logs = Array.from(
      { length: 5 },
      (_, at) => view.block({ number: BigInt(GENESIS + 1 + at) })!,
    )
      .flatMap((block) => block.receipts().map((receipt, index) => ({ block, receipt, index })))
      .flatMap(({ block, receipt, index }) => receipt.logs.map((log) => ({ block, log, index })))
    return { ...world, view, logs }
  }
  const all = { fromBlock: 0n, toBlock: 5000n, addresses: [], topics: [] }
  const limits = { maxLogs: 1000, maxReads: 1000, maxBytes: 1e9, isExpired: () => false }
  const keys = (logs: readonly { log: Log; block: Block; transactionIndex: number }[]) =>
    logs.map(({ log, block, transactionIndex }) => [block.number, transactionIndex, log.data])

  test('finds logs of persisted, unpersisted and pending blocks once and in order', () => {
    const { view, logs } = filled()
    const wanted = (pick: (log: Log) => boolean) =>
      logs
        .filter(({ log }) => pick(log))
        .map(({ block, index, log }) => [block.number, index, log.data])
    const patterns: [LogPattern, (log: Log) => boolean][] = [
      [{ addresses: [], topics: [] }, () => true],
      [{ addresses: [ADDRESSES[1]!], topics: [] }, ({ address }) => address[0] === 2],
      [{ addresses: [], topics: [[], [word(0), word(2)]] }, ({ topics }) => topics[1]![31] !== 1],
      [
        { addresses: [], topics: [[logs[3]!.log.topics[0]!]] },
        ({ topics }) => Buffer.compare(topics[0]!, logs[3]!.log.topics[0]!) === 0,
      ],
      [{ addresses: [new Uint8Array(20)], topics: [] }, () => false],
      [{ addresses: [], topics: [[], [], []] }, () => false],
    ]
    expect(logs.length).toBeGreaterThan(8)
    for (const [pattern, pick] of patterns) {
      const found = foundLogs(view, { ...all, ...pattern }, limits)
      expect(found.status === 'found' && keys(found.logs)).toEqual(wanted(pick))
    }
    const from = BigInt(GENESIS + 3)
    const part = foundLogs(view, { ...all, fromBlock: from, toBlock: from }, limits)
    const inPart = wanted(() => true).filter(([number]) => number === from)
    expect(part.status === 'found' && keys(part.logs)).toEqual(inPart)
  })

  test('can cut the first and the last block at a flashblock', () => {
    const { view, driver } = filled()
    const two = driver.complete.steps
    const number = BigInt(driver.complete.number)
    const at = (index: number) => view.block({ flashblock: { number, index } })!
    const count = (index: number) => at(index).transactionCount
    const range = { ...all, fromBlock: number, toBlock: number }
    const found = (more: object) => {
      const result = foundLogs(view, { ...range, ...more }, limits)
      return result.status === 'found' ? keys(result.logs) : []
    }
    const full = found({})
    const below = (index: number) => full.filter(([, at]) => Number(at) < count(index))
    expect(new Set(two.map((_, index) => below(index).length)).size).toBeGreaterThan(1)
    for (const index of two.keys()) {
      expect(found({ toFlashblock: { number, index } })).toEqual(below(index))
      const firstTransaction = count(index)
      expect([...below(index), ...found({ firstTransaction })]).toEqual(full)
    }
  })

  test('with too many results names a smaller range that fits', () => {
    const { view, logs } = filled()
    let fromBlock = 0n
    let found: readonly { log: Log; block: Block; transactionIndex: number }[] = []
    let stops = 0
    for (;;) {
      const result = foundLogs(view, { ...all, fromBlock }, { ...limits, maxLogs: 4 })
      if (result.status === 'expired') throw new Error('nothing expires here')
      const toBlock = result.status === 'found' ? 5000n : result.firstLeftOut - 1n
      const part = foundLogs(view, { ...all, fromBlock, toBlock }, { ...limits, maxLogs: 4 })
      if (part.status !== 'found') throw new Error(part.status)
      found = [...found, ...part.logs]
      if (result.status === 'found') break
      expect(result.firstLeftOut).toBeGreaterThan(fromBlock)
      fromBlock = result.firstLeftOut
      stops++
    }
    expect(stops).toBeGreaterThan(1)
    expect(found.map(({ log }) => log)).toEqual(logs.map(({ log }) => log))
  })

  test('stops when its time is over', () => {
    const { view } = filled()
    let blocks = 0
    const isExpired = () => blocks++ === 2
    const found = foundLogs(view, all, { ...limits, isExpired })
    expect(found).toEqual({ status: 'expired', firstLeftOut: BigInt(GENESIS + 2) })
  })
})

test('an endpoint has its own heads, and its cache keys change only with them', () => {
  const { driver, reader } = open(64)
  const chain = reader(0)
  driver.payload(1)
  driver.seal()
  driver.payload(4)
  driver.flashblock(5)
  const [flash, plain] = [chain.lease('flashblocks'), chain.lease('standard')]
  expect(flash.view.pending).toMatchObject({
    number: BigInt(GENESIS + 2),
    index: 1,
    payloadId: driver.pending.payloadId,
  })
  const numbers = ({ view }: LeasedView) =>
    (['earliest', 'finalized', 'safe', 'latest', 'pending'] as const).map(
      (tag) => Number(view.block({ tag })!.number) - GENESIS,
    )
  expect(numbers(flash)).toEqual([0, 0, 0, 1, 2])
  expect(numbers(plain)).toEqual([0, 0, 0, 0, 0])
  expect(plain.view.block({ number: BigInt(GENESIS + 1) })).toBeUndefined()
  const [pending] = driver.pending.steps
  const before = { hash: pending!.hash, requireCanonical: false }
  expect(flash.view.block(before)?.flashblockIndex).toBe(0)
  expect(flash.view.block({ ...before, requireCanonical: true })).toBeUndefined()
  expect(plain.view.block(before)).toBeUndefined()
  const keys = () =>
    (['flashblocks', 'standard'] as const).flatMap((endpoint) => {
      const { view, release } = chain.lease(endpoint)
      const all = (['latest', 'pending', 'heads'] as const).map((basis) => view.cacheKey(basis))
      release()
      return all
    })
  const changed = (act: () => void) => {
    const old = keys()
    act()
    return keys().map((key, at) => key !== old[at])
  }
  expect(new Set(keys()).size).toBe(6)
  expect(changed(() => driver.publish())).toEqual([false, false, false, false, false, false])
  expect(changed(() => driver.flashblock(8))).toEqual([false, true, true, false, false, false])
  expect(changed(() => driver.seal())).toEqual([true, true, true, false, false, false])
})

test('latest of the flashblocks endpoint can be the canonical head', () => {
  const { driver, reader } = open(64)
  driver.payload(1)
  driver.seal()
  driver.payload(4)
  const chain = reader(0, 'canonical')
  const { view } = chain.lease('flashblocks')
  const heights = [view.latest.number, view.block({ tag: 'latest' })!.number, view.pending.number]
  expect(heights.map((height) => Number(height) - GENESIS)).toEqual([0, 0, 2])
  expect(view.block({ number: BigInt(GENESIS + 1) })?.flashblockIndex).toBeUndefined()
  const key = view.cacheKey('latest')
  driver.flashblock(5)
  driver.seal()
  expect(chain.lease('flashblocks').view.cacheKey('latest')).toBe(key)
  driver.advance()
  const moved = chain.lease('flashblocks').view
  expect(Number(moved.latest.number)).toBe(GENESIS + 1)
  expect(moved.cacheKey('latest')).not.toBe(key)
})
