import { brotliCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodePacket, encodePacket } from '../../../engine/flashblocks/codec.ts'
import { PACKET_BOUNDS } from '../../../engine/flashblocks/packed.ts'
import { decodeWithin, PIECE_BYTES } from '../../../workers/feed-client/decode.ts'
import { mulberry32 } from '../../kit/run-options.ts'
import { flashblock } from '../../outside/garbage/inputs.ts'
import { tableStream } from '../../outside/garbage/tables.ts'

const still = { bounds: PACKET_BOUNDS, packetMs: 1_000, now: () => 0 }

/** Makes a packet of several pieces with incompressible transactions. */
function largePacket(): Uint8Array {
  const random = mulberry32(1)
  const message = flashblock(1, 1)
  const raw = Uint8Array.from({ length: 3 * PIECE_BYTES }, () => random() * 256)
  return encodePacket({ ...message, delta: { ...message.delta, transactions: [raw] } })
}
const large = largePacket()
const stream = large.subarray(1)

describe('a packet in pieces', () => {
  const cases: [name: string, packet: Uint8Array][] = [
    ['the form of X Layer', large],
    ['without the magic byte', stream],
    ['cut off', large.subarray(0, -1)],
    ['cut off in the middle', large.subarray(0, 2 * PIECE_BYTES)],
    ['invalid Brotli', Buffer.alloc(2 * PIECE_BYTES, 0xff)],
    ['many magic bytes', Buffer.alloc(2 * PIECE_BYTES, 0x1e)],
    ['compressed twice', brotliCompressSync(Buffer.from(stream))],
    ['Brotli of invalid JSON', Buffer.concat([Buffer.of(0x1e), brotliCompressSync(stream)])],
  ]
  test.each(cases)('decodes like in one go: %s', async (_, packet) => {
    expect(packet.length).toBeGreaterThan(PIECE_BYTES)
    const { decoded } = await decodeWithin(packet, still)
    expect(decoded).toEqual(decodePacket(packet))
  })

  test('decodes like in one go, with any byte changed', async () => {
    const offsets = fc.nat({ max: large.length - 1 })
    await fc.assert(
      fc.asyncProperty(offsets, fc.nat({ max: 255 }), async (at, value) => {
        const packet = Uint8Array.from(large)
        packet[at] = value
        const { decoded } = await decodeWithin(packet, still)
        expect(decoded).toEqual(decodePacket(packet))
      }),
      { numRuns: 40 },
    )
  })
})

describe('the size of decoded JSON', () => {
  const json = JSON.stringify({ payload_id: '0x03a1b2c3d4e5f607' })
  const bounds = { ...PACKET_BOUNDS, bytes: 8 * PIECE_BYTES }
  const cases: [name: string, packet: Uint8Array, field: string | undefined, jsonBytes: number][] =
    [
      ['plain JSON', Buffer.from(json), undefined, json.length],
      ['Brotli', brotliCompressSync(Buffer.from(json)), undefined, json.length],
      ['plain JSON, refused', Buffer.from('{"a":1}'), 'payload_id', 7],
      ['invalid Brotli', Buffer.from('hello'), 'brotli', 0],
      ['more bytes than allowed', Buffer.alloc(bounds.bytes + 1), 'too-large', 0],
      [
        'a decompression bomb',
        brotliCompressSync(Buffer.alloc(bounds.bytes + 1)),
        'too-large',
        bounds.bytes,
      ],
      [
        'a decompression bomb in pieces',
        brotliCompressSync(Buffer.concat([stream, Buffer.alloc(bounds.bytes)])),
        'too-large',
        bounds.bytes,
      ],
    ]
  test.each(cases)('is known, also of refused packets: %s', async (_, packet, field, jsonBytes) => {
    const result = await decodeWithin(packet, { ...still, bounds })
    expect(result.jsonBytes).toBe(jsonBytes)
    expect('field' in result.decoded ? result.decoded.field : undefined).toBe(field)
  })
})

test('a stream of code tables is refused after its time limit', async () => {
  const packet = tableStream(64 * PIECE_BYTES)
  let checks = 0
  const { decoded } = await decodeWithin(packet, { ...still, packetMs: 5, now: () => checks++ })
  expect(decoded).toHaveProperty('field', 'decode-time')
  // Decoding stops before all pieces.
  expect(checks).toBeLessThan(12)
})

test('a stream without data is refused after its time limit', async () => {
  // RFC 7932: a window of 16 bits, then metablocks without data.
  const packet = Buffer.alloc(64 * PIECE_BYTES, 0x06)
  packet[0] = 0x0c
  packet[packet.length - 1] = 0x03
  const nothing = await decodeWithin(packet, still)
  expect(nothing.decoded).toHaveProperty('field', 'json')
  let checks = 0
  const { decoded } = await decodeWithin(packet, { ...still, packetMs: 5, now: () => checks++ })
  expect(decoded).toHaveProperty('field', 'decode-time')
})

test('a small packet is decoded without a turn of the event loop', async () => {
  let isTurned = false
  setImmediate(() => {
    isTurned = true
  })
  await decodeWithin(encodePacket(flashblock(1, 1_000)), still)
  expect(isTurned).toBe(false)
})
