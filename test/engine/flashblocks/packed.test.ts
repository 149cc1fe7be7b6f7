import { brotliCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodePacket, encodePacket } from '../../../engine/flashblocks/codec.ts'
import { openPacket, PACKET_BOUNDS, readJson } from '../../../engine/flashblocks/packed.ts'
import { Refusal } from '../../../engine/primitives/json-fields.ts'

const bounds = (depth: number, values: number) => ({ ...PACKET_BOUNDS, depth, values })
/** Reads JSON and gives the value, or the field that refuses it. */
function read(text: string, { depth = 64, values = 1_000 } = {}): unknown {
  try {
    return { value: readJson(Buffer.from(text), bounds(depth, values)) }
  } catch (error) {
    if (error instanceof Refusal) return error.field
    throw error
  }
}

describe('JSON in bounds', () => {
  const cases: [
    name: string,
    text: string,
    limits: { depth?: number; values?: number },
    unknown,
  ][] = [
    ['lists at the maximum depth', '[[[]]]', { depth: 3 }, { value: [[[]]] }],
    ['lists one level too deep', '[[{}]]', { depth: 2 }, 'json-depth'],
    ['lists side by side', '[[],[],{}]', { depth: 2 }, { value: [[], [], {}] }],
    ['brackets in a string', '"[[[{{{"', { depth: 1 }, { value: '[[[{{{' }],
    ['brackets after an escaped quote', '"\\"[[["', { depth: 1 }, { value: '"[[[' }],
    ['brackets after an escaped backslash', '["\\\\",[[]]]', { depth: 2 }, 'json-depth'],
    ['the maximum number of values', '[1,2,3]', { values: 3 }, { value: [1, 2, 3] }],
    ['one value too many', '[1,2,3,4]', { values: 3 }, 'json-values'],
    ['keys that count as values', '{"a":1,"b":2,"c":3}', { values: 2 }, 'json-values'],
    ['empty lists that count as values', '[[],[],[]]', { values: 4 }, 'json-values'],
    ['commas in a string, which do not count', '",,,,"', { values: 0 }, { value: ',,,,' }],
    ['a long string', `"${'x'.repeat(500)},,"`, { values: 0 }, { value: `${'x'.repeat(500)},,` }],
    [
      'a long string with escapes at its end',
      `["${'x'.repeat(500)}\\",,,"]`,
      { values: 1 },
      { value: [`${'x'.repeat(500)}",,,`] },
    ],
    ['a string that does not end', '"[[[[', { depth: 1 }, 'json'],
    ['an escape that does not end', '"\\', {}, 'json'],
    ['more closing than opening brackets', ']]]][', { depth: 1 }, 'json'],
    ['a megabyte of opening brackets', '['.repeat(1 << 20), {}, 'json-depth'],
  ]
  test.each(cases)('is read or refused: %s', (_, text, limits, expected) => {
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
  test('is read with bounds of its own size, and refused with smaller ones', () => {
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

test('a packet above the size limit is refused by its length alone', () => {
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
  test('are accepted before they are mutated', () => {
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
  test('give a message, a reason with a field or a skip, and never an exception', () => {
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
