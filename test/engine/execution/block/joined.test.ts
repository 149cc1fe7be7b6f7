/** A block of which parts are executed and parts are taken: whatever is taken how, and undone, it is the one that plain execution gives. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openBlock } from '../../../../engine/execution/block/block.ts'
import { joinedBlock } from '../../../../engine/execution/block/joined.ts'
import type {
  BlockExecution,
  ExecutedTransaction,
} from '../../../../engine/execution/transaction/types.ts'
import type { StateDiff } from '../../../../engine/state/diff.ts'
import { MissingError } from '../../../../engine/state/reader.ts'
import { opening, transaction } from '../../../fixtures/op-block.ts'
import { address } from '../../../fixtures/world.ts'

/** A counter with a log; one that is created and destroys itself; a factory of contracts that stay. */
const ACCOUNTS = {
  7: { code: '5f54600101' + '5f555f5fa0' },
  9: { code: '5f54600a575f5f55005b600160015500' },
}
const CREATIONS: readonly string[] = ['600160075533ff', '60016007556133ff5f526002601ef3']
const all = Array.from({ length: 14 }, (_, nonce) => {
  const creation = CREATIONS[nonce % 5]
  const to = nonce % 2 === 0 ? address(7) : address(nonce % 3 === 0 ? 9 : 8)
  return transaction({
    nonce: BigInt(nonce),
    ...(creation === undefined
      ? { to, value: nonce % 2 === 0 ? 0n : 1n }
      : { to: undefined, value: 0n, input: Uint8Array.from(Buffer.from(creation, 'hex')) }),
    gasLimit: 200_000n,
  })
})

/** The same block twice: executed, and joined. */
const both = () => {
  const options = opening({ accounts: ACCOUNTS })
  return { plain: openBlock(options), joined: joinedBlock({ ...options, mostMissing: 100 }) }
}

/** An order that no engine promises. */
const sorted = (diff: StateDiff) =>
  diff
    .map((change) => ({
      ...change,
      slots: change.slots.toSorted((a, b) => Buffer.compare(a.key, b.key)),
    }))
    .toSorted((a, b) => Buffer.compare(a.address, b.address))

async function executeBoth(plain: BlockExecution, count: number): Promise<void> {
  for (let left = count; left > 0; left--) {
    const next = all[plain.executed.length]
    if (next !== undefined) await plain.execute(next)
  }
}
const outcomeOf = ({ receipt }: ExecutedTransaction) => ({
  ...receipt,
  isSuccess: receipt.status === 1,
  depositNonce: receipt.depositNonce,
})

type Step = { readonly act: 'execute' | 'take' | 'undo' | 'look'; readonly count: number }

test('property: the same as executed', async () => {
  const step: fc.Arbitrary<Step> = fc.record({
    act: fc.constantFrom(...(['execute', 'take', 'take', 'undo', 'look'] as const)),
    count: fc.integer({ min: 0, max: 4 }),
  })
  let taken = 0
  await fc.assert(
    fc.asyncProperty(fc.boolean(), fc.array(step, { maxLength: 9 }), async (isTaken, steps) => {
      const { plain, joined } = both()
      await plain.begin()
      if (isTaken)
        await joined.join({ transactions: [], outcomes: [], changes: await plain.diff() })
      else await joined.begin()
      for (const { act, count } of steps) {
        const marks = [plain.checkpoint(), joined.checkpoint()] as const
        const from = plain.executed.length
        await executeBoth(plain, count)
        const executed = plain.executed.slice(from)
        if (act === 'take') {
          const state = await joined.state()
          await joined.join({
            transactions: executed.map(({ transaction: one }) => one),
            outcomes: executed.map(outcomeOf),
            changes: state.rebased(await plain.diff(marks[0])),
          })
          taken += executed.length
        } else for (const { transaction: one } of executed) await joined.execute(one)
        expect(sorted(await joined.diff(marks[1]))).toEqual(sorted(await plain.diff(marks[0])))
        if (act === 'undo') {
          plain.revert(marks[0])
          joined.revert(marks[1])
        }
        if (act !== 'look') continue
        expect(joined.sums()).toEqual(plain.sums())
        expect([joined.gasUsed, joined.logCount]).toEqual([plain.gasUsed, plain.logCount])
      }
      expect(joined.sums()).toEqual(plain.sums())
      expect(joined.executed.map(({ receipt }) => receipt)).toEqual(
        plain.executed.map(({ receipt }) => receipt),
      )
      expect(sorted(await joined.diff())).toEqual(sorted(await plain.diff()))
      joined.close()
      plain.close()
    }),
    { numRuns: 60 },
  )
  expect(taken).toBeGreaterThan(50)
})

test('what is missing of the values before is named at once, and nothing is changed', async () => {
  const options = opening({ accounts: ACCOUNTS })
  const plain = openBlock(options)
  await plain.begin()
  await plain.execute(all[0]!)
  const changes = await plain.diff()
  const missing = { ...options.reader, account: () => 'missing' as const }
  const joined = joinedBlock({ ...options, reader: missing, mostMissing: 100 })
  const state = await joined.state()
  const asked = (() => {
    try {
      return state.rebased(changes)
    } catch (error) {
      return error
    }
  })()
  expect(asked).toBeInstanceOf(MissingError)
  expect((asked as MissingError).missing.length).toBe(changes.length)
  expect(joined.executed).toEqual([])
})
