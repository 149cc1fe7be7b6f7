import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { FeedMessage } from '../../../engine/flashblocks/types.ts'
import { packMessage, unpackMessage } from '../../../workers/feed-client/pack.ts'
import { flashblock } from '../../outside/garbage/inputs.ts'

test('a packed and transferred message is unchanged', () => {
  const transactions = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 20 })
  fc.assert(
    fc.property(transactions, (raws) => {
      const message = flashblock(1, 10)
      const sent = { ...message, delta: { ...message.delta, transactions: raws } }
      const packed = packMessage(sent)
      const transfer = [...packed.transfer]
      const received = unpackMessage(structuredClone(packed.message, { transfer }))
      expect(received).toEqual(sent)
      expect(transfer.every(({ byteLength }) => byteLength === 0)).toBe(true)
    }),
  )
})

test('an End message is unchanged', () => {
  const end: FeedMessage = { type: 'end', payloadId: '0x03a1b2c3d4e5f607' }
  expect(unpackMessage(structuredClone(packMessage(end).message))).toEqual(end)
})

test('the size of a packed message is roughly its memory', () => {
  expect(packMessage(flashblock(1, 1_000_000)).sizeBytes).toBeGreaterThan(1_000_000)
  expect(packMessage(flashblock(1, 1)).sizeBytes).toBeLessThan(5_000)
})
