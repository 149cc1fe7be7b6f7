/**
 * Transactions of a block of 200 Mgas use as much memory as their gas can buy. Our own engine
 * executes them, in each of its tiers.
 */
import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import type { Engine } from '../../../../engine/evm/engine.ts'
import { makeFastEngine } from '../../../../engine/evm/fast/fast.ts'
import type { EngineTier } from '../../../../engine/evm/fast/instance.ts'
import { memoryOfGas } from '../../../../engine/evm/fast/memory-bound.ts'
import { compileModule } from '../../../../engine/evm/fast/module.ts'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import { referenceEngine } from '../../../fixtures/engine.ts'
import { block, transaction } from '../../../fixtures/op-block.ts'
import { address, push } from '../../../fixtures/world.ts'

const GAS = 200_000_000n
/**
 * The code takes x from its calldata and grows its memory to x − 768 words. It calls itself with x
 * · 63/64, and returns the number of frames below. No other sizes give more memory at one moment
 * for the same gas.
 */
const NESTED = [
  '5f35 610300 81 11 15 6040 57', // x; jumps to the end unless x > 768
  '80 610300 90 03 6005 1b 6001 90 53', // MSTORE8 at 32 (x − 768)
  '603f 02 6006 1c 5f52', // x · 63 / 64 to memory
  // calls itself with all gas; a call that fails is an invalid opcode
  '6020 5f 6020 5f 5f 30 5a f1 15 6046 57',
  '5f51 6001 01 5f52 6020 5f f3',
]
/** Makes code that calls account 8 with x, and logs the result. */
const outer = (x: number) =>
  `61${x.toString(16).padStart(4, '0')} 5f52 6020 5f 6020 5f 5f ${push(8)} 5a f1 50 5f51 5f 5f a1 00`

function nested(): string {
  const body = NESTED.join(' ').replaceAll(' ', '')
  const end = body.length / 2
  const at = (offset: number) => `60${offset.toString(16).padStart(2, '0')}`
  return `${body.replace('6040', at(end)).replace('6046', at(end + 6))} 5b 5f5f52 60205ff3`.replaceAll(
    ' ',
    '',
  )
}

const module = compileModule()
const reported: string[] = []
const engineOf = (tier: EngineTier): Engine =>
  makeFastEngine(referenceEngine, { module, tier, onTrap: (why) => reported.push(why) })
afterEach(() => void reported.splice(0))

type Options = { readonly x: number; readonly isTraced?: boolean; readonly times?: number }

async function run(engine: Engine, { x, isTraced = false, times = 1 }: Options) {
  const accounts = { 7: { code: outer(x) }, 8: { code: nested() } }
  const attributes = { gasLimit: GAS * BigInt(times) }
  const { block: open } = block({ engine, accounts, attributes })
  await open.start()
  const frames = { count: 0, steps: 0 }
  const sink = { enter: () => void frames.count++, step: () => void frames.steps++ }
  const receipts = []
  for (let nonce = 0n; nonce < times; nonce++) {
    const sent = transaction({ nonce, to: address(7), gasLimit: GAS - 1_000_000n })
    const tracer = isTraced ? ({ sink } as never) : undefined
    const done = await open.execute(sent, undefined, tracer)
    if (done.status !== 'executed') throw new Error(JSON.stringify(done))
    const { receipt } = done.executed
    receipts.push({
      isSuccess: receipt.status,
      gasUsed: receipt.cumulativeGasUsed,
      depth: receipt.logs.map(({ topics }) => topics.map(bytesToHex)),
    })
  }
  open.close()
  return { receipts, frames }
}

describe('a transaction of 200 Mgas with frames of 74 MB', () => {
  const ways: readonly (readonly [EngineTier, boolean])[] = [
    ['precise', false],
    ['stream', false],
    ['auto', false],
    ['auto', true],
  ]
  test.each(ways)(
    'on tier %s, traced: %s, has the reference result without that engine',
    async (tier, isTraced) => {
      const expected = await run(referenceEngine, { x: 40_000 })
      const { receipts, frames } = await run(engineOf(tier), { x: 40_000, isTraced })
      expect(reported).toEqual([])
      expect(receipts).toEqual(expected.receipts)
      expect(Number(receipts[0]!.depth[0]![0])).toBeGreaterThan(200)
      expect(receipts[0]!.gasUsed).toBeGreaterThan(90_000_000n)
      if (isTraced) expect(frames.count).toBe(Number(receipts[0]!.depth[0]![0]) + 2)
    },
    120_000,
  )

  test('fits four times into one block without more memory', async () => {
    const { receipts } = await run(engineOf('auto'), { x: 40_000, times: 4 })
    expect([reported, receipts.length]).toEqual([[], 4])
  })
})

describe('the bound of memory by gas', () => {
  /**
   * Counts the memory words of a chain of frames by their requested sizes. Each frame pays from the
   * gas that EIP-150 leaves it.
   */
  function wordsOf(gas: number, sizes: readonly number[]): number {
    let [left, words] = [gas, 0]
    for (const wanted of sizes) {
      const size = Math.min(wanted, Math.floor(-768 + Math.sqrt(768 ** 2 + 512 * left)))
      words += size
      left -= 3 * size + Math.floor(size ** 2 / 512)
      left -= Math.floor(left / 64)
    }
    return words
  }

  test('holds for any chain of frames', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2_000_000_000 }),
        fc.double({ min: 0.1, max: 3, noNaN: true }),
        fc.array(fc.double({ min: 0, max: 2, noNaN: true }), { maxLength: 1_025 }),
        (gas, of, shares) => {
          const first = of * Math.sqrt(gas / 8_192) * 256
          const sizes = shares.map((share, depth) => Math.floor(share * first * (63 / 64) ** depth))
          const bound = memoryOfGas(BigInt(gas)) / 32
          expect(wordsOf(gas, sizes)).toBeLessThanOrEqual(bound)
        },
      ),
    )
  })

  test('is near the memory that gas can buy', () => {
    for (const gas of [30_000_000, 150_000_000, 200_000_000, 1_000_000_000]) {
      const bound = memoryOfGas(BigInt(gas)) / 32
      const best = Math.max(
        ...Array.from({ length: 400 }, (_, n) => {
          const first = 256 * Math.sqrt(gas / 8_192) * (0.8 + n / 1_000)
          const sizes = Array.from({ length: 1_025 }, (_, depth) =>
            Math.max(0, Math.floor(first * (63 / 64) ** depth - 768)),
          )
          return wordsOf(gas, sizes)
        }),
      )
      expect(best / bound).toBeGreaterThan(0.95)
      expect(best).toBeLessThanOrEqual(bound)
    }
    expect(memoryOfGas(200_000_000n)).toBeLessThan(80 * 2 ** 20)
  })
})
