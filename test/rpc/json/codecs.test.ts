import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { logQuery } from '../../../rpc/events/log-filter.ts'
import {
  address,
  blockId,
  blockNumber,
  bytes,
  hash,
  index,
  transactionCall,
  uint64,
  uint256,
} from '../../../rpc/json/codecs.ts'
import { array, boolean, type Codec, SchemaError } from '../../../rpc/json/schema.ts'
import { blockOverride, stateOverride } from '../../../rpc/methods/shared/overrides.ts'

const H = `0x${'11'.repeat(32)}`
const A = `0x${'22'.repeat(20)}`

/**
 * Measures the minimum of five runs, because expensive work is slow each time, but other processes
 * are not.
 */
function minOf(work: () => void): number {
  const times = Array.from({ length: 5 }, () => {
    const started = performance.now()
    work()
    return performance.now() - started
  })
  return Math.min(...times)
}

/** Gives a codec's value for a wire value, or its error. */
function said(codec: Codec<unknown>, wire: unknown): unknown {
  try {
    return codec.decode(wire, DEFAULT_LIMITS)
  } catch (error) {
    if (error instanceof SchemaError) return error.describe()
    throw error
  }
}
const json = (problem: string, type: string) =>
  `json: cannot unmarshal ${problem} into Go value of type ${type}`

const flashblockId = (more: object = {}) => {
  const full = { number: '0x10', index: '0x3', ...more }
  const given = Object.entries(full).filter(([, value]) => value !== undefined)
  return { flashblock: Object.fromEntries(given) }
}
const missing = (key: string) => `missing required field '${key}' for flashblock`
const TWO = 'cannot specify both a flashblock and a block, choose one or the other'

