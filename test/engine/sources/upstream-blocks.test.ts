/** Blocks of upstreams must match their hash in every form, or are refused. */

import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { orderedRoot } from '../../../engine/primitives/ordered-root.ts'
import type { Transaction } from '../../../engine/primitives/transaction.ts'
import {
  makeDeposit,
  signTransaction,
  type UnsignedTransaction,
} from '../../../engine/primitives/transaction-codec.ts'
import { hashOf } from '../../../engine/sources/upstream/block-json.ts'
import { createBlockReader, upstreamBlockOf } from '../../../engine/sources/upstream/blocks.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { conformance, isAbsent } from '../../fixtures/blocks.ts'
import { fakeUpstream, type Handler, madeBlock } from '../../fixtures/upstream.ts'

const KEY = new Uint8Array(32).fill(7)
const hash = (byte: number): Bytes => new Uint8Array(32).fill(byte)
const address = (byte: number): Bytes => new Uint8Array(20).fill(byte)
const TRANSFER: Transaction = signTransaction(
  {
    type: 2,
    chainId: 196n,
    nonce: 3n,
    to: address(1),
    value: 5n,
    gasLimit: 21_000n,
    input: new Uint8Array(0),
    accessList: [],
    maxFeePerGas: 9n,
    maxPriorityFeePerGas: 1n,
  },
  KEY,
)
const deposit = (fields: Partial<Parameters<typeof makeDeposit>[0]> = {}) =>
  makeDeposit({
    sourceHash: hash(1),
    from: address(2),
    to: address(3),
    mint: 0n,
    value: 0n,
    gasLimit: 1_000_000n,
    isSystemTransaction: false,
    input: hexToBytes('0x0102'),
    ...fields,
  })

const read = (handler: Handler, number = 7) => {
  const upstream = fakeUpstream(handler)
  const block = createBlockReader(upstream)
    .byNumber(number, 1)
    .then((blocks) => blocks[0])
  return { block, methods: () => upstream.calls.map(({ method }) => method) }
}
/** Makes an upstream that has only the block. */
const only =
  (json: unknown): Handler =>
  (method) =>
    method === 'eth_getBlockByNumber' ? json : undefined

describe('recorded blocks', () => {
  const file = 'op-blocks/op-mainnet-blocks.json.gz'
  test.skipIf(isAbsent(file))(
    'of OP mainnet, Granite to Jovian, decode to their raw transactions',
    async () => {
      const recorded = JSON.parse(gunzipSync(readFileSync(conformance(file))).toString()) as {
        readonly number: string
        readonly hash: string
        readonly rawTransactions: readonly string[]
      }[]
      expect(recorded.length).toBe(8)
      for (const json of recorded) {
        const { block, methods } = read(only(json), Number(json.number))
        const found = await block
        expect(found?.hash).toBe(json.hash)
        expect(found?.transactions.map(bytesToHex)).toEqual(json.rawTransactions)
        expect(methods()).toEqual(['eth_getBlockByNumber'])
      }
    },
  )
})

describe('a deposit in the JSON of any client gives the right block:', () => {
  const cases: [client: string, made: ReturnType<typeof deposit>, shape: object][] = [
    [
      'op-reth: mint 0, no isSystemTx',
      deposit(),
      { mint: '0x0', isSystemTx: undefined, yParity: '0x0' },
    ],
    ['op-geth: neither mint nor isSystemTx', deposit(), { mint: undefined, isSystemTx: undefined }],
    ['op-geth: null for both', deposit(), { mint: null, isSystemTx: null }],
    ['op-geth: a system transaction', deposit({ isSystemTransaction: true }), { isSystemTx: true }],
    [
      'op-alloy: isSystemTx as a quantity',
      deposit({ isSystemTransaction: true }),
      { isSystemTx: '0x1' },
    ],
    ['op-alloy: isSystemTx as a quantity of 0', deposit(), { isSystemTx: '0x0' }],
    ['a creation that mints', deposit({ mint: 10n ** 24n, to: undefined }), { to: undefined }],
    ['the field data instead of input', deposit(), { input: undefined, data: '0x0102' }],
  ]
  test.each(cases)('%s', async (_, made, shape) => {
    const { json, hash, raws } = madeBlock([made, TRANSFER])
    const [first, ...others] = json.transactions
    const { block, methods } = read(
      only({ ...json, transactions: [{ ...first, ...shape }, ...others] }),
    )
    expect(await block).toMatchObject({ hash, transactions: raws })
    expect(methods()).toEqual(['eth_getBlockByNumber'])
  })
})

