/** A txpool follows views that jump: a resync of a lazy state leaves a gap. */
import { expect, test } from 'vitest'
import type { ChainView } from '../../../engine/chain/types.ts'
import { MissingError, ViewError } from '../../../engine/state/reader.ts'
import { followViews, restoreTxpool } from '../../../engine/txpool/follow.ts'
import { keyOf } from '../../../engine/txpool/types.ts'
import { execute, log, transfer } from '../../fixtures/executed.ts'
import { type MemoryBlock, memoryChain } from '../../fixtures/memory-chain.ts'
import { addressOfSender, transfer as pooled, testPool } from '../../fixtures/txpool.ts'

const HOLE = [2n, 3n, 4n]

test('the txpool follows views over a gap of missing blocks', () => {
  const { pool } = testPool()
  const follower = followViews(pool)
  const memory = memoryChain()
  const check = (change: (view: ChainView) => ChainView = (view) => view) => {
    const lease = memory.lease('flashblocks')
    follower.update(change(lease.view))
    lease.release()
  }
  const grow = (nonce: bigint): MemoryBlock => {
    const own = transfer(nonce)
    const executed = execute([own], [[log()]])
    const block = memory.make(memory.heads.canonical, { executed })
    memory.publish({ canonical: block })
    return block
  }
  grow(0n)
  grow(1n)
  check()
  for (let nonce = 2n; nonce < 5n; nonce++) grow(nonce)
  const newest = grow(5n)
  check((view) => ({
    ...view,
    block(selector) {
      if ('number' in selector && HOLE.includes(selector.number))
        throw new ViewError('pruned', `block ${selector.number} is not here`)
      return view.block(selector)
    },
  }))
  expect(pool.retained(newest.transactions[0]!.hash)?.hash).toEqual(newest.transactions[0]!.hash)
})

test('a journalled transaction with a missing account waits until it is fetched', () => {
  const { pool, head, journal } = testPool()
  const sent = pooled(0, 0)
  const other = pooled(1, 0)
  const key = { kind: 'account', address: addressOfSender(0) } as const
  const lacking = Object.assign(Object.create(head), {
    account(address: Uint8Array) {
      if (keyOf(address) === keyOf(key.address)) throw new MissingError(key)
      return head.account(address)
    },
  })
  const lease = memoryChain().lease('flashblocks')
  const { view } = lease
  expect(restoreTxpool(pool, [sent.raw, other.raw], { view, head: lacking })).toEqual({
    restored: 1,
    waiting: [sent.raw],
    missing: [key],
  })
  expect(pool.retained(sent.hash)).toBeUndefined()
  pool.rewriteJournal()
  expect(journal).toEqual([other.raw, sent.raw])
  expect(restoreTxpool(pool, [sent.raw], { view, head })).toMatchObject({
    restored: 1,
    waiting: [],
  })
  expect(journal).toEqual([other.raw, sent.raw])
  expect(pool.retained(sent.hash)).toBeDefined()
  lease.release()
})