describe('an invalid value', () => {
  const cases: [name: string, codec: Codec<unknown>, wire: unknown, complaint: string][] = [
    ['address null', address, null, json('non-string', 'common.Address')],
    ['address number', address, 5, json('non-string', 'common.Address')],
    ['address 0x', address, '0x', 'hex string has length 0, want 40 for common.Address'],
    ['address empty', address, '', 'hex string has length 0, want 40 for common.Address'],
    [
      'address of 19 bytes',
      address,
      `0x${'11'.repeat(19)}`,
      'hex string has length 38, want 40 for common.Address',
    ],
    [
      'address of 65 digits',
      address,
      `0x${'1'.repeat(65)}`,
      json('hex string of odd length', 'common.Address'),
    ],
    [
      'address of 39 digits',
      address,
      `0x${'1'.repeat(39)}`,
      json('hex string of odd length', 'common.Address'),
    ],
    [
      'address not hex',
      address,
      `0x${'zz'.repeat(20)}`,
      json('invalid hex string', 'common.Address'),
    ],
    [
      'address without 0x',
      address,
      '11'.repeat(20),
      json('hex string without 0x prefix', 'common.Address'),
    ],
    ['hash short', hash, '0x1234', 'hex string has length 4, want 64 for common.Hash'],
    ['bytes odd', bytes, '0x123', json('hex string of odd length', 'hexutil.Bytes')],
    ['bytes not hex', bytes, '0xzz', json('invalid hex string', 'hexutil.Bytes')],
    ['bytes a number', bytes, 1, json('non-string', 'hexutil.Bytes')],
    ['quantity 0x', uint256, '0x', json('hex string "0x"', '*hexutil.Big')],
    ['quantity empty', uint256, '', json('empty hex string', '*hexutil.Big')],
    [
      'quantity with leading zeros',
      uint256,
      '0x0123',
      json('hex number with leading zero digits', '*hexutil.Big'),
    ],
    ['quantity 0x00', uint256, '0x00', json('hex number with leading zero digits', '*hexutil.Big')],
    ['quantity negative', uint256, '-0x1', json('hex string without 0x prefix', '*hexutil.Big')],
    ['quantity decimal', uint256, '1e3', json('hex string without 0x prefix', '*hexutil.Big')],
    [
      'quantity with a space',
      uint256,
      ' 0x1',
      json('hex string without 0x prefix', '*hexutil.Big'),
    ],
    ['quantity true', uint256, true, json('non-string', '*hexutil.Big')],
    [
      'quantity of 65 digits',
      uint256,
      `0x1${'0'.repeat(64)}`,
      json('hex number > 256 bits', '*hexutil.Big'),
    ],
    ['quantity not hex', uint64, '0xg', json('invalid hex string', 'hexutil.Uint64')],
    [
      'quantity of 17 digits',
      uint64,
      '0x10000000000000000',
      json('hex number > 64 bits', 'hexutil.Uint64'),
    ],
    ['index 0x00', index, '0x00', json('hex number with leading zero digits', 'hexutil.Uint')],
    ['block foo', blockId, 'foo', 'hex string without 0x prefix'],
    ['block empty', blockId, '', 'empty hex string'],
    ['block number', blockId, 5, json('number', 'string')],
    ['block 0x', blockId, '0x', 'hex string "0x"'],
    ['block 0x01', blockId, '0x01', 'hex number with leading zero digits'],
    ['block 0xg', blockId, '0xg', 'invalid hex string'],
    ['block 2^64', blockId, '0x10000000000000000', 'hex number > 64 bits'],
    ['block 2^63', blockId, '0x8000000000000000', 'block number larger than int64'],
    ['block Latest', blockId, 'Latest', 'hex string without 0x prefix'],
    ['block constructor', blockId, 'constructor', 'hex string without 0x prefix'],
    ['block {}', blockId, {}, 'must specify either BlockHash or BlockNumber'],
    [
      'block of number and hash',
      blockId,
      { blockHash: H, blockNumber: '0x0' },
      'cannot specify both BlockHash and BlockNumber, choose one or the other',
    ],
    [
      'a flashblock id without its index',
      blockId,
      flashblockId({ index: undefined }),
      missing('index'),
    ],
    [
      'a flashblock id without its number',
      blockNumber,
      flashblockId({ number: undefined }),
      missing('number'),
    ],
    ['a flashblock id and a hash', blockId, { ...flashblockId(), blockHash: H }, TWO],
    [
      'a number instead of a flashblock id',
      blockNumber,
      { flashblock: 5 },
      json('number', 'flashblock'),
    ],
    [
      'a flashblock id with an unknown field',
      blockId,
      flashblockId({ idx: '0x1' }),
      'idx: unknown field, expected one of number, index, payloadId',
    ],
    [
      'a flashblock id with a negative number',
      blockId,
      flashblockId({ number: -1 }),
      'json: cannot unmarshal not an integer into Go struct field flashblock.number of type hexutil.Uint64',
    ],
    [
      'a flashblock id with a decimal text',
      blockNumber,
      flashblockId({ index: '12' }),
      'json: cannot unmarshal hex string without 0x prefix into Go struct field flashblock.index of type hexutil.Uint64',
    ],
    [
      'a flashblock id with a short payload id',
      blockId,
      flashblockId({ payloadId: '0x12' }),
      'payloadId: expected 0x and 16 hex digits',
    ],
    ['a number instead of a height', blockNumber, 5, 'hex string without 0x prefix'],
    ['a text instead of a flag', boolean, 'true', json('string', 'bool')],
    ['a text instead of a call', transactionCall, 'x', json('string', 'TransactionArgs')],
    [
      'call with bad data',
      transactionCall,
      { data: '0x1' },
      'json: cannot unmarshal hex string of odd length into Go struct field TransactionArgs.data of type hexutil.Bytes',
    ],
    [
      'call with bad value',
      transactionCall,
      { value: 1 },
      'json: cannot unmarshal non-string into Go struct field TransactionArgs.value of type *hexutil.Big',
    ],
    [
      'call with a bad recipient',
      transactionCall,
      { to: '0x12' },
      'to: hex string has length 2, want 40 for common.Address',
    ],
    [
      'call with a bad key',
      transactionCall,
      { accessList: [{ address: A, storageKeys: ['0x'] }] },
      'accessList.0.storageKeys.0: hex string has length 0, want 64 for common.Hash',
    ],
    [
      'call with an incomplete access list entry',
      transactionCall,
      { accessList: [{ address: A }] },
      "accessList.0: missing required field 'storageKeys' for AccessTuple",
    ],
    ['filter null', logQuery, null, json('null', 'filters.input')],
    [
      'filter of hash and range',
      logQuery,
      { blockHash: H, fromBlock: '0x0' },
      'cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other',
    ],
    ['filter of 5 topics', logQuery, { topics: [H, H, H, H, H] }, 'exceed max topics'],
    [
      'filter with a short topic',
      logQuery,
      { topics: ['0x12'] },
      'hex has invalid length 1 after decoding; expected 32 for topic',
    ],
    ['filter with a number as topic', logQuery, { topics: [5] }, 'invalid topic(s)'],
    [
      'filter of 1001 alternatives',
      logQuery,
      { topics: [Array(1001).fill(H)] },
      'exceed max topics',
    ],
    [
      'filter with a bad address',
      logQuery,
      { address: '0x12' },
      'invalid address: hex has invalid length 1 after decoding; expected 20 for address',
    ],
    [
      'filter with a number as address',
      logQuery,
      { address: [A, 5] },
      'non-string address at index 1',
    ],
    ['filter from foo', logQuery, { fromBlock: 'foo' }, 'hex string without 0x prefix'],
    [
      'override of no address',
      stateOverride,
      { '0x12': {} },
      '0x12: hex string has length 2, want 40 for common.Address',
    ],
    [
      'override of a short slot',
      stateOverride,
      { [A]: { state: { '0x1': H } } },
      `json: cannot unmarshal hex string of odd length into Go struct field StateOverride.${A}.state.0x1 of type common.Hash`,
    ],
    ['override that is a list', stateOverride, [], json('array', 'StateOverride')],
    [
      'override __proto__',
      stateOverride,
      JSON.parse('{"__proto__":{}}'),
      '__proto__: json: cannot unmarshal',
    ],
    ['too many items', array(uint64, 2), ['0x1', '0x1', '0x1'], 'more than 2 items'],
  ]
  test.each(cases)(
    'is refused with a text that clients know: %s',
    (_name, codec, wire, complaint) => {
      const complained = said(codec, wire)
      if (complaint.startsWith('__proto__'))
        expect(complained).toMatch(/hex string without 0x prefix/)
      else expect(complained).toBe(complaint)
    },
  )
  test('such as a filter of 200,000 addresses is refused before it is decoded', () => {
    const address = Array(200_000).fill(A)
    const minMs = minOf(() =>
      expect(() => logQuery.decode({ address }, DEFAULT_LIMITS)).toThrow(
        'exceed max addresses or topics per search position',
      ),
    )
    expect(minMs).toBeLessThan(50)
  })
  test('such as an override with too many accounts and slots is refused', () => {
    const slots = (count: number, from: number) =>
      Object.fromEntries(
        Array.from({ length: count }, (_, at) => [
          `0x${(from + at).toString(16).padStart(64, '0')}`,
          H,
        ]),
      )
    const other = `0x${'33'.repeat(20)}`
    const wire = { [A]: { stateDiff: slots(6_000, 0) }, [other]: { stateDiff: slots(6_000, 0) } }
    expect(said(stateOverride, wire)).toBe(
      'state override has 12002 accounts and slots, expected at most 10000',
    )
  })
  test('such as a number of five million digits is refused by its length', () => {
    const digits = `0x${'f'.repeat(5_000_000)}`
    const minMs = minOf(() => {
      expect(said(uint256, digits)).toMatch('> 256 bits')
      expect(said(address, digits)).toMatch('want 40')
    })
    expect(minMs).toBeLessThan(50)
  })
})