describe('a block that its JSON does not reproduce', () => {
  const { json, raw, raws, hash: blockHash } = madeBlock([deposit({ mint: 5n }), TRANSFER])
  /** Without the mint the deposit has another hash. */
  const [first, second] = json.transactions
  const spoilt = { ...json, transactions: [{ ...first, mint: undefined }, second] }
  const hashes = { ...json, transactions: json.transactions.map((one) => one['hash']) }

  const respond =
    (block: unknown, others: Readonly<Record<string, unknown>>): Handler =>
    (method, [about]) => {
      if (method === 'eth_getBlockByNumber') return block
      if (method === 'eth_getRawTransactionByHash' && others[method] === 'right')
        return bytesToHex(raws[json.transactions.findIndex((one) => one['hash'] === about)]!)
      return others[method]
    }

  test('is fetched as a raw block', async () => {
    const { block, methods } = read(respond(spoilt, { debug_getRawBlock: raw }))
    expect(await block).toMatchObject({ hash: blockHash, transactions: raws })
    expect(methods()).toEqual(['eth_getBlockByNumber', 'debug_getRawBlock'])
  })
  test('is completed with the raw transaction that differs', async () => {
    const { block, methods } = read(respond(spoilt, { eth_getRawTransactionByHash: 'right' }))
    expect(await block).toMatchObject({ hash: blockHash, transactions: raws })
    expect(methods()).toEqual([
      'eth_getBlockByNumber',
      'debug_getRawBlock',
      'eth_getRawTransactionByHash',
    ])
  })
  test('is completed with every raw transaction when the JSON has hashes only', async () => {
    const { block, methods } = read(respond(hashes, { eth_getRawTransactionByHash: 'right' }))
    expect(await block).toMatchObject({ hash: blockHash, transactions: raws })
    expect(methods().filter((one) => one === 'eth_getRawTransactionByHash').length).toBe(2)
  })
  test('is not requested in raw form again after the upstream refused that', async () => {
    const upstream = fakeUpstream(respond(spoilt, { eth_getRawTransactionByHash: 'right' }))
    const reader = createBlockReader(upstream)
    await reader.byNumber(7, 1)
    await reader.byNumber(7, 1)
    expect(upstream.calls.filter(({ method }) => method === 'debug_getRawBlock').length).toBe(1)
  })

  const other = madeBlock([TRANSFER], { gasUsed: 1n })
  const wrong: [what: string, handler: Handler, message: string][] = [
    ['neither a raw block nor a raw transaction', respond(spoilt, {}), 'and transaction 0x'],
    [
      'the bytes of another block',
      respond(spoilt, { debug_getRawBlock: other.raw }),
      `a block that hashes to ${blockHash}`,
    ],
    [
      'invalid bytes of the block',
      respond(spoilt, { debug_getRawBlock: '0x1234' }),
      'block 7: rlp',
    ],
    [
      'a number for the bytes of the block',
      respond(spoilt, { debug_getRawBlock: 7 }),
      'debug_getRawBlock: expected',
    ],
    [
      'the bytes of another transaction',
      respond(spoilt, { eth_getRawTransactionByHash: '0x02' }),
      'have another hash',
    ],
    [
      'null for the bytes of a transaction',
      respond(spoilt, { eth_getRawTransactionByHash: null }),
      'cannot be had as bytes',
    ],
    [
      'a changed header field',
      respond({ ...json, gasUsed: '0x1' }, {}),
      'the fields of its header give the hash',
    ],
    ['a header without a field', respond({ ...json, gasUsed: undefined }, {}), 'gasUsed: expected'],
    [
      'a header field without the one before it',
      respond({ ...json, blobGasUsed: null }, {}),
      'needs blobGasUsed',
    ],
    [
      'transactions in another order',
      respond({ ...json, transactions: [second, first] }, {}),
      'transactions: expected a list with the root',
    ],
    [
      'a missing transaction',
      respond({ ...json, transactions: [first] }, {}),
      'transactions: expected a list with the root',
    ],
    [
      'a block of another height',
      respond(madeBlock([], { number: 8n }).json, {}),
      'asked for block 7, it gave block 8',
    ],
    ['no block', respond('block', {}), 'block: expected an object'],
    [
      'no transactions',
      respond({ ...json, transactions: null }, {}),
      'transactions: expected an array',
    ],
    [
      'a block hash that is too short',
      respond({ ...json, hash: '0x12' }, {}),
      'hash: expected 0x and 32 bytes',
    ],
  ]
  test.each(wrong)('makes the upstream wrong if it gives this: %s', async (_, handler, message) => {
    const { block } = read(handler)
    const error = await block.catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(UpstreamError)
    expect((error as UpstreamError).kind).toBe('wrong')
    expect((error as UpstreamError).message).toContain(message)
    expect((error as UpstreamError).message).toContain('http://fake: block 7'.slice(0, 12))
  })
})

