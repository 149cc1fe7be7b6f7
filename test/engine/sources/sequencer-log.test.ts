import { describe, expect, test } from 'vitest'
import { encodePacket } from '../../../engine/flashblocks/codec.ts'
import type { FeedMessage, Flashblock } from '../../../engine/flashblocks/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { createPacketLog } from '../../../engine/sources/sequencer/log.ts'
import { memoryJournal } from '../../fixtures/memory-journal.ts'

const hash = (value: number) => new Uint8Array(32).fill(value)
const flashblock = (number: bigint, index: number, payloadId = idOf(number)): Flashblock => ({
  type: 'flashblock',
  payloadId,
  index,
  targetIndex: 0,
  base:
    index > 0
      ? undefined
      : {
          parentBeaconBlockRoot: hash(0),
          parentHash: hash(Number(number) - 1),
          feeRecipient: new Uint8Array(20),
          prevRandao: hash(0),
          blockNumber: number,
          gasLimit: 1n,
          timestamp: number,
          extraData: new Uint8Array(17),
          baseFeePerGas: 1n,
        },
  delta: {
    stateRoot: hash(0),
    receiptsRoot: hash(0),
    logsBloom: new Uint8Array(256),
    gasUsed: 0n,
    blockHash: hash(index),
    transactions: [],
    withdrawalsRoot: hash(0),
    blobGasUsed: 0n,
  },
  blockNumber: number,
})
const idOf = (number: bigint) => `0x03000000000000${number.toString(16).padStart(2, '0')}`
const end = (number: bigint): FeedMessage => ({ type: 'end', payloadId: idOf(number) })
const withoutHash = (message: Flashblock): Flashblock => ({
  ...message,
  delta: { ...message.delta, blockHash: undefined },
})
const other = (message: Flashblock): Flashblock => ({
  ...message,
  delta: { ...message.delta, gasUsed: 99n },
})
const framesOf = (messages: readonly FeedMessage[]): Bytes[] =>
  messages.map((message) => encodePacket(message))

describe('the packet log of a journal', () => {
  const cases: [name: string, messages: FeedMessage[], expected: unknown][] = [
    ['nothing', [], undefined],
    ['a flashblock of another block', [flashblock(8n, 0)], undefined],
    [
      'the first flashblocks of the block',
      [flashblock(7n, 0), flashblock(7n, 1)],
      { indices: [0, 1], hasEnd: false },
    ],
    ['a complete block', [flashblock(7n, 0), end(7n)], { indices: [0], hasEnd: true }],
    [
      'the block between others',
      [flashblock(6n, 0), end(6n), flashblock(7n, 0), end(7n), flashblock(8n, 0)],
      { indices: [0], hasEnd: true },
    ],
    ['a missing index 0', [flashblock(7n, 1)], 'other'],
    ['a missing index 1', [flashblock(7n, 0), flashblock(7n, 2)], 'other'],
    ['two payloads', [flashblock(7n, 0), flashblock(7n, 0, idOf(9n))], 'other'],
    [
      'a repeated flashblock with other gas',
      [...[0, 1, 2].map((index) => flashblock(7n, index)), other(flashblock(7n, 1))],
      { indices: [0, 1], hasEnd: false },
    ],
    [
      'a flashblock twice, once as a subblock',
      [...[0, 1, 2].map((index) => flashblock(7n, index)), withoutHash(flashblock(7n, 1))],
      { indices: [0, 1, 2], hasEnd: false },
    ],
    [
      'another subblock at the same index',
      [flashblock(7n, 0), flashblock(7n, 1), other(flashblock(7n, 1))].map(withoutHash),
      { indices: [0, 1], hasEnd: false },
    ],
    ['a flashblock after End', [flashblock(7n, 0), end(7n), flashblock(7n, 1)], 'other'],
  ]
  test.each(cases)('finds block 7 as expected: %s', (_, messages, expected) => {
    const log = createPacketLog(memoryJournal(), framesOf(messages))
    const found = log.find(7n, hash(6))
    expect(
      typeof found === 'object'
        ? {
            indices: found.flashblocks.map(({ message }) => message.index),
            hasEnd: found.end !== undefined,
          }
        : found,
    ).toEqual(expected)
  })

  test('refuses a block with another parent', () => {
    const log = createPacketLog(memoryJournal(), framesOf([flashblock(7n, 0)]))
    expect(log.find(7n, hash(9))).toBe('other')
  })

  test('ignores the packets after one that does not decode', () => {
    const packets = [...framesOf([flashblock(7n, 0)]), Buffer.from('x'), ...framesOf([end(7n)])]
    expect(createPacketLog(memoryJournal(), packets).find(7n, hash(6))).toMatchObject({
      end: undefined,
    })
  })
})

describe('an appended packet', () => {
  test('is in the journal, can be found and counts as sent', () => {
    const journal = memoryJournal()
    const log = createPacketLog(journal, [])
    const message = flashblock(7n, 0)
    const packet = encodePacket(message)
    log.append(7n, packet, message)
    expect(journal.packets).toEqual([packet])
    expect(log.find(7n, hash(6))).toMatchObject({ flashblocks: [{ isSent: true }] })
  })

  test('is forgotten when its block is durable, and the file shrinks in time', () => {
    const journal = memoryJournal()
    const log = createPacketLog(journal, [])
    let largest = 0
    for (let number = 1n; number <= 200n; number++) {
      log.forget(number - 2n)
      for (let index = 0; index < 5; index++) {
        const message = flashblock(number, index)
        log.append(number, encodePacket(message), message)
      }
      largest = Math.max(largest, journal.packets.length)
      expect(log.find(number - 1n, hash(Number(number) - 2))).toBeTypeOf(
        number > 1n ? 'object' : 'undefined',
      )
      expect(log.find(number - 2n, hash(0))).toBeUndefined()
    }
    expect(largest).toBeLessThan(300)
    expect(createPacketLog(journal, journal.packets).find(200n, hash(199))).toBeTypeOf('object')
  })

  test('leaves the file at once when its height is dropped', () => {
    const journal = memoryJournal()
    const log = createPacketLog(journal, framesOf([flashblock(7n, 0), flashblock(8n, 0)]))
    log.drop(8n)
    expect(journal.packets).toEqual(framesOf([flashblock(7n, 0)]))
    expect(log.find(8n, hash(7))).toBeUndefined()
  })
})
