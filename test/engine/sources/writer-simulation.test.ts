/**
 * The writer, its persistence thread and the txpool run under a seeded driver. It varies the order
 * of messages, the number of feeds, lies of a source, missing state, the trie, and restarts.
 */
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import type { UpstreamBlock } from '../../../engine/chain/types.ts'
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { JOURNAL_FEED } from '../../../engine/sources/writer/types.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { followViews, restoreTxpool } from '../../../engine/txpool/follow.ts'
import { headOf } from '../../../engine/txpool/head.ts'
import { Txpool } from '../../../engine/txpool/txpool.ts'
import { CHAIN, type ProducedBlock } from '../../fixtures/producer.ts'
import { at } from '../../fixtures/txpool.ts'
import { checkViews } from '../../fixtures/writer-checks.ts'
import { createHistory, type History } from '../../fixtures/writer-history.ts'
import { digestOf, hex, WriterWorld } from '../../fixtures/writer-world.ts'

let history: History
beforeAll(async () => {
  history = await createHistory()
})

const RUNS = Number(process.env['SIMULATION_RUNS'] ?? 20)
const SEED = process.env['SIMULATION_SEED']

test('any history stays on one chain, loses nothing visible and ends canonical', {
  timeout: 600_000 + RUNS * 5_000,
}, async () => {
  if (SEED !== undefined) return new Simulation(Number(SEED)).run()
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: 2 ** 31 }), async (seed) => {
      await new Simulation(seed).run()
    }),
    // Another seed gives another history, not a smaller one.
    { numRuns: RUNS, endOnFailure: true },
  )
  return undefined
})

test('without faults each block is executed once, by its flashblocks', async () => {
  const world = new WriterWorld()
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  for (const block of history.canonicalBlocks.slice(0, 3)) {
    for (const message of block.flashblocks) await world.packet(message)
    await world.packet(block.end)
    await world.apply({ type: 'sealed', block: block.upstreamBlock })
    await world.settle()
    checkViews(world, history)
  }
  expect(world.count('sealed_executed_whole')).toBe(0)
})

