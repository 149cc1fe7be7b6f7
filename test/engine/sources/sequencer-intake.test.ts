/**
 * Transactions are executed as they arrive. The tests check the requests to the pool and the order,
 * and that nothing is lost or emitted twice.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { brokenRules } from '../../fixtures/feed-rules.ts'
import { pooledChain, pooledOnly, SENDERS } from '../../fixtures/pooled-chain.ts'
import { GENESIS_TIME } from '../../fixtures/sequenced-chain.ts'
import { transfer as plain } from '../../fixtures/txpool.ts'

const FEE = { maxFeePerGas: 1_000_000_000n }
const transfer = (sender: number, nonce: number, fields: Parameters<typeof plain>[2] = {}) =>
  plain(sender, nonce, { ...FEE, ...fields })
/** Gives the time from milliseconds of the second block. */
const at = (ms: number) => (GENESIS_TIME + 1) * 1000 + ms

type Pooled = ReturnType<typeof pooledChain>
const messages = ({ chain }: Pooled) => chain.sent.map(({ message }) => message)
const carried = (pooled: Pooled, index: number) =>
  namesOf(pooled.chain.flashblocks(2n)[index]!.delta.transactions)
const namesOf = (raws: readonly Uint8Array[]) =>
  pooledOnly(raws).map((raw) => Buffer.from(raw).toString('latin1'))
const rawNames = (list: readonly SignedTransaction[]) => namesOf(list.map(({ raw }) => raw))

describe('execution before the tick', () => {
  test('starts when a transaction arrives, so the tick requests nothing', async () => {
    const pooled = pooledChain()
    const [first, second] = [transfer(0, 0), transfer(1, 0)]
    pooled.arrive(at(250), first)
    pooled.arrive(at(399), second)
    await pooled.until(() => pooled.chain.blocks.length > 2)
    const between = pooled.requested.filter(({ atMs }) => atMs > at(0) && atMs <= at(800))
    expect(between.map(({ atMs }) => atMs - at(0))).toEqual([250, 399])
    expect(carried(pooled, 3)).toEqual(rawNames([first, second]))
    expect(brokenRules(messages(pooled), 0n)).toEqual([])
  })

  test('leaves a transaction that arrives after a tick to the next flashblock', async () => {
    const pooled = pooledChain()
    pooled.arrive(at(401), transfer(0, 0))
    await pooled.until(() => pooled.chain.blocks.length > 2)
    expect([3, 4].map((index) => carried(pooled, index))).toEqual([[], rawNames([transfer(0, 0)])])
  })

  test('puts transactions that arrive while a block starts into index 1', async () => {
    const pooled = pooledChain()
    pooled.arrive(at(-15), transfer(0, 0))
    await pooled.until(() => pooled.chain.blocks.length > 2)
    expect(carried(pooled, 1)).toEqual(rawNames([transfer(0, 0)]))
  })

  test('takes later nonces of a sender into the same flashblock', async () => {
    const pooled = pooledChain()
    pooled.arrive(at(210), transfer(0, 0))
    pooled.arrive(at(220), transfer(0, 1))
    pooled.arrive(at(390), transfer(0, 2))
    await pooled.until(() => pooled.chain.blocks.length > 2)
    expect(carried(pooled, 3)).toEqual(rawNames([0, 1, 2].map((nonce) => transfer(0, nonce))))
  })

  test('uses half of the gas, and the tick takes the best transactions first', async () => {
    const pooled = pooledChain()
    const tip = (maxPriorityFeePerGas: bigint, gasLimit = 21_000n) => ({
      maxPriorityFeePerGas,
      gasLimit,
    })
    // Each flashblock gets a fifth of 50 M gas; two were empty, so 15 M are available before the
    // tick and 15 M at it.
    const [cheap, small, dear] = [
      transfer(0, 0, tip(1n, 15_100_000n)),
      transfer(1, 0, tip(1n)),
      transfer(2, 0, tip(50n, 15_200_000n)),
    ]
    pooled.arrive(at(210), cheap)
    pooled.arrive(at(220), small)
    pooled.arrive(at(230), dear)
    await pooled.until(() => pooled.chain.blocks.length > 2)
    expect(carried(pooled, 3)).toEqual(rawNames([small, dear]))
    expect(carried(pooled, 4)).toEqual(rawNames([cheap]))
  })

  test('uses half of the time, and the tick executes the other transactions', async () => {
    const pooled = pooledChain()
    const all = Array.from({ length: 60 }, (_, nonce) => transfer(0, nonce))
    pooled.arrive(at(210), ...all)
    await pooled.until(() => pooled.chain.clock.ms >= at(205))
    pooled.chain.clock.perRead = 1
    await pooled.until(() => pooled.requested.some(({ atMs }) => atMs >= at(400)))
    pooled.chain.clock.perRead = 0
    await pooled.until(() => pooled.chain.blocks.length > 2)
    const [prefetch] = pooled.requested.filter(({ atMs }) => atMs >= at(210))
    expect(prefetch!.atMs).toBeLessThan(at(220))
    // Each transaction takes two reads of the clock, and 50 ms are left before the tick.
    const counts = [3, 4].map((index) => carried(pooled, index).length)
    expect(counts[0]).toBeGreaterThan(10)
    expect(counts[0]! + counts[1]!).toBe(all.length)
    expect(brokenRules(messages(pooled), 0n)).toEqual([])
  })

  test('needs few requests for many single arrivals', async () => {
    const pooled = pooledChain()
    const all = Array.from({ length: 180 }, (_, nonce) => transfer(0, nonce))
    for (const [order, transaction] of all.entries()) pooled.arrive(at(210 + order), transaction)
    await pooled.until(() => pooled.chain.blocks.length > 2)
    const between = pooled.requested.filter(({ atMs }) => atMs > at(200) && atMs < at(400))
    expect(between.length).toBeLessThanOrEqual(8)
    expect(carried(pooled, 3)).toEqual(rawNames(all))
  })

  test('protects a transaction from replacement, as if it were included', async () => {
    const pooled = pooledChain()
    pooled.arrive(at(250), transfer(0, 0))
    await pooled.until(() => pooled.requested.some(({ atMs }) => atMs === at(250)))
    const { pool } = pooled
    const dearer = transfer(0, 0, { maxFeePerGas: 2n * FEE.maxFeePerGas, maxPriorityFeePerGas: 9n })
    pooled.arrive(0, dearer)
    await expect(pooled.step()).rejects.toThrow('nonce too low: next nonce 1, tx nonce 0')
    expect(pool.isExpected(transfer(0, 0).hash)).toBe(true)
  })
})

