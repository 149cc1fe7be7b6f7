/** Records that clients are not shown yet, read by who asks for them by name: whatever happens, none of them stays leased. */
import { expect, test } from 'vitest'
import { leaseAhead } from '../../../engine/chain/ahead.ts'
import { openChainReader } from '../../../engine/chain/reader.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import { SHOWN } from '../../../engine/views/arena.ts'
import { GENESIS, heads, open } from '../../fixtures/small-views.ts'
import { plainChain } from '../../fixtures/view-chain.ts'

test.each([
  ['a bug in the question', new Error('a bug')],
  ['a state that is gone', new ViewError('gone', 'it was folded')],
])('%s leaves nothing leased', (_, error) => {
  const { publisher, store, views } = open()
  for (let n = 0; n < 3; n++) publisher.publish(heads(publisher.base))
  const words = new Int32Array(views.buffer)
  Atomics.store(words, SHOWN, 1)
  const reader = openChainReader({ views, store, chain: plainChain(GENESIS), thread: 0 })
  const ask = () =>
    leaseAhead(reader, 'flashblocks', () => {
      throw error
    })
  if (error instanceof ViewError) expect(ask()).toBeUndefined()
  else expect(ask).toThrow(error.message)
  Atomics.store(words, SHOWN, 3)
  expect(publisher.stats().oldestLease).toBe(3)
})
