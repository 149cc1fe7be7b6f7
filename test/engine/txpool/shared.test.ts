/** What other threads read of the txpool: what the txpool itself would say, after each of its calls. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createWaitingMemory } from '../../../engine/txpool/shared/memory.ts'
import { openWaitingReader } from '../../../engine/txpool/shared/reader.ts'
import { createRows, Rows } from '../../../engine/txpool/shared/rows.ts'
import { openWaitingWriter } from '../../../engine/txpool/shared/writer.ts'
import { addressOfSender, at, PlainHead, testPool, transfer } from '../../fixtures/txpool.ts'
import {
  answersOf,
  type Step,
  signedTransactions,
  step,
  waitingWorld,
} from '../../fixtures/waiting-world.ts'
import { propertyRuns } from '../../kit/property-runs.ts'

const ALL = signedTransactions()
const LONG = { seed: 20_261_126, steps: propertyRuns(6_000) }

/** After each call the reader says what the txpool says, and said so to whoever was told within it. */
function worldOf(transactions: number, buckets: number) {
  const memory = createWaitingMemory({ transactions, buckets })
  const reader = openWaitingReader(memory)
  const told: number[][] = []
  const world = waitingWorld(ALL, openWaitingWriter(memory), () => {
    const right = answersOf(world.pool, ALL)
    expect(answersOf(reader, ALL)).toEqual(right)
    for (const answers of told.splice(0)) expect(answers).toEqual(right)
  })
  world.pool.onPending(() => told.push(answersOf(reader, ALL)))
  return { ...world, reader }
}

describe('at random', () => {
  test('the reader says what the txpool says, after each call and in each listener', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), fc.constantFrom(1, 64), (steps, buckets) => {
        const { apply } = worldOf(200, buckets)
        for (const now of steps) apply(now)
      }),
      { numRuns: propertyRuns(200) },
    )
  })

  test('in a long run, in which transactions leave for every reason there is', () => {
    const { pool, writer, apply } = worldOf(64, 16)
    const reasons = new Set<string>()
    for (const now of fc.sample(step, { seed: LONG.seed, numRuns: LONG.steps })) {
      apply(now as Step)
      expect(writer.unlisted).toBe(0)
      for (const { hash } of ALL) {
        const standing = pool.standingOf(hash)
        if (standing?.why === 'dropped') reasons.add(standing.reason)
        else if (standing?.why === 'replaced') reasons.add(standing.by ? 'replaced' : 'nonce used')
      }
    }
    expect([...reasons].sort()).toEqual([
      'it cannot be executed',
      'it was in no block for too long',
      'nonce used',
      'replaced',
      'the txpool was full of better ones',
      'whoever controls the chain has dropped it',
    ])
  })

  test('without room for all: more is expected, no nonce is too high, and then all is as before', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 80 }),
        fc.integer({ min: 1, max: 9 }),
        (steps, room) => {
          const memory = createWaitingMemory({ transactions: room, buckets: 4 })
          const reader = openWaitingReader(memory)
          const { pool, writer, apply } = waitingWorld(ALL, openWaitingWriter(memory), () => {})
          for (const now of steps) {
            apply(now)
            const said = answersOf(reader, ALL)
            const right = answersOf(pool, ALL)
            const nonces = said.length - ALL.length
            for (const [index, answer] of said.entries())
              if (index < nonces) expect(answer).toBeLessThanOrEqual(right[index]!)
              else if (writer.unlisted > 0) expect(answer).toBe(1)
              else expect(answer).toBe(right[index])
          }
          pool.rejected(ALL.map(({ hash }) => ({ hash, reason: 'gone', isUnwanted: true })))
          expect(writer.unlisted).toBe(0)
          const { pool: small, head } = testPool({}, writer)
          small.submit(transfer(0, 0).raw, at(head))
          expect(reader.nextNonce(addressOfSender(0), 0n)).toBe(1n)
          expect(answersOf(reader, ALL)).toEqual(answersOf(small, ALL))
        },
      ),
    )
  })
})

test('a nonce as high as there is, and a state that is ahead of the txpool', () => {
  const memory = createWaitingMemory({ transactions: 8, buckets: 8 })
  const { pool } = testPool({}, openWaitingWriter(memory))
  const reader = openWaitingReader(memory)
  const newest = 2n ** 64n - 2n
  for (const nonce of [newest - 2n, newest, newest - 1n]) pool.include(transfer(0, nonce), 1)
  for (const nonce of [0n, newest - 3n, newest - 2n, newest, newest + 1n])
    expect(reader.nextNonce(addressOfSender(0), nonce)).toBe(
      pool.nextNonce(addressOfSender(0), nonce),
    )
  expect(reader.nextNonce(addressOfSender(0), newest - 2n)).toBe(newest + 1n)
})

test('over those in blocks first, and then over those that wait: as the txpool counts them', () => {
  const memory = createWaitingMemory({ transactions: 8, buckets: 8 })
  const { pool } = testPool({}, openWaitingWriter(memory))
  const reader = openWaitingReader(memory)
  const head = new PlainHead()
  pool.include(transfer(0, 3), 1)
  for (const nonce of [1, 2]) pool.submit(transfer(0, nonce).raw, at(head))
  expect(pool.nextNonce(addressOfSender(0), 1n)).toBe(3n)
  for (const nonce of [0n, 1n, 2n, 3n, 4n])
    expect(reader.nextNonce(addressOfSender(0), nonce)).toBe(
      pool.nextNonce(addressOfSender(0), nonce),
    )
})

test('who hears of a transaction after a rewind reads what is so for all senders', () => {
  const memory = createWaitingMemory({ transactions: 8, buckets: 8 })
  const { pool, head } = testPool({}, openWaitingWriter(memory))
  const reader = openWaitingReader(memory)
  pool.submit(transfer(0, 1).raw, at(head))
  pool.submit(transfer(1, 0).raw, at(head))
  const heard: bigint[] = []
  pool.onPending(() => heard.push(reader.nextNonce(addressOfSender(1), 0n)))
  pool.rewind({ blockOf: () => undefined, nonceOf: () => 1n })
  expect(heard).toEqual([0n])
})

test('rows come and go in any order, also in one bucket', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(40), fc.boolean()), { maxLength: 300 }), (steps) => {
      const rows = new Rows(createRows({ most: 12, buckets: 4, keyWords: 1, dataWords: 1 }))
      const known = new Map<number, number>()
      for (const [at, [n, isAdded]] of steps.entries()) {
        rows.aim(new Uint8Array([n, 0, 0, 0]))
        const row = rows.find(rows.open())
        expect(row && rows.data(row, 0)).toBe(known.get(n) ?? 0)
        if (row === 0 && isAdded) {
          const added = rows.add()
          expect(added === 0).toBe(known.size === 12)
          if (added !== 0) {
            expect(rows.data(added, 0)).toBe(0)
            rows.setData(added, 0, at + 1)
            known.set(n, at + 1)
          }
        } else if (row !== 0 && !isAdded) {
          rows.remove(row)
          known.delete(n)
        }
        rows.shut()
      }
    }),
  )
})