describe('a transaction of an unknown type', () => {
  const strange = { ...TRANSFER, raw: hexToBytes('0x7bc10a') } as Transaction
  const { hash: strangeHash, raw, raws } = madeBlock([deposit(), strange])
  const { json } = madeBlock([deposit(), TRANSFER])
  const name = hashOf(strange.raw)
  const [first, second] = json.transactions
  const strangeJson = {
    ...json,
    hash: strangeHash,
    transactionsRoot: bytesToHex(orderedRoot(raws)),
    transactions: [first, { ...second, hash: name, type: '0x7b' }],
  }
  const given =
    (others: Readonly<Record<string, unknown>>): Handler =>
    (method) =>
      method === 'eth_getBlockByNumber' ? strangeJson : others[method]

  test.each([
    ['a raw block', { debug_getRawBlock: raw }],
    ['a raw transaction', { eth_getRawTransactionByHash: bytesToHex(strange.raw) }],
  ])('leaves the block complete when its bytes come in %s', async (_, others) => {
    expect(await read(given(others)).block).toMatchObject({
      hash: strangeHash,
      transactions: raws,
      unknown: { type: 0x7b, at: 1, isClaimed: false },
    })
  })
  test('is reported as a claim when the upstream has no bytes of it', async () => {
    expect(await read(given({})).block).toMatchObject({
      hash: strangeHash,
      transactions: [],
      unknown: { type: 0x7b, at: 1, isClaimed: true },
    })
  })
  test('is not assumed when the request for its bytes fails', async () => {
    const failing: Handler = (method) => {
      if (method === 'eth_getRawTransactionByHash') throw new UpstreamError('silent', 'no answer')
      return given({})(method, [])
    }
    await expect(read(failing).block).rejects.toThrow('no answer')
  })
})

describe('a range of blocks', () => {
  const blocks = [7n, 8n, 9n].map((number) => madeBlock([TRANSFER], { number }))
  const chain =
    (fail: Readonly<Record<string, () => unknown>> = {}): Handler =>
    (_, [number]) =>
      fail[number as string]?.() ?? blocks[Number(number) - 7]?.json ?? null
  const numbers = async (handler: Handler, count = 5) =>
    (await createBlockReader(fakeUpstream(handler)).byNumber(7, count)).map(({ number }) => number)
  const broken = (kind: UpstreamError['kind']) => () => {
    throw new UpstreamError(kind, 'as the test wants it')
  }

  test('ends at the first missing block', async () => {
    expect(await numbers(chain())).toEqual([7, 8, 9])
    expect(await numbers(() => null)).toEqual([])
  })
  test('ends before a block that fails, and fails if that is the first', async () => {
    expect(await numbers(chain({ '0x9': broken('broken') }))).toEqual([7, 8])
    await expect(numbers(chain({ '0x7': broken('silent') }))).rejects.toMatchObject({
      kind: 'silent',
    })
  })
  test('is halved while its response is too long', async () => {
    const requested: number[] = []
    const upstream = fakeUpstream(chain())
    const reader = createBlockReader({
      ...upstream,
      async batch(calls) {
        requested.push(calls.length)
        if (calls.length > 1) throw new UpstreamError('large', 'too long')
        return upstream.batch(calls)
      },
    })
    expect((await reader.byNumber(7, 5)).map(({ number }) => number)).toEqual([7])
    expect(requested).toEqual([5, 2, 1])
  })
})

