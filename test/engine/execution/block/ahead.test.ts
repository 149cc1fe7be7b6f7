/** Executing ahead: whatever was tried, taken and undone, the block is the one that plain execution gives. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { allowAhead } from '../../../../engine/execution/block/ahead.ts'
import type { BlockExecution } from '../../../../engine/execution/transaction/types.ts'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import { block, transaction } from '../../../fixtures/op-block.ts'
import { address } from '../../../fixtures/world.ts'

/** SSTORE(NONCE-like counter): PUSH0 SLOAD PUSH1 1 ADD PUSH0 SSTORE, and a log of nothing. */
const ACCOUNTS = { 7: { code: '5f54600101' + '5f555f5fa0' } }
/** One sender: order is by nonce, so that what is tried out of order does not execute. */
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
  await execution.begin()
  return execution
}

type Step = {
  readonly act: 'try' | 'execute' | 'take' | 'sums' | 'diff' | 'revert' | 'checkpoint'
  /** The transaction that is next, or the one behind it. */
  readonly isNext: boolean
}

test('property: the same as without', async () => {
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
      const ahead = allowAhead(await opened())
      let marks = [plain.checkpoint(), ahead.checkpoint()] as const
      for (const { act, isNext } of steps) {
        const next = plain.executed.length + (act === 'try' ? ahead.ahead : 0)
        const one = all[next + (isNext ? 0 : 1)] ?? all[0]!
        if (act === 'checkpoint') marks = [plain.checkpoint(), ahead.checkpoint()]
        else if (act === 'sums') expect(ahead.sums()).toEqual(plain.sums())
        else if (act === 'diff')
          expect(await ahead.diff(marks[1])).toEqual(await plain.diff(marks[0]))
        else if (act === 'try') await ahead.tryAhead(one, NO_LIMITS)
        else if (act === 'revert') {
          plain.revert(marks[0])
          ahead.revert(marks[1])
        } else if (act === 'execute')
          expect(await ahead.execute(one)).toEqual(await plain.execute(one))
        else {
          const executed = ahead.take(one.raw)
          if (executed === undefined) continue
          taken++
          expect(await plain.execute(one)).toEqual({ status: 'executed', executed })
        }
        // Without asking for what undoes.
        expect(seen(ahead)).toEqual(seen(plain))
      }
      expect(ahead.sums()).toEqual(plain.sums())
      expect(await ahead.diff()).toEqual(await plain.diff())
    }),
  )
  expect(taken).toBeGreaterThan(50)
})

const seen = ({ executed, gasUsed }: BlockExecution) => ({
  hashes: executed.map(({ transaction: { hash } }) => bytesToHex(hash)),
  gasUsed,
})

test('what was executed ahead is taken without executing it again', async () => {
  const inner = await opened()
  let runs = 0
  const execute = inner.execute.bind(inner)
  inner.execute = (...given) => {
    runs++
    return execute(...given)
  }
  const ahead = allowAhead(inner)
  for (const one of all.slice(0, 3)) expect(await ahead.tryAhead(one, NO_LIMITS)).toBe(true)
  expect([ahead.ahead, ahead.executed.length]).toEqual([3, 0])
  for (const one of all.slice(0, 2)) expect(ahead.take(one.raw)).toBeDefined()
  expect([ahead.ahead, ahead.executed.length, runs]).toEqual([1, 2, 3])
  ahead.sums()
  expect(ahead.ahead).toBe(0)
})

test('what does not execute, or not within its limits, is not ahead', async () => {
  const ahead = allowAhead(await opened())
  expect(await ahead.tryAhead(all[1]!, NO_LIMITS)).toBe(false)
  expect(await ahead.tryAhead(all[0]!, { isExpired: () => true })).toBe(false)
  expect(ahead.ahead).toBe(0)
})
