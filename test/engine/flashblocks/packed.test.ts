import { brotliCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodePacket, encodePacket } from '../../../engine/flashblocks/codec.ts'
import { openPacket, PACKET_BOUNDS, readJson } from '../../../engine/flashblocks/packed.ts'
import { Refusal } from '../../../engine/primitives/json-fields.ts'

const bounds = (depth: number, values: number) => ({ ...PACKET_BOUNDS, depth, values })
/** The value, or the field that refuses it. */
function read(text: string, { depth = 64, values = 1_000 } = {}): unknown {
  try {
    return { value: readJson(Buffer.from(text), bounds(depth, values)) }
  } catch (error) {
    if (error instanceof Refusal) return error.field
    throw error
  }
}

describe('bounds of JSON', () => {
  const cases: [
    name: string,
    text: string,
    limits: { depth?: number; values?: number },
    unknown,
  ][] = [
    ['as deep as it may be', '[[[]]]', { depth: 3 }, { value: [[[]]] }],
    ['one deeper', '[[{}]]', { depth: 2 }, 'json-depth'],
    ['deep, side by side', '[[],[],{}]', { depth: 2 }, { value: [[], [], {}] }],
    ['deep, in a string', '"[[[{{{"', { depth: 1 }, { value: '[[[{{{' }],
    ['deep, behind an escaped quote', '"\\"[[["', { depth: 1 }, { value: '"[[[' }],
    ['deep, behind an escaped backslash', '["\\\\",[[]]]', { depth: 2 }, 'json-depth'],
    ['as many as there may be', '[1,2,3]', { values: 3 }, { value: [1, 2, 3] }],
    ['one more', '[1,2,3,4]', { values: 3 }, 'json-values'],
    ['keys count', '{"a":1,"b":2,"c":3}', { values: 2 }, 'json-values'],
    ['empty ones count', '[[],[],[]]', { values: 4 }, 'json-values'],
    ['commas in strings do not', '",,,,"', { values: 0 }, { value: ',,,,' }],
    ['a long string', `"${'x'.repeat(500)},,"`, { values: 0 }, { value: `${'x'.repeat(500)},,` }],
    [
      'a long one with escapes late',
      `["${'x'.repeat(500)}\\",,,"]`,
      { values: 1 },
      { value: [`${'x'.repeat(500)}",,,`] },
    ],
    ['a string that does not end', '"[[[[', { depth: 1 }, 'json'],
    ['an escape that does not end', '"\\', {}, 'json'],
    ['what closes too often', ']]]][', { depth: 1 }, 'json'],
    ['no megabyte of lists reaches the parser', '['.repeat(1 << 20), {}, 'json-depth'],
  ]
  test.each(cases)('%s', (_, text, limits, expected) => {
    expect(read(text, limits)).toEqual(expected)
  })

  const shape = (value: unknown): { depth: number; values: number } => {
    if (typeof value !== 'object' || value === null) return { depth: 0, values: 0 }
    const inner = Object.values(value).map(shape)
    return {
      depth: 1 + Math.max(0, ...inner.map(({ depth }) => depth)),
      values:
        1 + Math.max(0, inner.length - 1) + inner.reduce((sum, { values }) => sum + values, 0),
    }
  }
  test('any value passes bounds that are its own, and no smaller ones', () => {
    const strings = fc.oneof(
      fc.string(),
      fc.string({ unit: fc.constantFrom('\\', '"', '[', '{', ',', 'x'), maxLength: 200 }),
    )
    const json = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        fc.integer(),
        strings,
        fc.array(tie('value')),
        fc.dictionary(strings, tie('value')),
      ),
    })).value
    fc.assert(
      fc.property(json, (value) => {
        const { depth, values } = shape(value)
        const text = JSON.stringify(value)
        expect(read(text, { depth, values })).toEqual({ value: JSON.parse(text) })
        if (depth > 0) expect(read(text, { depth: depth - 1, values })).toBe('json-depth')
        if (values > 0) expect(read(text, { depth, values: values - 1 })).toBe('json-values')
      }),
    )
  })
})

test('the largest packet is refused by its length alone', () => {
  const bytes = Buffer.alloc(100)
  expect(() => openPacket(bytes, { ...PACKET_BOUNDS, bytes: 99 })).toThrow(/^too-large/)
  expect(() => openPacket(bytes, { ...PACKET_BOUNDS, bytes: 100 })).not.toThrow()
})

describe('mutated packets', () => {
  const honest = {
    payload_id: '0x03a1b2c3d4e5f607',
    index: 1,
    target_index: 4,
    diff: {
      state_root: `0x${'06'.repeat(32)}`,
      receipts_root: `0x${'07'.repeat(32)}`,
      logs_bloom: `0x${'00'.repeat(256)}`,
      gas_used: '0xb44c',
      block_hash: `0x${'08'.repeat(32)}`,
      transactions: ['0x7ef800', '0x02f800'],
      withdrawals: [],
      withdrawals_root: `0x${'09'.repeat(32)}`,
    },
    metadata: { block_number: 45951504, receipts: { [`0x${'aa'.repeat(32)}`]: { logs: [] } } },
  }
  const plain = Buffer.from(JSON.stringify(honest))
  const enveloped = Buffer.from(JSON.stringify({ OpFlashblockPayload: honest }))
  const packets = [
    plain,
    enveloped,
    brotliCompressSync(plain),
    Buffer.concat([Buffer.of(0x1e), brotliCompressSync(enveloped)]),
    encodePacket({ type: 'end', payloadId: honest.payload_id }),
  ]
  test('they are not refused as they are', () => {
    for (const packet of packets) expect(decodePacket(packet)).toHaveProperty('message')
  })

  type Mutation = readonly [what: number, at: number, value: number]
  const mutations = fc.array(
    fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 9_999 }), fc.nat({ max: 255 })),
    { minLength: 1, maxLength: 6 },
  )
  function mutate(packet: Uint8Array, [what, position, value]: Mutation): Uint8Array {
    const at = position % Math.max(1, packet.length)
    if (what === 0) return packet.subarray(0, at)
    const [before, after] = [packet.subarray(0, at), packet.subarray(at)]
    if (what === 1) return Buffer.concat([before, Buffer.of(value), after.subarray(1)])
    if (what === 2) return Buffer.concat([before, after.subarray(value % (after.length + 1))])
    return Buffer.concat([before, Buffer.from(',"[{\\:}]'.repeat(2).slice(value % 8)), after])
  }
  test('a message, a reason that names a field, or not for us: never an exception', () => {
    fc.assert(
      fc.property(fc.constantFrom(...packets), mutations, (packet, all) => {
        const decoded = decodePacket(all.reduce<Uint8Array>(mutate, packet), bounds(8, 60))
        if ('refuse' in decoded) {
          expect(decoded.refuse).toMatch(/^[^\n]{1,200}$/)
          expect(decoded.field).toMatch(/^[a-z][a-z0-9_-]*(\.[a-z_]+)?$/)
        } else expect('message' in decoded || 'ignore' in decoded).toBe(true)
      }),
      { numRuns: 3_000 },
    )
  })
})
