/** A block on an engine that fails: its hash, its receipts and its changes are those of an engine that does not. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { allowAhead } from '../../../../engine/execution/block/ahead.ts'
import type { BlockExecution } from '../../../../engine/execution/transaction/types.ts'
import { isAbsent, readWitness } from '../../../fixtures/blocks.ts'
import { failingEngine } from '../../../fixtures/failing-engine.ts'
import { block, transaction } from '../../../fixtures/op-block.ts'
import { type ExecuteCase, executePayload } from '../../../fixtures/op-replay.ts'
import { address } from '../../../fixtures/world.ts'

const path = 'op-blocks/op-sepolia-26207963.json.gz'
/** Host calls that fail, of all that the block makes. */
const SAMPLED = 12

describe.skipIf(isAbsent(path))('a recorded block of OP Sepolia', () => {
  const { expected_block_hash: expected, ...witness } = isAbsent(path)
    ? { expected_block_hash: '' }
    : readWitness(path)
  const one = witness as unknown as ExecuteCase
  const failing = failingEngine()

  test.each(['trap', 'memory'] as const)(
    'whichever host call fails: %s',
    async (how) => {
      // Code stays in an instance.
      await executePayload(one, failing.engine)
      const before = failing.calls
      expect((await executePayload(one, failing.engine)).hash).toBe(expected)
      const calls = failing.calls - before
      expect(calls).toBeGreaterThan(100)
      for (let call = 1; call <= calls; call += Math.ceil(calls / SAMPLED)) {
        const told = failing.told.length
        failing.failAt(call, how)
        expect((await executePayload(one, failing.engine)).hash).toBe(expected)
        expect(failing.told.length - told, `host call ${call}`).toBe(1)
      }
    },
    60_000,
  )

  test('its changes, when they are asked for', async () => {
    const told = failing.told.length
    failing.failIn('diff')
    expect((await executePayload(one, failing.engine)).hash).toBe(expected)
    expect(failing.told.length - told).toBe(1)
  })

  test('what is undone of it', async () => {
    const told = failing.told.length
    // Each transaction is executed, undone and executed again; the third one to be undone fails.
    let undone = 0
    const again = (block: BlockExecution): BlockExecution => {
      const execute = block.execute.bind(block)
      block.execute = async (...given) => {
        const mark = block.checkpoint()
        await execute(...given)
        if (++undone === 3) failing.failIn('revert')
        block.revert(mark)
        expect(block.checkpoint()).toMatchObject({ ...mark, journal: expect.any(Number) })
        return execute(...given)
      }
      return block
    }
    expect((await executePayload(one, failing.engine, again)).hash).toBe(expected)
    expect(undone).toBeGreaterThan(3)
    expect(failing.told.length - told).toBe(1)
  })

  test('every hundredth host call, block after block', async () => {
    const often = failingEngine()
    often.failEvery(100)
    for (const number of [26_207_960, 26_207_961, 26_207_962]) {
      const { expected_block_hash: hash, ...given } = readWitness(
        `op-blocks/op-sepolia-${number}.json.gz`,
      )
      const replayed = await executePayload(given as unknown as ExecuteCase, often.engine)
      expect(replayed.hash).toBe(hash)
    }
    expect(often.told).toHaveLength(3)
  })
})

/** SLOAD PUSH1 1 ADD SSTORE of slot 0, and a log of nothing. */
const ACCOUNTS = { 7: { code: '5f54600101' + '5f555f5fa0' } }
const all = Array.from({ length: 12 }, (_, nonce) =>
  transaction({
    nonce: BigInt(nonce),
    to: nonce % 2 === 0 ? address(7) : address(8),
    value: nonce % 2 === 0 ? 0n : 1n,
  }),
)

type Act = 'execute' | 'try' | 'checkpoint' | 'revert' | 'sums' | 'diff'

test('property: checkpoints, what is undone and what is ahead are the same after it', async () => {
  const failing = failingEngine()
  const acts = fc.array(
    fc.constantFrom<Act>('execute', 'execute', 'try', 'checkpoint', 'revert', 'sums', 'diff'),
    { minLength: 6, maxLength: 24 },
  )
  let failed = 0
  await fc.assert(
    fc.asyncProperty(
      acts,
      fc.integer({ min: 1, max: 40 }),
      fc.constantFrom<'trap' | 'memory' | 'diff' | 'revert'>('trap', 'memory', 'diff', 'revert'),
      async (steps, call, how) => {
        const plain = allowAhead(block({ accounts: ACCOUNTS }).block)
        failing.failIn(how === 'diff' || how === 'revert' ? how : undefined)
        if (how === 'trap' || how === 'memory') failing.failAt(call, how)
        const told = failing.told.length
        const sure = allowAhead(block({ accounts: ACCOUNTS, engine: failing.engine }).block)
        await Promise.all([plain.begin(), sure.begin()])
        let marks = [plain.checkpoint(), sure.checkpoint()] as const
        const both = [plain, sure] as const
        for (const act of steps) {
          const next = all[plain.executed.length + (act === 'try' ? plain.ahead : 0)] ?? all[0]!
          if (act === 'checkpoint') marks = [plain.checkpoint(), sure.checkpoint()]
          else if (act === 'sums') expect(sure.sums()).toEqual(plain.sums())
          else if (act === 'diff')
            expect(await sure.diff(marks[1])).toEqual(await plain.diff(marks[0]))
          else if (act === 'revert') for (const [at, one] of both.entries()) one.revert(marks[at]!)
          else if (act === 'try') for (const one of both) await one.tryAhead(next, {})
          else expect(await sure.execute(next)).toEqual(await plain.execute(next))
        }
        const seen = ({ executed, gasUsed, logCount }: BlockExecution) => ({
          ...{ executed, gasUsed, logCount },
        })
        expect(seen(sure)).toEqual(seen(plain))
        expect(await sure.diff()).toEqual(await plain.diff())
        failed += failing.told.length - told
        for (const one of both) one.close()
      },
    ),
  )
  expect(failed).toBeGreaterThan(20)
})

test('who has limits of its own hears of them', async () => {
  const failing = failingEngine()
  // MSTORE at 1 MiB.
  const accounts = { 7: { code: '5f6210000052' } }
  const { block: open } = block({ accounts, engine: failing.engine })
  await open.begin()
  const grow = transaction({ to: address(7), gasLimit: 10_000_000n })
  expect(await open.execute(grow, { memoryBytes: 65_536 })).toEqual({
    status: 'stopped',
    why: 'memory',
  })
  expect(failing.told).toEqual([])
  expect(await open.execute(grow)).toMatchObject({ status: 'executed' })
  open.close()
})

test('a tracer is not told the same twice: the error is its caller’s', async () => {
  const failing = failingEngine()
  const { block: open } = block({ accounts: ACCOUNTS, engine: failing.engine })
  await open.begin()
  failing.failAt(20)
  const steps: number[] = []
  const sink = { step: ({ pc }: { readonly pc: number }) => void steps.push(pc) }
  const traced = open.execute(all[0]!, {}, { sink } as never)
  await expect(traced).rejects.toThrow('the engine trapped')
  expect(steps.length).toBeGreaterThan(0)
  // Who goes on without one does.
  expect(await open.execute(all[0]!)).toMatchObject({ status: 'executed' })
  expect(failing.told).toHaveLength(1)
  open.close()
})
