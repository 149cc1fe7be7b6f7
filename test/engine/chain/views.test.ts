import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { keepLogRows } from '../../../engine/chain/kept-log-rows.ts'
import { openChainReader } from '../../../engine/chain/reader.ts'
import type {
  Block,
  ChainReader,
  Endpoint,
  FlashblockPlace,
  LatestHead,
  LeasedView,
  LogPattern,
} from '../../../engine/chain/types.ts'
import type { Log } from '../../../engine/primitives/receipt.ts'
import { bigintToBytes } from '../../../engine/primitives/words.ts'
import { PlaceError, ViewError } from '../../../engine/state/reader.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import type { KeeperWords, StoreReader } from '../../../engine/storage/types.ts'
import { createViews, keeperWords } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import { WHOLE_INDEX } from '../../../engine/views/whole-index.ts'
import { foundLogs } from '../../fixtures/found-logs.ts'
import { mapStore } from '../../fixtures/map-store.ts'
import { ADDRESSES, EMPTY_WORLD } from '../../fixtures/view-blocks.ts'
import { plainChain } from '../../fixtures/view-chain.ts'
import { checkBlock, checkNumber, checkState, MixedView } from '../../fixtures/view-check.ts'
import { type Built, Driver, type Durable, isAncestor } from '../../fixtures/view-driver.ts'
import { keeperDurable } from '../../fixtures/view-keeper.ts'

const PAGE = 2048
const GENESIS = 1000
const word = (n: number) => bigintToBytes(BigInt(n), 32)

type Kind = 'maps' | 'keeper'

function open(pages: number, kind: Kind = 'maps') {
  const views = createViews({
    bytes: pages * PAGE,
    threads: 3,
    seed: 99,
    pageBytes: PAGE,
    cacheEntries: 64,
  })
  const words = keeperWords(views)
  const chain = plainChain(GENESIS)
  const { store, durable } = kind === 'maps' ? inMaps(words) : inKeeper(words)
  const publisher = openPublisher(views, { number: GENESIS, hash: chain.genesisHash })
  const driver = new Driver(publisher, durable, EMPTY_WORLD)
  const reader = (thread: number, latest?: LatestHead) => {
    // Of a few blocks: others make room all the time.
    const logRows = keepLogRows(4_000)
    return openChainReader({ views, store, chain, thread, logRows, ...(latest && { latest }) })
  }
  return { driver, reader, unfolds: { count: 0 } }
}
function inMaps(words: KeeperWords): { store: StoreReader; durable: Durable } {
  const store = mapStore({ world: EMPTY_WORLD, number: GENESIS })
  store.attach(words)
  return { store, durable: store }
}
function inKeeper(words: KeeperWords): { store: StoreReader; durable: Durable } {
  const database = memoryDatabase()
  const durable = keeperDurable({ database, words, genesisNumber: GENESIS, pieces: 1 })
  return { store: openStore(database), durable }
}

/** A leased view and what the truth was when its record was published. */
type Held = {
  readonly leased: LeasedView
  readonly endpoint: Endpoint
  readonly top: Built
  readonly topIndex: number
  readonly latest: Built
  /** Number of the newest block that the record knows to be folded. */
  readonly base: number
  readonly unfolds: number
}

function hold(world: ReturnType<typeof open>, reader: ChainReader, endpoint: Endpoint): Held {
  const { driver, unfolds } = world
  const isStandard = endpoint === 'standard'
  const top = isStandard ? driver.canonical : driver.pending
  return {
    leased: reader.lease(endpoint),
    endpoint,
    top,
    topIndex: top.final === undefined ? top.steps.length - 1 : -1,
    latest: isStandard ? driver.canonical : driver.complete,
    base: driver.publisher.base.number,
    unfolds: unfolds.count,
  }
}

/** One block of a view, chosen by `pick`, against the truth. */
function check(world: ReturnType<typeof open>, held: Held, pick: number): void {
  const { view } = held.leased
  const { top, topIndex } = held
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
    expect(view.latest.hash).toEqual(held.latest.final!.hash)
    expect(view.pending.number).toBe(BigInt(top.number))
    const step = pick % wanted!.steps.length
    const prefix = view.block({ hash: wanted!.steps[step]!.hash, requireCanonical: false })
    if (height === GENESIS) return
    if (held.endpoint === 'standard') expect(prefix).toBeUndefined()
    else if (isTop && topIndex >= 0 && step > topIndex) expect(prefix).toBeUndefined()
    else {
      expect(prefix!.flashblockIndex).toBe(step)
      checkBlock(view, prefix!)
      checkStateIfKept(view, prefix!)
    }
    checkPlace(held, wanted!, step)
    checkLogs(held)
    const other = world.driver.pending
    if (!isAncestor(other, top))
      for (const { transaction } of other.steps.at(-1)!.executed.slice(-1)) {
        const isBelow = [...chainOf(top, topIndex)].includes(transaction.hash)
        if (!isBelow) expect(view.findTransaction(transaction.hash)).toBeUndefined()
      }
  } catch (error) {
    const isVoid = error instanceof ViewError && error.reason === 'void'
    if (isVoid && held.unfolds < world.unfolds.count) return
    throw error
  }
}

