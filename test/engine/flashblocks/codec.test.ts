import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  decodePacket,
  encodePacket,
  MAX_INDEX,
  MAX_TRANSACTIONS,
  socketData,
  WIRE_FORMS,
  type WireForm,
} from '../../../engine/flashblocks/codec.ts'
import { flashblockJson } from '../../../engine/flashblocks/json.ts'
import { PACKET_BOUNDS } from '../../../engine/flashblocks/packed.ts'
import { subblockOf } from '../../../engine/flashblocks/subblock.ts'
import type { FeedMessage, Flashblock } from '../../../engine/flashblocks/types.ts'
import { hexToBytes } from '../../../engine/primitives/hex.ts'
import { responseLine } from '../../../workers/commands/decode-feed.ts'

const byte = (value: number, length = 32) => new Uint8Array(length).fill(value)
const index0: Flashblock = {
  type: 'flashblock',
  payloadId: '0x03a1b2c3d4e5f607',
  index: 0,
  targetIndex: 0,
  base: {
    parentBeaconBlockRoot: byte(1),
    parentHash: byte(2),
    feeRecipient: byte(3, 20),
    prevRandao: byte(4),
    blockNumber: 45951504n,
    gasLimit: 50_000_000n,
    timestamp: 0x692f7f9cn,
    extraData: byte(5, 17),
    baseFeePerGas: 99_999_999n,
  },
  delta: {
    stateRoot: byte(6),
    receiptsRoot: byte(7),
    logsBloom: byte(0, 256),
    gasUsed: 46_156n,
    blockHash: byte(8),
    transactions: [hexToBytes('0x7ef800'), hexToBytes('0x02f800')],
    withdrawalsRoot: byte(9),
    blobGasUsed: 0n,
  },
  blockNumber: 45951504n,
}
const index3: Flashblock = { ...index0, index: 3, targetIndex: 5, base: undefined }
const end: FeedMessage = { type: 'end', payloadId: index0.payloadId }
const text = (value: unknown) => Buffer.from(JSON.stringify(value))
const envelope = (value: unknown) => ({ OpFlashblockPayload: value })
const json3 = () => structuredClone(flashblockJson(index3)) as Record<string, unknown>
const withField = (path: string, value: unknown, flashblock = index3) => {
  const object = structuredClone(flashblockJson(flashblock)) as Record<string, unknown>
  const keys = path.split('.')
  const last = keys.pop()!
  const at = keys.reduce((o, key) => o[key] as Record<string, unknown>, object)
  if (value === undefined) delete at[last]
  else at[last] = value
  return text(object)
}

