import { expect, test } from 'vitest'
import type { ChainReader } from '../../../engine/chain/types.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { shareViews } from '../../../rpc/dispatch/shared-views.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'

/** Makes a reader that counts how often a view was opened. */
function counted() {
  const memory = memoryChain()
  let opened = 0
  const reader: ChainReader = {
    newestSnapshot: memory.newestSnapshot,
    newestOfAll: memory.newestOfAll,
    adopt: memory.adopt,
    lease(endpoint) {
      opened++
      return memory.lease(endpoint)
    },
  }
  const shared = shareViews(reader, memory.onPublish)
  return { memory, shared, opened: () => opened }
}

test('all readers of the newest snapshot share one view per endpoint', () => {
  const { shared, opened } = counted()
  const [one, two] = [shared.lease('flashblocks'), shared.lease('flashblocks')]
  expect(two.view).toBe(one.view)
  one.release()
  two.release()
  expect(shared.lease('flashblocks').view).toBe(one.view)
  expect(opened()).toBe(1)
  expect(shared.lease('standard').view).not.toBe(one.view)
  expect(opened()).toBe(2)
})

test('readers of an older snapshot keep their view until the last one releases it', () => {
  const { memory, shared } = counted()
  const [one, two] = [shared.lease('flashblocks'), shared.lease('flashblocks')]
  memory.publish({ canonical: memory.make(memory.genesis) })
  const newer = shared.lease('flashblocks')
  expect(newer.view.latest.number).toBe(1n)
  newer.release()
  expect(one.view.block({ tag: 'latest' })?.number).toBe(0n)
  one.release()
  expect(memory.leaks()).toBe(1)
  two.release()
  expect(memory.leaks()).toBe(0)
})

test('a void view is not given to the next reader', () => {
  const { memory, shared, opened } = counted()
  const lease = shared.lease('flashblocks')
  memory.failNext(1, 'void')
  expect(() => lease.view.block({ number: 0n })).toThrow(ViewError)
  const next = shared.lease('flashblocks')
  expect(next.view).not.toBe(lease.view)
  expect(opened()).toBe(2)
  memory.failNext(1, 'pruned')
  expect(() => next.view.block({ number: 0n })).toThrow(ViewError)
  expect(shared.lease('flashblocks').view).toBe(next.view)
})

test('blocks of tags and their state are looked up once per view', () => {
  const { shared } = counted()
  const { view } = shared.lease('flashblocks')
  const block = view.block({ tag: 'pending' })!
  expect(view.block({ tag: 'pending' })).toBe(block)
  expect(view.state(block)).toBe(view.state(block))
})

test('a view may be released only once', () => {
  const { shared } = counted()
  const lease = shared.lease('standard')
  lease.release()
  expect(() => lease.release()).toThrow('was given back already')
})