describe('an accepted value', () => {
  const cases: [name: string, codec: Codec<unknown>, wire: unknown, value: unknown][] = [
    ['0X', address, `0X${'Ab'.repeat(20)}`, new Uint8Array(20).fill(0xab)],
    ['zero', uint256, '0x0', 0n],
    ['64 digits', uint256, `0x${'f'.repeat(64)}`, 2n ** 256n - 1n],
    ['capital digits', uint64, '0xAB', 0xabn],
    ['no bytes', bytes, '0x', new Uint8Array(0)],
    ['a tag', blockId, 'safe', { tag: 'safe' }],
    ['a height', blockId, '0x7fffffffffffffff', { number: 2n ** 63n - 1n }],
    ['a hash', blockId, H, { hash: new Uint8Array(32).fill(0x11), requireCanonical: false }],
    [
      'a hash that must be canonical',
      blockId,
      { blockHash: H, requireCanonical: true },
      { hash: new Uint8Array(32).fill(0x11), requireCanonical: true },
    ],
    ['a height as an object', blockId, { blockNumber: '0x5', blockHash: null }, { number: 5n }],
    ['a flashblock id', blockNumber, flashblockId(), { flashblock: { number: 16n, index: 3 } }],
    [
      'a flashblock id of numbers with a payload id',
      blockId,
      flashblockId({ number: 16, index: 3, payloadId: '0x00112233445566FF' }),
      { flashblock: { number: 16n, index: 3, payloadId: '0x00112233445566ff' } },
    ],
    [
      'a flashblock id with a too large index',
      blockId,
      flashblockId({ index: '0xffffffffffffffff' }),
      { flashblock: { number: 16n, index: Number.MAX_SAFE_INTEGER } },
    ],
    ['an index above the safe integers', index, '0xffffffffffffffff', Number.MAX_SAFE_INTEGER],
    ['null as a call', transactionCall, null, {}],
    ['unknown fields', transactionCall, { foo: 1, gas: '0x5', to: null }, { gas: 5n }],
    ['a call with __proto__', transactionCall, JSON.parse('{"__proto__":{"gas":"0x5"}}'), {}],
    [
      'a filter with nulls',
      logQuery,
      { topics: null, address: null },
      { addresses: [], topics: [], blockHash: undefined, fromBlock: undefined, toBlock: undefined },
    ],
    [
      'a null among alternatives',
      logQuery,
      { topics: [null, [H, null], []] },
      {
        addresses: [],
        topics: [[], [], []],
        blockHash: undefined,
        fromBlock: undefined,
        toBlock: undefined,
      },
    ],
  ]
  test.each(cases)('is decoded: %s', (_name, codec, wire, value) => {
    expect(codec.decode(wire, DEFAULT_LIMITS)).toEqual(value)
  })
})