/** A block at one of its flashblocks, asked for by number and index: what was published then, as long as the record's base is below. */
function checkPlace(
  { leased: { view }, base, top, topIndex }: Held,
  wanted: Built,
  index: number,
): void {
  const number = BigInt(wanted.number)
  const { payloadId } = wanted
  const read = (place: Partial<FlashblockPlace> = {}) =>
    view.block({ flashblock: { number, index, ...place } })
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
  const held = heldOf(() => read({ number: BigInt(base) }))
  expect(held.newest).toMatchObject({ number: BigInt(top.number), payloadId: top.payloadId })
  expect(held.oldest).toMatchObject({ number: BigInt(base + 1), index: 0 })
}

function heldOf(read: () => unknown): NonNullable<PlaceError['held']> {
  try {
    read()
  } catch (error) {
    if (error instanceof PlaceError && error.held !== undefined) return error.held
    throw error
  }
  throw new Error('a folded block has a flashblock')
}

/** All of them, of folded blocks and others, as the truth has them. */
function checkLogs({ leased: { view }, top, topIndex }: Held): void {
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

/** State between two flashblocks of a folded block is not kept. */
function checkStateIfKept(view: LeasedView['view'], block: Parameters<typeof checkState>[1]) {
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
  const { driver, unfolds } = world
  const readers = [world.reader(0), world.reader(1), world.reader(2)]
  const held: Held[] = []
  for (const { op, seed } of steps) {
    if (op === 'payload') driver.payload(seed)
    else if (op === 'flashblock') driver.flashblock(seed)
    else if (op === 'seal') driver.seal()
    else if (op === 'advance') driver.advance()
    else if (op === 'flush') driver.flush()
    else if (op === 'replace') driver.replace(seed)
    else if (op === 'slice') driver.slice(seed % 3)
    else if (op === 'unfold' && seed % 2 === 0 && driver.folded.length > 1) {
      const to = driver.folded.at(-1 - (seed % Math.min(3, driver.folded.length)))!
      const before = unfolds.count
      driver.branch(to, seed, () => {
        if (unfolds.count === before) unfolds.count++
        // The writer goes on meanwhile, and what it publishes is as void as what is older.
        driver.publish()
        const now = hold(world, readers[0]!, 'standard')
        for (const each of [...held, { ...now, unfolds: before }]) check(world, each, seed)
        now.leased.release()
      })
    } else if (op === 'lease' && held.length < 5)
      held.push(hold(world, readers[seed % 3]!, seed % 2 === 0 ? 'standard' : 'flashblocks'))
    else if (op === 'adopt' && held.length > 0 && held.length < 5) {
      const from = held[seed % held.length]!
      const leased = readers[seed % 3]!.adopt(from.leased.record, from.endpoint)
      // Only the front's lease covers a worker's for certain.
      if (leased !== undefined) held.push({ ...from, leased })
    } else if (op === 'release')
      for (const each of held.splice(seed % (held.length + 1), 1)) each.leased.release()
    for (const each of held) check(world, each, seed)
    const now = hold(world, readers[0]!, 'flashblocks')
    check(world, now, seed)
    now.leased.release()
  }
  for (const { leased } of held) leased.release()
  return world
}

describe('a view answers as plain execution at its record', () => {
  test.each([
    ['an arena with room', 400, 'maps'],
    ['a tiny arena', 24, 'maps'],
    ['the keeper behind it', 24, 'keeper'],
  ] as const)('%s', (_, pages, kind) => {
    const seen = { refused: 0, folds: 0, unfolds: 0 }
    fc.assert(
      fc.property(fc.array(step, { minLength: 20, maxLength: 120, size: 'max' }), (steps) => {
        const { driver, unfolds } = run(steps, pages, kind)
        seen.refused += driver.refused
        seen.folds += driver.folded.length - 1
        seen.unfolds += unfolds.count
      }),
      // A failure is shrunk as far as that goes in this time.
      { numRuns: 40 },
    )
    expect(seen.refused > 0).toBe(pages < 100)
    expect(seen.folds).toBeGreaterThan(10)
    expect(seen.unfolds).toBeGreaterThan(3)
  })

  test('a prefix of a folded block has no state, though its table is still a head', () => {
    const { driver, reader } = open(64)
    driver.payload(4457)
    driver.flashblock(7847)
    driver.seal()
    driver.advance()
    while (driver.unfolded.length > 0) driver.slice(0)
    const { view } = reader(0).lease('flashblocks')
    const { hash } = driver.complete.steps[0]!
    const prefix = view.block({ hash, requireCanonical: false })!
    expect(prefix.flashblockIndex).toBe(0)
    checkBlock(view, prefix)
    expect(() => view.state(prefix)).toThrow('state within block 1001 is not kept any more')
    checkNumber(view, 1001n)
  })

  test('the check finds a mixed view', () => {
    const { driver, reader } = open(64)
    driver.payload(48)
    const { view } = reader(0).lease('flashblocks')
    const block = view.block({ tag: 'pending' })!
    const other = { ...view, state: () => view.state(view.block({ tag: 'latest' })!) }
    expect(() => checkState(other, block)).toThrow(MixedView)
  })
})

test('flashblocks of a block that came without are not told apart', () => {
  const { driver, reader } = open(64)
  driver.payload(4457)
  driver.seal()
  driver.advance()
  const handle = driver.publisher.begin(driver.complete.handle)
  const { header, hash, executed: transactions } = driver.complete.steps[0]!
  const whole = { index: 0, header, hash, transactions, diff: [] }
  driver.publisher.add(handle, whole)
  driver.publisher.finish(handle, header, hash)
  const [heads, safe] = [driver.complete.handle, GENESIS]
  const marks = { safe, finalized: safe }
  driver.publisher.publish({ canonical: heads, complete: handle, pending: handle, ...marks })
  const { view } = reader(0).lease('flashblocks')
  const number = BigInt(GENESIS + 2)
  const place = { number: BigInt(GENESIS + 1), index: 0, payloadId: driver.complete.payloadId }
  expect(heldOf(() => view.block({ flashblock: { number, index: 0 } }))).toEqual({
    oldest: place,
    newest: place,
  })
})

test('what no flashblock told of a block is told after its flashblocks', () => {
  const { driver, reader } = open(64)
  driver.payload(4457)
  driver.flashblock(12)
  const { handle, steps, payloadId } = driver.pending
  const { header, hash } = steps.at(-1)!
  const rest = { index: WHOLE_INDEX, header, hash, transactions: [], diff: [] }
  driver.publisher.add(handle, rest)
  driver.publish()
  const { view } = reader(0).lease('flashblocks')
  expect(view.pending).toMatchObject({ index: WHOLE_INDEX, payloadId })
  const block = view.block({ tag: 'pending' })!
  const from = (index: number) =>
    view.growth(block, index).flashblocks.map(({ flashblockIndex }) => flashblockIndex)
  expect([from(0), from(1), from(2), from(WHOLE_INDEX + 1)]).toEqual([
    [0, 1, WHOLE_INDEX],
    [1, WHOLE_INDEX],
    [WHOLE_INDEX],
    [],
  ])
})

describe('logs', () => {
  /** Four blocks, two of them folded, and a pending one; each transaction has up to three logs. */
  function filled() {
    const world = open(400)
    for (let number = 1; number <= 4; number++) {
      world.driver.payload(number * 3 + 1)
      world.driver.flashblock(number * 3 + 2)
      world.driver.flashblock(number * 3 + 4)
      world.driver.seal()
      world.driver.advance()
    }
    while (world.driver.canonical.number - world.driver.folded.at(-1)!.number > 2)
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

  test('of folded, unfolded and pending blocks come once, in order, as the pattern says', () => {
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

  test('of flashblocks alone: the first and the last block are cut', () => {
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
    const whole = found({})
    const below = (index: number) => whole.filter(([, at]) => Number(at) < count(index))
    expect(new Set(two.map((_, index) => below(index).length)).size).toBeGreaterThan(1)
    for (const index of two.keys()) {
      expect(found({ toPlace: { number, index } })).toEqual(below(index))
      const firstTransaction = count(index)
      expect([...below(index), ...found({ firstTransaction })]).toEqual(whole)
    }
  })

  test('too many name a smaller range that can be answered', () => {
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

  test('a search stops when its time is over', () => {
    const { view } = filled()
    let blocks = 0
    const isExpired = () => blocks++ === 2
    const found = foundLogs(view, all, { ...limits, isExpired })
    expect(found).toEqual({ status: 'expired', firstLeftOut: BigInt(GENESIS + 2) })
  })
})

test('an endpoint shows its own heads, and the same cache key for the same answers', () => {
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

test('latest of the flashblocks endpoint may be the canonical head', () => {
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
