/**
 * Some transactions claim much of a block's gas under load. The one that pays best is included
 * soon, and delays the others by one block at most.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { SEAL_LEAD_MS } from '../../../engine/sources/sequencer/schedule.ts'
import { pooledChain, pooledOnly } from '../../fixtures/pooled-chain.ts'
import { GENESIS_TIME } from '../../fixtures/sequenced-chain.ts'
import { transfer as plain } from '../../fixtures/txpool.ts'

const SENDERS = 12
const BLOCK_GAS = 50_000_000n
/** The txpool takes at most this gas, because the first transaction of a block needs the rest. */
const MAX_GAS = BLOCK_GAS - 70_000n
/** A creation with INVALID uses its whole gas limit at once. */
const BURN = Uint8Array.of(0xfe)

type Load = {
  readonly ms: number
  readonly sender: number
  readonly tip: bigint
  readonly gasLimit: bigint
  /** The transaction uses all of its gas limit; otherwise 21,000. */
  readonly isBurning: boolean
}
const signed = (nonce: number, { sender, tip, gasLimit, isBurning }: Load): SignedTransaction =>
  plain(sender, nonce, {
    maxFeePerGas: 2_000_000_000n,
    maxPriorityFeePerGas: tip,
    gasLimit,
    ...(isBurning ? { to: undefined, input: BURN, value: 0n } : {}),
  })

const START = GENESIS_TIME * 1000
/** Gives the number of the block in progress. */
const blockAt = (ms: number) => Math.floor((ms + SEAL_LEAD_MS) / 1000) + 1

/** Gives the block number of each transaction. */
async function run(loads: readonly Load[]): Promise<readonly number[]> {
  const pooled = pooledChain(undefined, SENDERS)
  const nonces = new Map<number, number>()
  const hashes = loads.map((load) => {
    const nonce = nonces.get(load.sender) ?? 0
    nonces.set(load.sender, nonce + 1)
    const transaction = signed(nonce, load)
    pooled.arrive(START + load.ms, transaction)
    return bytesToHex(transaction.raw)
  })
  const heights = new Map<string, number>()
  let seen = 0
  await pooled.until(() => {
    for (; seen < pooled.chain.blocks.length; seen++)
      for (const raw of pooled.chain.blocks[seen]!.transactions) heights.set(bytesToHex(raw), seen)
    return hashes.every((hash) => heights.has(hash))
  })
  return hashes.map((hash) => heights.get(hash)!)
}

const inOrder = (loads: readonly Load[]) => loads.toSorted((a, b) => a.ms - b.ms)
const STAR = 0
const isStar = ({ sender }: Load) => sender === STAR

const load = fc.record({
  ms: fc.integer({ min: 0, max: 2_500 }),
  sender: fc.integer({ min: 1, max: SENDERS - 1 }),
  tip: fc.bigInt({ min: 1n, max: 99n }),
  gasLimit: fc.constantFrom(21_000n, 500_000n, 3_000_000n, 9_000_000n, 20_000_000n),
  isBurning: fc.boolean(),
})
const burning = ({ gasLimit, isBurning, ...rest }: Load): Load => {
  const burns = isBurning && gasLimit > 60_000n
  return { ...rest, gasLimit: gasLimit > 60_000n ? gasLimit : 21_000n, isBurning: burns }
}
const star = fc.record({
  ms: fc.integer({ min: 0, max: 2_500 }),
  sender: fc.constant(STAR),
  tip: fc.constant(1_000n),
  gasLimit: fc.oneof(fc.bigInt({ min: 60_001n, max: MAX_GAS }), fc.constant(MAX_GAS)),
  isBurning: fc.boolean(),
})

/** The load of five busy accounts fills four fifths of each block, at a low tip. */
const steady = Array.from({ length: 80 }, (_, at): Load => {
  const [round, sender] = [Math.floor(at / 5), 1 + (at % 5)]
  return { ms: round * 230, sender, tip: 1n, gasLimit: 2_000_000n, isBurning: true }
})

describe('the transaction with the highest tip', () => {
  const cases: [name: string, gasLimit: bigint, isBurning: boolean][] = [
    ['half of a block', BLOCK_GAS / 2n, false],
    ['half of a block and uses it', BLOCK_GAS / 2n, true],
    ['nearly a block', MAX_GAS, false],
    ['nearly a block, and uses it', MAX_GAS, true],
    ['a little more gas than a flashblock has', 10_500_000n, true],
  ]
  test.each(cases)(
    'is in the next block at the latest: it claims %s',
    async (_, gasLimit, isBurning) => {
      const one: Load = { ms: 1_450, sender: STAR, tip: 1_000n, gasLimit, isBurning }
      const loads = inOrder([...steady, one])
      const blocks = await run(loads)
      expect(blocks[loads.indexOf(one)]).toBeLessThanOrEqual(blockAt(one.ms) + 1)
    },
  )

  test('is in the next block at the latest under any load', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(load, { minLength: 20, maxLength: 60 }),
        star,
        async (others, one) => {
          const loads = inOrder([...others.map(burning), one])
          const blocks = await run(loads)
          const at = loads.findIndex(isStar)
          expect(blocks[at]).toBeLessThanOrEqual(blockAt(loads[at]!.ms) + 1)
        },
      ),
      { numRuns: 25 },
    )
  })
})

describe('a transaction that claims much gas and uses little', () => {
  const small = fc.record({
    ms: fc.integer({ min: 0, max: 2_500 }),
    sender: fc.integer({ min: 1, max: SENDERS - 1 }),
    tip: fc.bigInt({ min: 1n, max: 99n }),
    gasLimit: fc.constant(21_000n),
    isBurning: fc.constant(false),
  })
  test('delays other transactions by at most one block', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(small, { minLength: 5, maxLength: 40 }),
        star,
        async (others, one) => {
          const loads = inOrder([...others, { ...one, isBurning: false }])
          const blocks = await run(loads)
          for (const [at, { ms }] of loads.entries())
            expect(blocks[at]).toBeLessThanOrEqual(blockAt(ms) + 1)
        },
      ),
      { numRuns: 25 },
    )
  })

  test('leaves its unused gas to others in the same flashblock', async () => {
    const pooled = pooledChain(undefined, SENDERS)
    const claimer = { sender: STAR, tip: 9n, gasLimit: MAX_GAS, isBurning: false }
    const small = [1, 2, 3].map((sender) => ({ ...claimer, sender, tip: 1n, gasLimit: 21_000n }))
    const all = [claimer, ...small].map((one) => signed(0, { ms: 0, ...one }))
    pooled.arrive(START + 1_000, ...all)
    await pooled.until(() => pooled.chain.blocks.length > 2)
    const last = pooled.chain.flashblocks(2n)[5]!.delta.transactions
    expect(last[0]).toEqual(all[0]!.raw)
    expect(last.length).toBeGreaterThan(1)
    const inBlock = pooledOnly(pooled.chain.blocks[2]!.transactions)
    expect(inBlock).toHaveLength(all.length)
  })
})