test('any valid block survives its JSON form', () => {
  const uint = (bits: number) => fc.bigInt({ min: 0n, max: 2n ** BigInt(bits) - 1n })
  const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
  const to = fc.option(bytes(20), { nil: undefined })
  const base = {
    nonce: uint(64),
    value: uint(256),
    gasLimit: uint(64),
    input: fc.uint8Array({ maxLength: 40 }),
  }
  const accessList = fc.array(
    fc.record({ address: bytes(20), storageKeys: fc.array(bytes(32), { maxLength: 2 }) }),
    { maxLength: 2 },
  )
  const dynamic = {
    ...base,
    chainId: uint(256),
    accessList,
    maxFeePerGas: uint(256),
    maxPriorityFeePerGas: uint(256),
  }
  const authorization = fc.record({
    chainId: uint(256),
    address: bytes(20),
    nonce: uint(64),
    yParity: uint(1),
    r: uint(256),
    s: uint(256),
  })
  const unsigned = fc.oneof(
    fc.record({
      ...base,
      type: fc.constant(0),
      to,
      gasPrice: uint(256),
      chainId: fc.option(uint(32), { nil: undefined }),
    }),
    fc.record({
      ...base,
      type: fc.constant(1),
      to,
      gasPrice: uint(256),
      chainId: uint(256),
      accessList,
    }),
    fc.record({ ...dynamic, type: fc.constant(2), to }),
    fc.record({
      ...dynamic,
      type: fc.constant(3),
      to: bytes(20),
      maxFeePerBlobGas: uint(256),
      blobVersionedHashes: fc.array(bytes(32), { maxLength: 2 }),
    }),
    fc.record({
      ...dynamic,
      type: fc.constant(4),
      to: bytes(20),
      authorizationList: fc.array(authorization, { maxLength: 2 }),
    }),
  )
  const deposits = fc.record({
    sourceHash: bytes(32),
    from: bytes(20),
    to,
    mint: uint(128),
    value: uint(256),
    gasLimit: uint(64),
    isSystemTransaction: fc.boolean(),
    input: fc.uint8Array({ maxLength: 40 }),
  })
  const transactions = fc.array(
    fc.oneof(
      deposits.map((one): Transaction => makeDeposit(one)),
      unsigned.map((one): Transaction => signTransaction(one as UnsignedTransaction, KEY)),
    ),
    { maxLength: 6 },
  )
  const header = fc.record({
    number: uint(53),
    timestamp: uint(53),
    gasUsed: uint(64),
    baseFeePerGas: uint(256),
    extraData: fc.uint8Array({ maxLength: 40 }),
    stateRoot: bytes(32),
    difficulty: uint(256),
  })
  return fc.assert(
    fc.asyncProperty(transactions, header, async (list, fields) => {
      const made = madeBlock(list, fields)
      const { block, methods } = read(only(made.json), Number(fields.number))
      const found = (await block)!
      expect(found.header).toEqual(made.header)
      expect(found.hash).toBe(made.hash)
      expect(found.transactions).toEqual(made.raws)
      expect(methods()).toEqual(['eth_getBlockByNumber'])
      const upstreamBlock = upstreamBlockOf(found)
      expect(bytesToHex(upstreamBlock.hash!)).toBe(made.hash)
      expect(upstreamBlock.transactions).toEqual(made.raws)
    }),
    { numRuns: 150 },
  )
})

test('any changed JSON gives the right block or an UpstreamError', () => {
  const { json } = madeBlock([deposit(), TRANSFER])
  const keys = [...Object.keys(json), ...Object.keys(json.transactions[1]!)]
  return fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...keys),
      fc.jsonValue(),
      fc.nat(1),
      async (key, value, at) => {
        const transactions = json.transactions.map((one, index) =>
          index === at ? { ...one, [key]: value } : one,
        )
        const changed = { ...json, transactions, ...(key in json ? { [key]: value } : {}) }
        const error = await read(only(changed)).block.then(
          (block) => {
            // Fields outside of the block may have any value.
            expect(block?.hash).toBe(json['hash'])
            return undefined
          },
          (thrown: unknown) => thrown,
        )
        if (error !== undefined) expect(error).toBeInstanceOf(UpstreamError)
      },
    ),
    { numRuns: 500 },
  )
})