/** Makes an xorshift generator: the same seed gives the same run. */
function random(seed: number): (below: number) => number {
  let state = seed | 1
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

/** These counters allow that visible transactions are removed. */
const REASONS = [
  'flush',
  'payload_replaced',
  'promise_broken',
  'reconcile_replaced',
  'unfold',
  'memory_full',
] as const

type Feed = { readonly messages: readonly FeedMessage[]; at: number; isConnected: boolean }

class Simulation {
  readonly world: WriterWorld
  readonly random: (below: number) => number
  readonly journal: Bytes[] = []
  pool!: Txpool
  follower!: ReturnType<typeof followViews>
  readonly feeds: readonly Feed[]
  canonicalAt = 0
  /** The position of the newest visible canonical block in the order of decision. */
  visiblePosition = -1
  checked = -1
  /** The visible transactions, and the counted removals. */
  visible = new Set<string>()
  reasons = 0
  /** The feeds' share of a hundred steps; below about 10 the persistence thread keeps up. */
  readonly pace: number
  readonly hasFaults: boolean

  constructor(seed: number) {
    this.random = random(seed)
    // With 0 the reorg of the history goes below the persisted head.
    const foldDepth = this.random(3)
    this.hasFaults = this.random(4) > 0
    this.pace = [4, 8, 15, 30][this.random(4)]!
    const isLazy = this.random(3) === 0
    const isMissing = this.random(3) === 0
    this.world = new WriterWorld({ foldDepth, isLazy, isMissing })
    const lists = this.random(2) === 0 ? [history.feed] : [history.feed, history.otherFeed]
    this.feeds = lists.map((messages) => ({ messages, at: 0, isConnected: true }))
    this.openPool()
  }

  async run(): Promise<void> {
    for (const feed of this.feeds.keys())
      await this.world.apply({ type: 'feed', feed, isConnected: true })
    for (const { raw } of history.transactions)
      this.view((view) => this.pool.submit(raw, at(headOf(view, CHAIN))))
    while (
      this.feeds.some(({ messages, at: next }) => next < messages.length) ||
      this.canonicalAt < history.canonicalBlocks.length
    ) {
      await this.step()
      // Between two snapshots only the persist passes of the persistence thread can change a
      // response.
      const snapshot = this.world.reader.newestSnapshot()
      if (snapshot !== this.checked || this.random(16) === 0) this.checkUnlessVoid()
      this.checked = snapshot
    }
    await this.world.settle({ ticks: true })
    this.check()
    const last = history.canonicalBlocks.at(-1)!
    expect(this.world.heads().canonical).toEqual([last.number, hex(last.hash)])
    expect(this.world.emitted.filter(({ type }) => type === 'halted')).toEqual([])
  }

  async step(): Promise<void> {
    const { world } = this
    const choice = this.random(100)
    if (choice < this.pace) await this.feed()
    else if (choice < this.pace + this.pace / 3) await this.seal()
    else if (choice < 50) world.handleRequest()
    else if (choice < 60) await world.fetch(this.hasFaults && choice === 59 ? 'lost' : undefined)
    else if (choice < 75) await world.deliverResponse()
    else if (choice < 90) world.persistenceStep()
    else if (choice < 95) await this.speculate()
    else if (choice < 98) await this.wait()
    else if (this.hasFaults && choice === 98) await this.reconnect()
    else if (this.hasFaults && this.random(2) === 0) await this.restart()
  }

  async feed(): Promise<void> {
    const number = this.random(this.feeds.length)
    const feed = this.feeds[number]!
    const message = feed.messages[feed.at]
    if (message === undefined) return
    feed.at++
    const send = (sent: FeedMessage, digest = digestOf(sent)) =>
      this.world.packet(sent, digest, number)
    const fault = this.hasFaults ? this.random(50) : 99
    if (fault === 0) return
    const next = feed.messages[feed.at]
    // The next message overtakes this one.
    if (fault === 5 && next !== undefined) {
      feed.at++
      await send(next)
    }
    if (fault === 1 && message.type === 'flashblock') await send(spoilt(message), 1n)
    await send(message)
    if (fault === 2) await send(message)
    if (fault === 3 && message.type === 'flashblock')
      await send(spoilt(message), digestOf(message) + 77n)
    if (fault === 4) await send(feed.messages[this.random(feed.at)]!)
  }

  async seal(): Promise<void> {
    const block = history.canonicalBlocks[this.canonicalAt]
    if (block === undefined) return
    this.canonicalAt++
    const { stateRoot, withdrawalsRoot } = block.header
    const { hash } = block
    const upstreamBlock = { ...block.upstreamBlock, hash, stateRoot, withdrawalsRoot }
    if (this.hasFaults && this.random(6) === 0)
      await this.world.apply({ type: 'sealed', block: this.lie(block, upstreamBlock) })
    await this.world.apply({ type: 'sealed', block: upstreamBlock })
    if (this.hasFaults && this.random(10) === 0)
      await this.world.apply({ type: 'sealed', block: upstreamBlock })
    if (this.random(4) === 0) {
      const labelledHeads = { safe: block.number - 1, finalized: Math.max(0, block.number - 3) }
      await this.world.apply({ type: 'marks', ...labelledHeads })
    }
  }

  /** Sends a block of no chain, whose hash is unknown too. */
  lie(
    { hash }: ProducedBlock,
    upstreamBlock: UpstreamBlock & { withdrawalsRoot: Bytes | undefined },
  ) {
    const wrong = new Uint8Array(32).fill(7)
    const wrongHash = hash.map((byte) => byte ^ (1 + this.random(255)))
    const changes: Partial<UpstreamBlock>[] = [
      {},
      { stateRoot: wrong },
      { withdrawalsRoot: wrong },
      { receiptsRoot: wrong },
      { gasUsed: upstreamBlock.gasUsed + 1n },
      { blobGasUsed: 77n },
      { requestsHash: wrong },
      { transactions: upstreamBlock.transactions.slice(0, -1) },
    ]
    return { ...upstreamBlock, ...changes[this.random(changes.length)], hash: wrongHash }
  }

  /** Announces expected transactions, mostly in the order of acceptance like the pool. */
  async speculate(): Promise<void> {
    const { writer } = this.world
    const from = this.random(history.transactions.length)
    for (const { raw, from: sender } of history.transactions.slice(from, from + 3))
      writer.expect({ raw, from: sender })
    for (let left = this.random(4); left > 0 && writer.canSpeculate(); left--)
      await this.world.apply({ type: 'ahead' })
  }

  async wait(): Promise<void> {
    this.world.clock.ms += this.random(120)
    const dueMs = this.world.writer.wakeAtMs()
    if (dueMs !== undefined && dueMs <= this.world.clock.ms)
      await this.world.apply({ type: 'tick' })
  }

  async reconnect(): Promise<void> {
    const number = this.random(this.feeds.length)
    const feed = this.feeds[number]!
    if (!feed.isConnected || this.random(2) === 0) {
      feed.isConnected = !feed.isConnected
      await this.world.apply({ type: 'feed', feed: number, isConnected: feed.isConnected })
    }
    if (feed.isConnected) return
    feed.at += this.random(4)
    feed.isConnected = true
    await this.world.apply({ type: 'feed', feed: number, isConnected: true })
  }

  /**
   * Kills and restarts: the source resumes after the newest durable block, the feeds where they
   * are.
   */
  async restart(): Promise<void> {
    this.world.start()
    const hash = this.world.heads().canonical[1]
    this.canonicalAt = history.canonicalBlocks.findIndex((block) => hex(block.hash) === hash) + 1
    this.visible = new Set()
    this.openPool()
    this.view((view) =>
      restoreTxpool(this.pool, [...this.journal], { view, head: headOf(view, CHAIN) }),
    )
    // The file of executed flashblocks may be incomplete.
    const retained = this.random(this.world.executed.length + 1)
    for (const { message, digest } of this.world.executed.slice(0, retained))
      await this.world.packet(message, digest, JOURNAL_FEED)
    for (const [feed, { isConnected }] of this.feeds.entries())
      await this.world.apply({ type: 'feed', feed, isConnected })
  }

  openPool(): void {
    this.pool = new Txpool({
      now: () => this.world.clock.ms,
      journal: {
        append: (raw) => void this.journal.push(raw),
        rewrite: (all) => void this.journal.splice(0, this.journal.length, ...all),
      },
    })
    this.follower = followViews(this.pool)
  }

  view<Result>(read: (view: ReturnType<typeof this.world.reader.lease>['view']) => Result): Result {
    const lease = this.world.reader.lease('flashblocks')
    try {
      return read(lease.view)
    } finally {
      lease.release()
    }
  }

  /** Checks the views, unless the persistence thread unwinds and no view is readable. */
  checkUnlessVoid(): void {
    try {
      this.check()
    } catch (error) {
      if (!(error instanceof ViewError && error.reason === 'void')) throw error
    }
  }

  check(): void {
    checkViews(this.world, history)
    this.view((view) => this.follower.update(view))
    const hash = this.world.heads().canonical[1]
    const position = history.canonicalBlocks.findIndex((block) => hex(block.hash) === hash)
    expect(position).toBeGreaterThanOrEqual(this.visiblePosition)
    this.visiblePosition = position
    this.checkPromises()
    this.checkPool()
  }

  /** Checks that visible transactions disappear only for a counted reason. */
  checkPromises(): void {
    const reasons = REASONS.reduce((sum, what) => sum + this.world.count(what), 0)
    const visible = new Set<string>()
    this.view((view) => {
      for (const { hash } of history.transactions)
        if (view.findTransaction(hash) !== undefined) visible.add(hex(hash))
    })
    const lost = [...this.visible].filter((hash) => !visible.has(hash))
    if (reasons === this.reasons) expect(lost).toEqual([])
    this.visible = visible
    this.reasons = reasons
  }

  /**
   * Checks every accepted transaction. It must be in the chain, in the pool, or replaced in the
   * chain by another of its nonce.
   */
  checkPool(): void {
    this.view((view) => {
      const head = headOf(view, CHAIN)
      for (const { hash, from, nonce } of history.transactions) {
        const isUsed = nonce < (head.account(from)?.nonce ?? 0n)
        const isFound = view.findTransaction(hash) !== undefined
        const isPooled = this.pool.get(hash) !== undefined
        if (isFound) expect([isPooled, this.pool.isExpected(hash)]).toEqual([false, true])
        else expect(isPooled || isUsed || this.hasCompeting(hash)).toBe(true)
      }
    })
  }

  /** Whether another transaction of the same sender and nonce was accepted instead. */
  hasCompeting(hash: Bytes): boolean {
    const one = history.transactions.find((each) => each.hash === hash)!
    return history.transactions.some(
      (other) =>
        other !== one &&
        other.nonce === one.nonce &&
        hex(other.from) === hex(one.from) &&
        this.pool.isExpected(other.hash),
    )
  }
}

function spoilt(message: FeedMessage): FeedMessage {
  if (message.type === 'end') return message
  const { delta } = message
  return {
    ...message,
    delta: { ...delta, gasUsed: delta.gasUsed + 1n, blockHash: new Uint8Array(32).fill(7) },
  }
}