describe('a packet', () => {
  const plain = text(flashblockJson(index3))
  const forms: [name: string, packet: Uint8Array][] = [
    ['plain', plain],
    ['plain in the envelope', text(envelope(flashblockJson(index3)))],
    ['brotli', brotliCompressSync(plain)],
    ['0x1E and brotli', Buffer.concat([Buffer.of(0x1e), brotliCompressSync(plain)])],
    ['0x1E, brotli, envelope', encodePacket(index3, 'xlayer')],
    ['white space before it', Buffer.concat([Buffer.from(' \r\n\t\v'), plain])],
  ]
  test.each(forms)('decodes in this form: %s', (_, packet) => {
    expect(decodePacket(packet)).toMatchObject({ message: index3 })
  })

  test('of an enveloped End matches the reference vector', () => {
    const vector =
      '0x1e1b3a0000c4a73f47fe807ef4f974038b8cdc85208d2ab87ce14f5e17afd5cf20bebb31cee05e4c4e5867702017e1314d58ca3391cb42118dff07'
    expect(decodePacket(hexToBytes(vector))).toEqual({ message: end, metadata: undefined })
    expect(decodePacket(encodePacket(end))).toEqual({ message: end, metadata: undefined })
  })

  test('in X Layer’s form has a magic byte, an envelope and the feed’s numbers', () => {
    const packet = encodePacket(index0)
    expect(packet[0]).toBe(0x1e)
    const sent = JSON.parse(encodePacket(index0, 'plain').toString())
    expect(Object.keys(sent)).toEqual([
      'payload_id',
      'index',
      'target_index',
      'base',
      'diff',
      'metadata',
    ])
    expect(sent).toMatchObject({ index: 0, target_index: 0, metadata: { block_number: 45951504 } })
    expect(sent.base.block_number).toBe('0x2bd2a10')
    expect(sent.diff.withdrawals).toEqual([])
  })

  test('is sent as text if it is JSON, and as binary otherwise', () => {
    expect(JSON.parse(String(socketData(encodePacket(index3, 'plain'))))).toEqual(json3())
    const packet = encodePacket(index3)
    expect(socketData(packet)).toBe(packet)
  })

  test('leaves out fields that a fork or an index lacks', () => {
    const before = { ...index3, delta: { ...index3.delta, blobGasUsed: undefined } }
    const sent = JSON.parse(encodePacket(before, 'plain').toString())
    expect(Object.hasOwn(sent, 'base')).toBe(false)
    expect(Object.hasOwn(sent.diff, 'blob_gas_used')).toBe(false)
  })

  const zeros = `0x${'00'.repeat(32)}`
  const absent: [field: string, name: keyof Flashblock['delta'], value: unknown][] = [
    ['state_root', 'stateRoot', zeros],
    ['block_hash', 'blockHash', zeros],
    ['withdrawals_root', 'withdrawalsRoot', zeros],
    ['withdrawals_root', 'withdrawalsRoot', undefined],
    ['withdrawals_root', 'withdrawalsRoot', null],
  ]
  test.each(absent)('has no %s where it is not stated: %s from %s', (field, name, value) => {
    const message = { ...index3, delta: { ...index3.delta, [name]: undefined } }
    expect(decodePacket(withField(`diff.${field}`, value))).toMatchObject({ message })
    expect(JSON.parse(encodePacket(message, 'plain').toString()).diff[field]).toBe(zeros)
  })

  test('has a provisional post-exec transaction outside of its transactions', () => {
    const raw = '0x7dcd018203e8c8c401821388c20301'
    const delta = { ...index3.delta, postExec: hexToBytes(raw) }
    const packet = withField('diff.post_exec_tx', raw)
    expect(decodePacket(packet)).toMatchObject({ message: { ...index3, delta } })
  })

  test('keeps zeros of other fields as they are', () => {
    const packet = withField('diff.receipts_root', zeros)
    const delta = { ...index3.delta, receiptsRoot: byte(0) }
    expect(decodePacket(packet)).toMatchObject({ message: { delta } })
  })

  test.each([
    ['receipts', {}],
    ['receipts', null],
    ['new_account_balances', { '0x01': '0x1' }],
    ['access_list', '0xc0'],
    ['access_list', 'no list'],
  ])('is unchanged by the metadata %s %j', (key, value) => {
    expect(decodePacket(withField(`metadata.${key}`, value))).toMatchObject({ message: index3 })
  })

  test('of the sibling variant of the envelope is ignored', () => {
    expect(decodePacket(text({ OpBuiltPayload: {} }))).toHaveProperty('ignore')
  })

  test('may have null for an absent field, and unknown keys are ignored', () => {
    const object = { ...json3(), base: null, version: 1, ['constructor']: {}, metadata: null }
    expect(decodePacket(text(object))).toMatchObject({
      message: { ...index3, blockNumber: undefined },
    })
  })
})

