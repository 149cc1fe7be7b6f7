/**
 * Speculative execution: whatever was tried, taken and undone, the block must be that of plain
 * execution.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { allowSpeculation } from '../../../../engine/execution/block/speculative.ts'
import type { BlockExecution } from '../../../../engine/execution/transaction/types.ts'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import { block, transaction } from '../../../fixtures/op-block.ts'
import { address } from '../../../fixtures/world.ts'

/** The code increments a counter: PUSH0 SLOAD PUSH1 1 ADD PUSH0 SSTORE, and an empty log. */
const ACCOUNTS = { 7: { code: '5f54600101' + '5f555f5fa0' } }
/** All transactions have one sender, so that a transaction tried out of order does not execute. */
const all = Array.from({ length: 12 }, (_, nonce) =>
  transaction({
    nonce: BigInt(nonce),
    to: nonce % 2 === 0 ? address(7) : address(8),
    value: nonce % 2 === 0 ? 0n : 1n,
    gasLimit: 100_000n,
  }),
)
const NO_LIMITS = {}

async function opened() {
  const { block: execution } = block({ accounts: ACCOUNTS })
  await execution.start()
  return execution
}

type Step = {
  readonly act: 'try' | 'execute' | 'take' | 'sums' | 'diff' | 'revert' | 'checkpoint'
  /** The action applies to the next transaction, or to the one after. */
  readonly isNext: boolean
}

test('any history with speculation gives the block of plain execution', async () => {
  const step: fc.Arbitrary<Step> = fc.record({
    act: fc.constantFrom(
      ...(['try', 'try', 'try', 'take', 'take', 'take', 'execute'] as const),
      ...(['sums', 'diff', 'revert', 'checkpoint'] as const),
    ),
    isNext: fc.integer({ min: 0, max: 9 }).map((chance) => chance > 0),
  })
  let taken = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
      const plain = await opened()
      const speculated = allowSpeculation(await opened())
      let checkpoints = [plain.checkpoint(), speculated.checkpoint()] as const
      for (const { act, isNext } of steps) {
        const next = plain.executed.length + (act === 'try' ? speculated.speculated : 0)
        const one = all[next + (isNext ? 0 : 1)] ?? all[0]!
        if (act === 'checkpoint') checkpoints = [plain.checkpoint(), speculated.checkpoint()]
        else if (act === 'sums') expect(speculated.sums()).toEqual(plain.sums())
        else if (act === 'diff')
          expect(await speculated.diff(checkpoints[1])).toEqual(await plain.diff(checkpoints[0]))
        else if (act === 'try') await speculated.trySpeculatively(one, NO_LIMITS)
        else if (act === 'revert') {
          plain.revert(checkpoints[0])
          speculated.revert(checkpoints[1])
        } else if (act === 'execute')
          expect(await speculated.execute(one)).toEqual(await plain.execute(one))
        else {
          const executed = speculated.take(one.raw)
          if (executed === undefined) continue
          taken++
          expect(await plain.execute(one)).toEqual({ status: 'executed', executed })
        }
        // The comparison does not request the undo values.
        expect(seen(speculated)).toEqual(seen(plain))
      }
      expect(speculated.sums()).toEqual(plain.sums())
      expect(await speculated.diff()).toEqual(await plain.diff())
    }),
  )
  expect(taken).toBeGreaterThan(50)
})

const seen = ({ executed, gasUsed }: BlockExecution) => ({
  hashes: executed.map(({ transaction: { hash } }) => bytesToHex(hash)),
  gasUsed,
})

test('a speculative execution is taken without a second execution', async () => {
  const inner = await opened()
  let runs = 0
  const execute = inner.execute.bind(inner)
  inner.execute = (...given) => {
    runs++
    return execute(...given)
  }
  const speculated = allowSpeculation(inner)
  for (const one of all.slice(0, 3))
    expect(await speculated.trySpeculatively(one, NO_LIMITS)).toBe(true)
  expect([speculated.speculated, speculated.executed.length]).toEqual([3, 0])
  for (const one of all.slice(0, 2)) expect(speculated.take(one.raw)).toBeDefined()
  expect([speculated.speculated, speculated.executed.length, runs]).toEqual([1, 2, 3])
  speculated.sums()
  expect(speculated.speculated).toBe(0)
})

test('a transaction that fails or exceeds its limits is not speculative', async () => {
  const speculated = allowSpeculation(await opened())
  expect(await speculated.trySpeculatively(all[1]!, NO_LIMITS)).toBe(false)
  expect(await speculated.trySpeculatively(all[0]!, { isExpired: () => true })).toBe(false)
  expect(speculated.speculated).toBe(0)
})
