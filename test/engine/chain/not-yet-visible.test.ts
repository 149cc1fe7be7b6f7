/**
 * Requests name snapshots that are not visible yet. Whatever happens, none of these snapshots may
 * stay leased.
 */
import { expect, test } from 'vitest'
import { leaseNotYetVisible } from '../../../engine/chain/not-yet-visible.ts'
import { openChainReader } from '../../../engine/chain/reader.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { VISIBLE } from '../../../engine/views/arena.ts'
import { GENESIS, heads, open } from '../../fixtures/small-views.ts'
import { plainChain } from '../../fixtures/view-chain.ts'

test.each([
  ['a bug in the request', new Error('a bug')],
  ['a state that is no longer available', new ViewError('gone', 'it was folded')],
])('a snapshot that is not yet visible is released after %s', (_, error) => {
  const { publisher, store, views } = open()
  for (let n = 0; n < 3; n++) publisher.publish(heads(publisher.base))
  const words = new Int32Array(views.buffer)
  Atomics.store(words, VISIBLE, 1)
  const reader = openChainReader({ views, store, chain: plainChain(GENESIS), thread: 0 })
  const request = () =>
    leaseNotYetVisible(reader, 'flashblocks', () => {
      throw error
    })
  if (error instanceof ViewError) expect(request()).toBeUndefined()
  else expect(request).toThrow(error.message)
  Atomics.store(words, VISIBLE, 3)
  expect(publisher.stats().oldestLease).toBe(3)
})
