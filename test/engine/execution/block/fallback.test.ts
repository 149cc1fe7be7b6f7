/**
 * A block runs on an engine that fails. Its hash, receipts and changes must be those of an engine
 * that does not fail.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { allowSpeculation } from '../../../../engine/execution/block/speculative.ts'
import type { BlockExecution } from '../../../../engine/execution/transaction/types.ts'
import { isAbsent, readWitness } from '../../../fixtures/blocks.ts'
import { failingEngine } from '../../../fixtures/failing-engine.ts'
import { block, transaction } from '../../../fixtures/op-block.ts'
import { type ExecuteCase, executePayload } from '../../../fixtures/op-replay.ts'
import { address } from '../../../fixtures/world.ts'

const path = 'op-blocks/op-sepolia-26207963.json.gz'
/** The number of host calls, out of all those of the block, that fail in turn. */
const SAMPLED = 12

describe.skipIf(isAbsent(path))('a recorded block of OP Sepolia on a failing engine', () => {
  const { expected_block_hash: expected, ...witness } = isAbsent(path)
    ? { expected_block_hash: '' }
    : readWitness(path)
  const one = witness as unknown as ExecuteCase
  const failing = failingEngine()

  test.each(['trap', 'memory'] as const)(
    'has its hash, whichever host call fails: %s',
    async (how) => {
      // The instance caches the code.
      await executePayload(one, failing.engine)
      const before = failing.calls
      expect((await executePayload(one, failing.engine)).hash).toBe(expected)
      const calls = failing.calls - before
      expect(calls).toBeGreaterThan(100)
      for (let call = 1; call <= calls; call += Math.ceil(calls / SAMPLED)) {
        const reported = failing.reported.length
        failing.failAt(call, how)
        expect((await executePayload(one, failing.engine)).hash).toBe(expected)
        expect(failing.reported.length - reported, `host call ${call}`).toBe(1)
      }
    },
    60_000,
  )

  test('has its hash when the engine cannot give the changes', async () => {
    const reported = failing.reported.length
    failing.failIn('diff')
    expect((await executePayload(one, failing.engine)).hash).toBe(expected)
    expect(failing.reported.length - reported).toBe(1)
  })

  test('has its hash when the engine cannot undo a transaction', async () => {
    const reported = failing.reported.length
    // Each transaction is executed, undone and executed again; the undo of the third one fails.
    let undone = 0
    const redone = (block: BlockExecution): BlockExecution => {
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
    expect((await executePayload(one, failing.engine, redone)).hash).toBe(expected)
    expect(undone).toBeGreaterThan(3)
    expect(failing.reported.length - reported).toBe(1)
  })

  test('has its hash, block after block, when each hundredth host call fails', async () => {
    const often = failingEngine()
    often.failEvery(100)
    for (const number of [26_207_960, 26_207_961, 26_207_962]) {
      const { expected_block_hash: hash, ...given } = readWitness(
        `op-blocks/op-sepolia-${number}.json.gz`,
      )
      const replayed = await executePayload(given as unknown as ExecuteCase, often.engine)
      expect(replayed.hash).toBe(hash)
    }
    expect(often.reported).toHaveLength(3)
  })
})

/** The code is SLOAD PUSH1 1 ADD SSTORE of slot 0, and an empty log. */
const ACCOUNTS = { 7: { code: '5f54600101' + '5f555f5fa0' } }
const all = Array.from({ length: 12 }, (_, nonce) =>
  transaction({
    nonce: BigInt(nonce),
    to: nonce % 2 === 0 ? address(7) : address(8),
    value: nonce % 2 === 0 ? 0n : 1n,
  }),
)

type Act = 'execute' | 'try' | 'checkpoint' | 'revert' | 'sums' | 'diff'

test('any history on a failing engine has the same checkpoints, undo and speculation', async () => {
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
        const plain = allowSpeculation(block({ accounts: ACCOUNTS }).block)
        failing.failIn(how === 'diff' || how === 'revert' ? how : undefined)
        if (how === 'trap' || how === 'memory') failing.failAt(call, how)
        const reported = failing.reported.length
        const withFallback = allowSpeculation(
          block({ accounts: ACCOUNTS, engine: failing.engine }).block,
        )
        await Promise.all([plain.start(), withFallback.start()])
        let checkpoints = [plain.checkpoint(), withFallback.checkpoint()] as const
        const both = [plain, withFallback] as const
        for (const act of steps) {
          const next =
            all[plain.executed.length + (act === 'try' ? plain.speculated : 0)] ?? all[0]!
          if (act === 'checkpoint') checkpoints = [plain.checkpoint(), withFallback.checkpoint()]
          else if (act === 'sums') expect(withFallback.sums()).toEqual(plain.sums())
          else if (act === 'diff')
            expect(await withFallback.diff(checkpoints[1])).toEqual(
              await plain.diff(checkpoints[0]),
            )
          else if (act === 'revert')
            for (const [at, one] of both.entries()) one.revert(checkpoints[at]!)
          else if (act === 'try') for (const one of both) await one.trySpeculatively(next, {})
          else expect(await withFallback.execute(next)).toEqual(await plain.execute(next))
        }
        const seen = ({ executed, gasUsed, logCount }: BlockExecution) => ({
          executed,
          gasUsed,
          logCount,
        })
        expect(seen(withFallback)).toEqual(seen(plain))
        expect(await withFallback.diff()).toEqual(await plain.diff())
        failed += failing.reported.length - reported
        for (const one of both) one.close()
      },
    ),
  )
  expect(failed).toBeGreaterThan(20)
})

test('a caller with its own limits gets their errors', async () => {
  const failing = failingEngine()
  // The code is MSTORE at 1 MiB.
  const accounts = { 7: { code: '5f6210000052' } }
  const { block: open } = block({ accounts, engine: failing.engine })
  await open.start()
  const grow = transaction({ to: address(7), gasLimit: 10_000_000n })
  expect(await open.execute(grow, { memoryBytes: 65_536 })).toEqual({
    status: 'stopped',
    why: 'memory',
  })
  expect(failing.reported).toEqual([])
  expect(await open.execute(grow)).toMatchObject({ status: 'executed' })
  open.close()
})

test('a failure in a traced execution goes to its caller, without a second trace', async () => {
  const failing = failingEngine()
  const { block: open } = block({ accounts: ACCOUNTS, engine: failing.engine })
  await open.start()
  failing.failAt(20)
  const steps: number[] = []
  const sink = { step: ({ pc }: { readonly pc: number }) => void steps.push(pc) }
  const traced = open.execute(all[0]!, {}, { sink } as never)
  await expect(traced).rejects.toThrow('the engine trapped')
  expect(steps.length).toBeGreaterThan(0)
  // A caller that continues without a trace succeeds.
  expect(await open.execute(all[0]!)).toMatchObject({ status: 'executed' })
  expect(failing.reported).toHaveLength(1)
  open.close()
})
