/** The writer, its keeper and the pool under a seeded driver: any order of messages, faults of the feed, restarts. */
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { followViews, restoreTxpool } from '../../../engine/txpool/follow.ts'
import { headOf } from '../../../engine/txpool/head.ts'
import { Txpool } from '../../../engine/txpool/txpool.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { at } from '../../fixtures/txpool.ts'
import { checkViews } from '../../fixtures/writer-checks.ts'
import { createHistory, type History } from '../../fixtures/writer-history.ts'
import { digestOf, hex, WriterWorld } from '../../fixtures/writer-world.ts'

let history: History
beforeAll(async () => {
  history = await createHistory()
})

const RUNS = Number(process.env['SIMULATION_RUNS'] ?? 15)

test('heads stay on one chain, nothing shown is lost, and the canonical chain comes out', {
  timeout: 60_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: 2 ** 31 }), async (seed) => {
      await new Simulation(seed).run()
    }),
    { numRuns: RUNS },
  )
})

test('without faults every block is executed once, flashblock by flashblock', async () => {
  const world = new WriterWorld()
  await world.apply({ type: 'feed', isConnected: true })
  for (const block of history.sealed.slice(0, 3)) {
    for (const message of block.flashblocks) await world.packet(message)
    await world.packet(block.end)
    await world.apply({ type: 'sealed', block: block.sealed })
    await world.settle()
    checkViews(world, history)
  }
  expect(world.count('sealed_executed_whole')).toBe(0)
})

/** xorshift: the same seed gives the same run. */
function random(seed: number): (below: number) => number {
  let state = seed | 1
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

class Simulation {
  readonly world: WriterWorld
  readonly random: (below: number) => number
  readonly journal: Bytes[] = []
  pool!: Txpool
  follower!: ReturnType<typeof followViews>
  feedAt = 0
  sealedAt = 0
  /** Position in the order of decision of the newest canonical block that was shown. */
  shown = -1
  checked = -1
  /** Of a hundred steps, how many are the feed's: below about 10 the keeper keeps up. */
  readonly pace: number
  readonly hasFaults: boolean

  constructor(seed: number) {
    this.random = random(seed)
    // With 0 the reorg of the history goes below the fold head.
    this.world = new WriterWorld({ foldDepth: this.random(3) })
    this.hasFaults = this.random(4) > 0
    this.pace = [4, 8, 15, 30][this.random(4)]!
    this.openPool()
  }

  async run(): Promise<void> {
    await this.world.apply({ type: 'feed', isConnected: true })
    for (const { raw } of history.transactions)
      this.view((view) => this.pool.submit(raw, at(headOf(view, CHAIN))))
    while (this.feedAt < history.feed.length || this.sealedAt < history.sealed.length) {
      await this.step()
      // Between two records only the keeper's folds can change an answer.
      const record = this.world.reader.newestRecord()
      if (record !== this.checked || this.random(16) === 0) this.checkUnlessVoid()
      this.checked = record
    }
    await this.world.settle({ ticks: true })
    this.check()
    const last = history.sealed.at(-1)!
    expect(this.world.heads().canonical).toEqual([last.number, hex(last.hash)])
    expect(this.world.told.filter(({ type }) => type === 'halted')).toEqual([])
  }

  async step(): Promise<void> {
    const { world } = this
    const choice = this.random(100)
    if (choice < this.pace) await this.feed()
    else if (choice < this.pace + this.pace / 3) await this.seal()
    else if (choice < 55) world.handleRequest()
    else if (choice < 75) await world.deliverAnswer()
    else if (choice < 90) world.keeperStep()
    else if (choice < 95) await this.ahead()
    else if (choice < 98) await this.wait()
    else if (this.hasFaults && choice === 98) await this.reconnect()
    else if (this.hasFaults && this.random(2) === 0) this.restart()
  }

  async feed(): Promise<void> {
    const message = history.feed[this.feedAt]
    if (message === undefined) return
    this.feedAt++
    const fault = this.hasFaults ? this.random(40) : 99
    if (fault === 0) return
    if (fault === 1 && message.type === 'flashblock') await this.world.packet(spoilt(message), 1n)
    await this.world.packet(message)
    if (fault === 2) await this.world.packet(message)
    if (fault === 3 && message.type === 'flashblock')
      await this.world.packet(spoilt(message), digestOf(message) + 77n)
    if (fault === 4) await this.world.packet(history.feed[this.random(this.feedAt)]!)
  }

  async seal(): Promise<void> {
    const block = history.sealed[this.sealedAt]
    if (block === undefined) return
    this.sealedAt++
    const { stateRoot, withdrawalsRoot } = block.header
    const sealed = { ...block.sealed, stateRoot, withdrawalsRoot }
    await this.world.apply({ type: 'sealed', block: sealed })
    if (this.hasFaults && this.random(10) === 0)
      await this.world.apply({ type: 'sealed', block: sealed })
  }

  /** In the order of acceptance for the most part, as the pool tells them. */
  async ahead(): Promise<void> {
    const { writer } = this.world
    const from = this.random(history.transactions.length)
    for (const { raw, from: sender } of history.transactions.slice(from, from + 3))
      writer.expect({ raw, from: sender })
    for (let left = this.random(4); left > 0 && writer.canRunAhead(); left--)
      await this.world.apply({ type: 'ahead' })
  }

  async wait(): Promise<void> {
    this.world.clock.ms += this.random(120)
    const dueMs = this.world.writer.wakeAtMs()
    if (dueMs !== undefined && dueMs <= this.world.clock.ms)
      await this.world.apply({ type: 'tick' })
  }

  async reconnect(): Promise<void> {
    await this.world.apply({ type: 'feed', isConnected: false })
    this.feedAt += this.random(4)
    await this.world.apply({ type: 'feed', isConnected: true })
  }

  /** Kill and start: the source goes on after the newest durable block, the feed where it is. */
  restart(): void {
    this.world.start()
    const hash = this.world.heads().canonical[1]
    this.sealedAt = history.sealed.findIndex((block) => hex(block.hash) === hash) + 1
    this.openPool()
    this.view((view) =>
      restoreTxpool(this.pool, [...this.journal], { view, head: headOf(view, CHAIN) }),
    )
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

  /** While the keeper unfolds there is no view to read from. */
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
    const position = history.sealed.findIndex((block) => hex(block.hash) === hash)
    expect(position).toBeGreaterThanOrEqual(this.shown)
    this.shown = position
    this.checkPool()
  }

  /** Every accepted transaction is in the chain, in the pool, or replaced in the chain by another of its nonce. */
  checkPool(): void {
    this.view((view) => {
      const head = headOf(view, CHAIN)
      for (const { hash, from, nonce } of history.transactions) {
        const isUsed = nonce < (head.account(from)?.nonce ?? 0n)
        const isFound = view.findTransaction(hash) !== undefined
        const isPooled = this.pool.get(hash) !== undefined
        if (isFound) expect([isPooled, this.pool.isExpected(hash)]).toEqual([false, true])
        else expect(isPooled || isUsed || this.hasRival(hash)).toBe(true)
      }
    })
  }

  /** Another transaction of the same sender and nonce was accepted in its place. */
  hasRival(hash: Bytes): boolean {
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
    delta: { ...delta, gasUsed: delta.gasUsed + 1n, blockHash: new Uint8Array(32) },
  }
}
