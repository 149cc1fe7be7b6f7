/**
 * The txpool gives the reason for which a transaction has left; test/rpc/methods/promises covers
 * replacements.
 */
import { expect, test } from 'vitest'
import { at, testPool, transfer } from '../../fixtures/txpool.ts'

test('the standing of a transaction has its waiting time or its rejection reason', () => {
  const { pool, head, clock } = testPool({ departed: 2 })
  const all = [0, 1, 2].map((sender) => transfer(sender, 0))
  for (const one of all) pool.submit(one.raw, at(head))
  clock.ms += 70
  expect(pool.standingOf(all[0]!.hash)).toEqual({ why: 'waits', ms: 70 })
  pool.rejected(all.map(({ hash }) => ({ hash, reason: 'takes too long for its gas' })))
  expect(all.map(({ hash }) => pool.standingOf(hash))).toEqual([
    undefined,
    { why: 'dropped', reason: 'takes too long for its gas' },
    { why: 'dropped', reason: 'takes too long for its gas' },
  ])
})

test('each transaction that leaves without a block is reported, with its reason', () => {
  const received: unknown[] = []
  const { pool, head } = testPool({}, undefined, (hash) =>
    received.push([hash, pool.standingOf(hash)]),
  )
  const [old, next, included] = [transfer(0, 0), transfer(1, 0), transfer(2, 0)]
  const dearer = transfer(0, 0, { maxFeePerGas: 5_000n, maxPriorityFeePerGas: 50n })
  for (const one of [old, dearer, next, included]) pool.submit(one.raw, at(head))
  pool.rejected([{ hash: next.hash, reason: 'sender is not an EOA' }])
  pool.include(included, 1)
  expect(received).toEqual([
    [old.hash, { why: 'replaced', by: dearer.hash }],
    [next.hash, { why: 'dropped', reason: 'sender is not an EOA' }],
  ])
})

test('an included transaction has no standing, and one with a used nonce was replaced', () => {
  const { pool, head } = testPool()
  const [included, late] = [transfer(0, 0), transfer(0, 1)]
  for (const one of [included, late]) pool.submit(one.raw, at(head))
  pool.include(included, 1)
  expect(pool.standingOf(included.hash)).toBeUndefined()
  pool.include(transfer(0, 1, { value: 7n }), 1)
  expect(pool.standingOf(late.hash)).toEqual({ why: 'replaced', by: undefined })
  expect(pool.standingOf(new Uint8Array(32))).toBeUndefined()
})