describe('no transaction is lost', () => {
  const three = [0, 1, 2].map((sender) => transfer(sender, 0))

  test('when the view is gone: the block restarts with each of them once', async () => {
    let isGone = false
    const pooled = pooledChain(() => {
      if (!isGone || pooled.chain.clock.ms < at(300)) return
      isGone = false
      throw new ViewError('gone', 'snapshot 7 is gone')
    })
    isGone = true
    for (const [order, transaction] of three.entries())
      pooled.arrive(at(250 + 30 * order), transaction)
    await pooled.until(() => pooled.chain.blocks.length > 2)
    expect(pooled.chain.counts).toEqual(['view_gone'])
    expect(carried(pooled, 3)).toEqual(rawNames(three))
    expect(brokenRules(messages(pooled), 0n)).toEqual([])
  })

  test('when the tick is missed: a last flashblock has them before the End', async () => {
    const pooled = pooledChain()
    pooled.arrive(at(650), ...three)
    await pooled.until(() => pooled.requested.some(({ atMs }) => atMs === at(650)))
    pooled.chain.clock.ms = at(990)
    await pooled.until(() => pooled.chain.blocks.length > 2)
    expect(pooled.chain.flashblocks(2n).map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5])
    expect(carried(pooled, 5)).toEqual(rawNames(three))
    expect(brokenRules(messages(pooled), 0n)).toEqual([])
  })

  test('when the process is killed before the tick', async () => {
    const pooled = pooledChain()
    pooled.arrive(at(250), ...three)
    await pooled.until(() => pooled.requested.some(({ atMs }) => atMs === at(250)))
    pooled.restart()
    await pooled.until(() => pooled.chain.blocks.length > 2)
    expect(carried(pooled, 3)).toEqual(rawNames(three))
  })
})

test('any faults leave each transaction in one block, as it was reported to the pool', async () => {
  const arrival = fc.record({
    ms: fc.integer({ min: 0, max: 3_000 }),
    sender: fc.nat({ max: SENDERS - 1 }),
    tip: fc.bigInt({ min: 1n, max: 100n }),
    gasLimit: fc.constantFrom(21_000n, 4_000_000n, 12_000_000n),
  })
  const fault = fc.record({
    ms: fc.integer({ min: 0, max: 3_000 }),
    kind: fc.constantFrom('view', 'pause', 'kill'),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(arrival, { maxLength: 40 }),
      fc.array(fault, { maxLength: 4 }),
      async (arrivals, faults) => {
        await play(arrivals, faults)
      },
    ),
    {
      numRuns: 40,
      // After these three pauses the block was not sealed for 3.6 s.
      examples: [
        [
          [{ ms: 801, sender: 0, tip: 1n, gasLimit: 21_000n }],
          [
            { ms: 2_151, kind: 'pause' },
            { ms: 1_171, kind: 'pause' },
            { ms: 801, kind: 'pause' },
          ],
        ],
      ],
    },
  )
})

type Arrival = {
  readonly ms: number
  readonly sender: number
  readonly tip: bigint
  readonly gasLimit: bigint
}
type Fault = { readonly ms: number; readonly kind: 'view' | 'pause' | 'kill' }

async function play(arrivals: readonly Arrival[], faults: readonly Fault[]): Promise<void> {
  let isGone = false
  const pooled = pooledChain(() => {
    if (!isGone) return
    isGone = false
    throw new ViewError('gone', 'snapshot 7 is gone')
  })
  const nonces = new Map<number, number>()
  const sent = arrivals
    .toSorted((a, b) => a.ms - b.ms)
    .map(({ ms, sender, tip, gasLimit }) => {
      const nonce = nonces.get(sender) ?? 0
      nonces.set(sender, nonce + 1)
      const transaction = transfer(sender, nonce, { maxPriorityFeePerGas: tip, gasLimit })
      pooled.arrive(at(ms - 1_000), transaction)
      return transaction
    })
  for (const { ms, kind } of faults.toSorted((a, b) => a.ms - b.ms)) {
    await pooled.until(() => pooled.chain.clock.ms >= at(ms - 1_000))
    if (kind === 'view') isGone = true
    else if (kind === 'pause') pooled.chain.clock.ms += 170
    else pooled.restart()
  }
  const blocksOf = () => pooled.chain.blocks.flatMap(({ transactions }) => namesOf(transactions))
  // A pause costs its block, so the block's transactions are in a later one.
  const isOver = () => blocksOf().length >= sent.length || pooled.chain.clock.ms > at(20_000)
  await pooled.until(() => pooled.chain.clock.ms > at(3_500) && isOver())
  const included = blocksOf()
  expect(new Set(included).size).toBe(included.length)
  expect(included.toSorted()).toEqual(rawNames(sent).toSorted())
  expect(included).toEqual(namesOf(pooled.reported()))
}
