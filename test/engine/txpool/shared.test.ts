/**
 * Other threads read from the txpool what the txpool itself would respond, after each of its calls.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createWaitingMemory } from '../../../engine/txpool/shared/memory.ts'
import { openWaitingReader } from '../../../engine/txpool/shared/reader.ts'
import { createRows, Rows } from '../../../engine/txpool/shared/rows.ts'
import { openWaitingWriter } from '../../../engine/txpool/shared/writer.ts'
import { addressOfSender, at, PlainHead, testPool, transfer } from '../../fixtures/txpool.ts'
import {
  responsesOf,
  type Step,
  signedTransactions,
  step,
  waitingWorld,
} from '../../fixtures/waiting-world.ts'
import { propertyRuns } from '../../kit/property-runs.ts'

const ALL = signedTransactions()
const LONG = { seed: 20_261_126, steps: propertyRuns(6_000) }

/**
 * Makes a world in which the reader must match the txpool after each call. The reader must already
 * match for listeners within the call.
 */
function worldOf(transactions: number, buckets: number) {
  const memory = createWaitingMemory({ transactions, buckets })
  const reader = openWaitingReader(memory)
  const emitted: number[][] = []
  const world = waitingWorld(ALL, openWaitingWriter(memory), () => {
    const right = responsesOf(world.pool, ALL)
    expect(responsesOf(reader, ALL)).toEqual(right)
    for (const responses of emitted.splice(0)) expect(responses).toEqual(right)
  })
  world.pool.onPending(() => emitted.push(responsesOf(reader, ALL)))
  return { ...world, reader }
}

/** A transaction is sent again while the txpool takes it for included. */
const SENT_AGAIN: Step[] = [
  { do: 'build', taken: 0, foreign: [124] },
  { do: 'reorg', depth: 1, retained: 0, isBroken: true },
  { do: 'send', sender: 3, count: 2 },
]

describe('the reader of another thread', () => {
  test('agrees with the txpool after each call and in each listener', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), fc.constantFrom(1, 64), (steps, buckets) => {
        const { apply } = worldOf(200, buckets)
        for (const now of steps) apply(now)
      }),
      { numRuns: propertyRuns(200) },
    )
  })

  test('agrees in a long run with every reason for which a transaction leaves', () => {
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

  test('never gives a nonce that is too high when memory is full, and recovers', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 80 }),
        fc.integer({ min: 1, max: 9 }),
        (steps, capacity) => {
          const memory = createWaitingMemory({ transactions: capacity, buckets: 4 })
          const reader = openWaitingReader(memory)
          const { pool, writer, apply } = waitingWorld(ALL, openWaitingWriter(memory), () => {})
          for (const now of steps) {
            apply(now)
            const said = responsesOf(reader, ALL)
            const right = responsesOf(pool, ALL)
            const nonces = said.length - ALL.length
            for (const [index, response] of said.entries())
              if (index < nonces) expect(response).toBeLessThanOrEqual(right[index]!)
              else if (writer.unlisted > 0) expect(response).toBe(1)
              else expect(response).toBe(right[index])
          }
          pool.rejected(ALL.map(({ hash }) => ({ hash, reason: 'gone', isUnwanted: true })))
          expect(writer.unlisted).toBe(0)
          const { pool: small, head } = testPool({}, writer)
          small.submit(transfer(0, 0).raw, at(head))
          expect(reader.nextNonce(addressOfSender(0), 0n)).toBe(1n)
          expect(responsesOf(reader, ALL)).toEqual(responsesOf(small, ALL))
        },
      ),
      { examples: [[SENT_AGAIN, 1]] },
    )
  })
})

test('the next nonce is right for the highest nonce and a state ahead of the txpool', () => {
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

test('the next nonce counts included transactions first, and then waiting ones', () => {
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

test('a listener after a rewind reads the new result for all senders', () => {
  const memory = createWaitingMemory({ transactions: 8, buckets: 8 })
  const { pool, head } = testPool({}, openWaitingWriter(memory))
  const reader = openWaitingReader(memory)
  pool.submit(transfer(0, 1).raw, at(head))
  pool.submit(transfer(1, 0).raw, at(head))
  const received: bigint[] = []
  pool.onPending(() => received.push(reader.nextNonce(addressOfSender(1), 0n)))
  pool.rewind({ blockOf: () => undefined, nonceOf: () => 1n })
  expect(received).toEqual([0n])
})

test('rows are added and removed in any order, also in one bucket', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(40), fc.boolean()), { maxLength: 300 }), (steps) => {
      const rows = new Rows(createRows({ max: 12, buckets: 4, keyWords: 1, dataWords: 1 }))
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