describe('a codec', () => {
  const anyBytes = fc.uint8Array({ maxLength: 200 })
  const word = fc.uint8Array({ minLength: 32, maxLength: 32 })
  const someAddress = fc.uint8Array({ minLength: 20, maxLength: 20 })
  const big = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })
  const small = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })
  const height = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n })
  const tag = fc.constantFrom('latest', 'pending', 'safe', 'finalized', 'earliest')
  const payloadId = fc
    .bigInt({ min: 0n, max: 2n ** 64n - 1n })
    .map((id) => `0x${id.toString(16).padStart(16, '0')}`)
  const flashblock = fc.record(
    { number: height, index: fc.nat(), payloadId },
    { requiredKeys: ['number', 'index'] },
  )
  const number = fc.oneof(
    fc.record({ tag }),
    fc.record({ number: height }),
    fc.record({ flashblock }),
  )
  const optional = { requiredKeys: [] as [] }
  const slots = fc.array(fc.tuple(word, word), { maxLength: 4 })
  const call = fc.record(
    {
      from: someAddress,
      to: someAddress,
      gas: small,
      gasPrice: big,
      value: big,
      nonce: small,
      input: anyBytes,
      accessList: fc.array(fc.record({ address: someAddress, storageKeys: fc.array(word) })),
      chainId: big,
      blobVersionedHashes: fc.array(word),
      authorizationList: fc.array(
        fc.record({
          chainId: big,
          address: someAddress,
          nonce: small,
          yParity: fc.bigInt({ min: 0n, max: 255n }),
          r: big,
          s: big,
        }),
      ),
    },
    optional,
  )
  const codecs: [name: string, codec: Codec<unknown>, values: fc.Arbitrary<unknown>][] = [
    ['bytes', bytes, anyBytes],
    ['hash', hash, word],
    ['address', address, someAddress],
    ['uint256', uint256, big],
    ['uint64', uint64, small],
    ['block number', blockNumber, number],
    ['block', blockId, fc.oneof(number, fc.record({ hash: word, requireCanonical: fc.boolean() }))],
    ['call', transactionCall, call],
    [
      'state override',
      stateOverride,
      fc.uniqueArray(
        fc.tuple(
          someAddress,
          fc.record({ nonce: small, code: anyBytes, balance: big, state: slots }, optional),
        ),
        { maxLength: 3, selector: ([who]) => bytesToHex(who) },
      ),
    ],
    [
      'block override',
      blockOverride,
      fc.record({ number: big, time: small, coinbase: someAddress, baseFee: big }, optional),
    ],
    [
      'filter',
      logQuery,
      fc.record({
        addresses: fc.array(someAddress),
        topics: fc.array(fc.array(word), { maxLength: 4 }),
        blockHash: fc.constant(undefined),
        fromBlock: number,
        toBlock: number,
      }),
    ],
  ]
  test.each(codecs)('decodes what it encoded to the same value: %s', (name, codec, values) => {
    fc.assert(
      fc.property(values, (value) => {
        const redecoded = codec.decode(
          JSON.parse(JSON.stringify(codec.encode(value))),
          DEFAULT_LIMITS,
        )
        // A slot named twice is one slot on the wire.
        if (name === 'state override') expect(codec.encode(redecoded)).toEqual(codec.encode(value))
        else expect(redecoded).toEqual(value)
      }),
      { numRuns: 50 },
    )
  })
  test.each(codecs)('decodes any input or explains why not: %s', (_name, codec) => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.stringMatching(/^0x[0-9a-f]*$/)), (wire) => {
        try {
          codec.decode(wire, DEFAULT_LIMITS)
        } catch (error) {
          if (!(error instanceof SchemaError)) throw error
          expect(error.describe()).not.toBe('')
        }
      }),
      { numRuns: 200 },
    )
  })
})
