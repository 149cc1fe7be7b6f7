import { brotliCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodePacket, encodePacket } from '../../../engine/flashblocks/codec.ts'
import { PACKET_BOUNDS } from '../../../engine/flashblocks/packed.ts'
import { decodeWithin, PIECE_BYTES } from '../../../workers/feeds/decode.ts'
import { mulberry32 } from '../../kit/run-options.ts'
import { flashblock } from '../../outside/garbage/inputs.ts'
import { tableStream } from '../../outside/garbage/tables.ts'

const still = { bounds: PACKET_BOUNDS, packetMs: 1_000, now: () => 0 }

/** Of transactions that nobody can compress: several pieces. */
function largePacket(): Uint8Array {
  const random = mulberry32(1)
  const message = flashblock(1, 1)
  const raw = Uint8Array.from({ length: 3 * PIECE_BYTES }, () => random() * 256)
  return encodePacket({ ...message, delta: { ...message.delta, transactions: [raw] } })
}
const large = largePacket()
const stream = large.subarray(1)

describe('in pieces as in one go', () => {
  const cases: [name: string, packet: Uint8Array][] = [
    ['X Layer’s form', large],
    ['without the magic byte', stream],
    ['cut off', large.subarray(0, -1)],
    ['cut off inside', large.subarray(0, 2 * PIECE_BYTES)],
    ['no Brotli', Buffer.alloc(2 * PIECE_BYTES, 0xff)],
    ['nothing but the magic byte', Buffer.alloc(2 * PIECE_BYTES, 0x1e)],
    ['of something else', brotliCompressSync(Buffer.from(stream))],
    ['of no JSON', Buffer.concat([Buffer.of(0x1e), brotliCompressSync(stream)])],
  ]
  test.each(cases)('%s', async (_, packet) => {
    expect(packet.length).toBeGreaterThan(PIECE_BYTES)
    const { decoded } = await decodeWithin(packet, still)
    expect(decoded).toEqual(decodePacket(packet))
  })

  test('any mutation', async () => {
    const places = fc.nat({ max: large.length - 1 })
    await fc.assert(
      fc.asyncProperty(places, fc.nat({ max: 255 }), async (at, value) => {
        const packet = Uint8Array.from(large)
        packet[at] = value
        const { decoded } = await decodeWithin(packet, still)
        expect(decoded).toEqual(decodePacket(packet))
      }),
      { numRuns: 40 },
    )
  })
})

describe('what it costs is known, also of what is refused', () => {
  const json = JSON.stringify({ payload_id: '0x03a1b2c3d4e5f607' })
  const bounds = { ...PACKET_BOUNDS, bytes: 8 * PIECE_BYTES }
  const cases: [name: string, packet: Uint8Array, field: string | undefined, jsonBytes: number][] =
    [
      ['plain JSON', Buffer.from(json), undefined, json.length],
      ['Brotli', brotliCompressSync(Buffer.from(json)), undefined, json.length],
      ['plain JSON, refused', Buffer.from('{"a":1}'), 'payload_id', 7],
      ['no Brotli', Buffer.from('hello'), 'brotli', 0],
      ['too long', Buffer.alloc(bounds.bytes + 1), 'too-large', 0],
      ['a bomb', brotliCompressSync(Buffer.alloc(bounds.bytes + 1)), 'too-large', bounds.bytes],
      [
        'a bomb in pieces',
        brotliCompressSync(Buffer.concat([stream, Buffer.alloc(bounds.bytes)])),
        'too-large',
        bounds.bytes,
      ],
    ]
  test.each(cases)('%s', async (_, packet, field, jsonBytes) => {
    const result = await decodeWithin(packet, { ...still, bounds })
    expect(result.jsonBytes).toBe(jsonBytes)
    expect('field' in result.decoded ? result.decoded.field : undefined).toBe(field)
  })
})

test('a stream of code tables is given up when its time is over', async () => {
  const packet = tableStream(64 * PIECE_BYTES)
  let looks = 0
  const { decoded } = await decodeWithin(packet, { ...still, packetMs: 5, now: () => looks++ })
  expect(decoded).toHaveProperty('field', 'decode-time')
  // Not after all of its pieces.
  expect(looks).toBeLessThan(12)
})

test('nor does one that inflates to nothing', async () => {
  // RFC 7932: a window of 16 bits, then metablocks without data.
  const packet = Buffer.alloc(64 * PIECE_BYTES, 0x06)
  packet[0] = 0x0c
  packet[packet.length - 1] = 0x03
  const nothing = await decodeWithin(packet, still)
  expect(nothing.decoded).toHaveProperty('field', 'json')
  let looks = 0
  const { decoded } = await decodeWithin(packet, { ...still, packetMs: 5, now: () => looks++ })
  expect(decoded).toHaveProperty('field', 'decode-time')
})

test('a small one needs no turn of the event loop', async () => {
  let isTurned = false
  setImmediate(() => {
    isTurned = true
  })
  await decodeWithin(encodePacket(flashblock(1, 1_000)), still)
  expect(isTurned).toBe(false)
})