describe('a packet is refused, with its field named, for', () => {
  const cases: [name: string, packet: Uint8Array, reason: RegExp][] = [
    ['nothing', Buffer.of(), /^empty/],
    ['white space', Buffer.from(' \n'), /^empty/],
    ['an array', text([]), /^brotli/],
    ['brotli of an array', brotliCompressSync(text([])), /^message/],
    ['the magic byte alone', Buffer.of(0x1e), /^brotli/],
    ['JSON that breaks off', Buffer.from('{"payload_id":'), /^json/],
    ['bytes after the JSON', Buffer.from('{"payload_id":"0x03a1b2c3d4e5f607"} x'), /^json/],
    ['invalid UTF-8', Buffer.concat([Buffer.from('{"a":"'), Buffer.of(0xff)]), /^utf8/],
    ['envelope around null', text(envelope(null)), /^envelope: expected an object, got null/],
    ['envelope inside the envelope', text(envelope(envelope({}))), /^payload_id/],
    ['two keys beside each other', text({ ...envelope({}), x: 1 }), /^payload_id/],
    ['__proto__', Buffer.from('{"__proto__":{"payload_id":"0x03a1b2c3d4e5f607"}}'), /^payload_id/],
    ['payload_id of 7 bytes', withField('payload_id', '0x03a1b2c3d4e5f6'), /^payload_id.*8 bytes/],
    ['payload_id as a number', withField('payload_id', 3), /^payload_id/],
    ['index in hex', withField('index', '0x3'), /^index.*got 0x3/],
    [
      'index beyond a double',
      Buffer.from(`{"payload_id":"0x03a1b2c3d4e5f607","index":1e999}`),
      /^index/,
    ],
    ['index above the limit', withField('index', MAX_INDEX + 1), /^index/],
    ['fraction', withField('index', 1.5), /^index/],
    ['target_index in hex', withField('target_index', '0x5'), /^target_index/],
    ['index 0 without base', withField('base', undefined, index0), /^base: expected an object/],
    ['base above index 0', text({ ...flashblockJson(index0), index: 2 }), /^base: expected none/],
    ['no diff', withField('diff', undefined), /^diff/],
    ['diff without index', withField('index', undefined), /^index/],
    ['decimal quantity', withField('base.block_number', '12', index0), /^base.block_number/],
    ['wide quantity', withField('base.gas_limit', `0x1${'0'.repeat(16)}`, index0), /64 bits/],
    ['no digits', withField('diff.gas_used', '0x'), /^diff.gas_used/],
    [
      'hash of 33 bytes',
      withField('diff.block_hash', `0x${'0'.repeat(66)}`),
      /^diff.block_hash.*33/,
    ],
    ['no hex digit', withField('diff.block_hash', `0x${'g'.repeat(64)}`), /^diff.block_hash/],
    ['transactions no array', withField('diff.transactions', {}), /^diff.transactions/],
    ['half a byte', withField('diff.transactions', ['0x7e1']), /^diff.transactions\[0\]/],
    [
      'too many transactions',
      withField('diff.transactions', new Array(MAX_TRANSACTIONS + 1).fill('0x')),
      /^diff.transactions: expected at most/,
    ],
    ['a transaction without bytes', withField('diff.transactions', ['0x']), /\[0\].*no bytes/],
    ['a withdrawal', withField('diff.withdrawals', [{}]), /^diff.withdrawals/],
    ['height in hex', withField('metadata.block_number', '0x1'), /^metadata.block_number/],
    ['heights differ', withField('metadata.block_number', 7, index0), /^metadata.block_number/],
  ]
  test.each(cases)('%s', (_, packet, reason) => {
    const decoded = decodePacket(packet)
    expect('refuse' in decoded ? decoded.refuse : decoded).toMatch(reason)
  })

  test('too much data, compressed or not', () => {
    const bomb = Buffer.concat([Buffer.of(0x1e), brotliCompressSync(Buffer.alloc(1 << 20))])
    const expected = { refuse: expect.stringMatching(/^too-large/), field: 'too-large' }
    const bounds = { ...PACKET_BOUNDS, bytes: 1 << 16 }
    expect(decodePacket(bomb, bounds)).toEqual(expected)
    expect(decodePacket(Buffer.alloc(1 << 17), bounds)).toEqual(expected)
  })

  test('a field of any length, in one short line', () => {
    const decoded = decodePacket(withField('index', `${'\n'.repeat(9)}${'x'.repeat(9999)}`))
    expect('refuse' in decoded && decoded.refuse).toMatch(/^[^\n]{1,120}$/)
  })
})

const bytesOf = (size: number) => fc.uint8Array({ minLength: size, maxLength: size })
const uint = (bits: number) => fc.bigInt({ min: 0n, max: (1n << BigInt(bits)) - 1n })
/** A hash of zeros counts as absent. */
const hashes = fc.option(
  bytesOf(32).filter((hash) => hash.some((one) => one !== 0)),
  { nil: undefined },
)
const flashblocks: fc.Arbitrary<Flashblock> = fc
  .record({
    payloadId: bytesOf(8).map((id) => `0x${Buffer.from(id).toString('hex')}`),
    index: fc.nat({ max: 20 }),
    targetIndex: fc.nat({ max: 20 }),
    base: fc.record({
      parentBeaconBlockRoot: bytesOf(32),
      parentHash: bytesOf(32),
      feeRecipient: bytesOf(20),
      prevRandao: bytesOf(32),
      blockNumber: uint(40),
      gasLimit: uint(64),
      timestamp: uint(64),
      extraData: fc.uint8Array({ maxLength: 32 }),
      baseFeePerGas: uint(256),
    }),
    delta: fc.record({
      stateRoot: hashes,
      receiptsRoot: bytesOf(32),
      logsBloom: bytesOf(256),
      gasUsed: uint(64),
      blockHash: hashes,
      transactions: fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { maxLength: 5 }),
      withdrawalsRoot: hashes,
      blobGasUsed: fc.option(uint(64), { nil: undefined }),
    }),
  })
  .map((flashblock) => ({
    ...flashblock,
    type: 'flashblock',
    base: flashblock.index === 0 ? flashblock.base : undefined,
    blockNumber: flashblock.base.blockNumber,
  }))

describe('any packet', () => {
  test.each<WireForm>(WIRE_FORMS)('decodes to what was encoded in the form %s', (form) => {
    fc.assert(
      fc.property(flashblocks, (flashblock) => {
        const decoded = decodePacket(encodePacket(flashblock, form))
        const message = form === 'subblocks' ? subblockOf(flashblock) : flashblock
        expect(decoded).toMatchObject({ message })
      }),
      { numRuns: 50 },
    )
  })

  test('of random bytes gives a message or a reason', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (bytes, isFramed) => {
        const decoded = decodePacket(isFramed ? Buffer.concat([Buffer.of(0x1e), bytes]) : bytes)
        expect(decoded).toBeTypeOf('object')
      }),
    )
  })

  test('with any JSON value in any field gives a message or a reason', () => {
    const paths = ['payload_id', 'index', 'base', 'diff', 'diff.transactions', 'diff.logs_bloom']
    fc.assert(
      fc.property(fc.constantFrom(...paths), fc.jsonValue(), (path, value) => {
        expect(decodePacket(withField(path, value))).toBeTypeOf('object')
      }),
    )
  })
})

describe('decode-feed', () => {
  const request = (packet: Uint8Array) =>
    JSON.parse(
      responseLine(JSON.stringify({ id: 7, base64: Buffer.from(packet).toString('base64') })),
    )
  test('responds to each line with one line', () => {
    expect(request(encodePacket(end))).toEqual({
      id: 7,
      message: { kind: 'end', payload_id: end.payloadId },
    })
    expect(request(Buffer.of())).toEqual({ id: 7, refuse: expect.stringMatching(/^empty/) })
    expect(request(text({ OpBuiltPayload: {} }))).toEqual({ id: 7, message: { kind: 'skip' } })
  })
  test.each(['x', '7', '{"id":1}', 'null'])('continues after the line %s', (line) => {
    expect(JSON.parse(responseLine(line))).toHaveProperty('refuse')
  })
})

const corpus = join(process.env['CONFORMANCE_DIR'] ?? '../shared/conformance', 'flashblocks/corpus')
const hasCorpus = existsSync(join(corpus, 'index.json'))
if (!hasCorpus) console.warn(`skipped: the feed corpus is not at ${corpus}`)
type Entry = { file: string; expect: string; layer?: string; value?: string; why: string }

describe.skipIf(!hasCorpus)('an entry of the feed corpus', () => {
  const { values, messages } = hasCorpus
    ? (JSON.parse(readFileSync(join(corpus, 'index.json'), 'utf8')) as {
        values: Record<string, unknown>
        messages: Entry[]
      })
    : { values: {}, messages: [] }
  test.each(messages)('$file: $why', (entry) => {
    const base64 = readFileSync(join(corpus, entry.file)).toString('base64')
    const response = JSON.parse(responseLine(JSON.stringify({ id: 1, base64 })))
    if (entry.expect === 'survive' || entry.layer === 'content') expect(response.id).toBe(1)
    else if (entry.expect === 'refuse') expect(response.refuse).toBeTypeOf('string')
    else if (entry.expect === 'ignore') expect(response.message).toEqual({ kind: 'skip' })
    else expect(response.message).toEqual(values[entry.value!])
  })
})
