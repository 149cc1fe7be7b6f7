/**
 * Roots of ordered and other tries, receipts, headers and blocks: recorded chains, other libraries,
 * properties.
 */
import { readFileSync } from 'node:fs'
import { createMPT } from '@ethereumjs/mpt'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import type { RlpBlock } from '../../../engine/primitives/block-codec.ts'
import { decodeBlock, decodeBlocks, encodeBlock } from '../../../engine/primitives/block-codec.ts'
import {
  decodeHeader,
  encodeHeader,
  type Header,
  hashHeader,
} from '../../../engine/primitives/header.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { EMPTY_OMMERS, EMPTY_ROOT, keccak256 } from '../../../engine/primitives/keccak.ts'
import { orderedRoot, orderedTrie } from '../../../engine/primitives/ordered-root.ts'
import type { L1Fee, Log, Receipt } from '../../../engine/primitives/receipt.ts'
import {
  bloomHas,
  bloomOf,
  decodeStoredReceipt,
  encodeReceipt,
  encodeStoredReceipt,
  orBloom,
  summariseStoredLogs,
} from '../../../engine/primitives/receipt-codec.ts'
import { encodeRlp, RlpError, rlpUint } from '../../../engine/primitives/rlp.ts'
import {
  decodeTransaction,
  encodeTransaction,
  transactionHash,
} from '../../../engine/primitives/transaction-codec.ts'
import { trieRoot } from '../../../engine/primitives/trie-root.ts'
import { decodeHeaderJson } from '../../../engine/sources/upstream/header-json.ts'
import { headerText } from '../../../rpc/json/json.ts'
import { conformance, headerOfJson, isAbsent, readBlocks } from '../../fixtures/blocks.ts'
import { bytesOf, uintOf } from '../../fixtures/references.ts'

const item = (index: number) => new Uint8Array(1 + (index % 50)).fill(index)

describe('a trie', () => {
  test('of a list has the root of @ethereumjs/mpt, at each length', async () => {
    const theirs = await createMPT()
    const ours = orderedTrie()
    expect(ours.root()).toEqual(EMPTY_ROOT)
    for (let index = 0; index < 300; index++) {
      await theirs.put(encodeRlp(rlpUint(index)), item(index))
      ours.append(item(index))
      expect(bytesToHex(ours.root())).toBe(bytesToHex(theirs.root()))
    }
  })
  test('of hashed keys has the root of @ethereumjs/mpt', async () => {
    const theirs = await createMPT({ useKeyHashing: true })
    const entries = []
    for (let index = 0; index < 200; index++) {
      const key = Uint8Array.of(index)
      await theirs.put(key, item(index))
      entries.unshift({ key: keccak256(key), value: item(index) })
    }
    expect(trieRoot(entries)).toEqual(theirs.root())
  })
  test('that grew and was cut has the root of one that was made at once', () => {
    const steps = fc.array(
      fc.record({
        retain: fc.nat({ max: 700 }),
        add: fc.nat({ max: 350 }),
        seed: fc.nat({ max: 3 }),
      }),
      { minLength: 1, maxLength: 5 },
    )
    fc.assert(
      fc.property(steps, (list) => {
        const trie = orderedTrie()
        let items: Uint8Array[] = []
        for (const { retain, add, seed } of list) {
          trie.truncate(retain)
          items = items.slice(0, retain)
          for (let count = 0; count < add; count++) {
            const next = Uint8Array.of(seed, ...item(items.length))
            trie.append(next)
            items.push(next)
          }
          const entries = items.map((value, index) => ({ key: encodeRlp(rlpUint(index)), value }))
          expect(trie.root()).toEqual(trieRoot(entries))
        }
      }),
      { numRuns: 30 },
    )
  })
  test('of 5000 items has the right root with keys of different lengths', () => {
    const items = Array.from({ length: 5000 }, (_, index) => item(index))
    const entries = items.map((value, index) => ({ key: encodeRlp(rlpUint(index)), value }))
    expect(orderedRoot(items)).toEqual(trieRoot(entries))
  })
  test('refuses a key that comes twice or is a prefix of another', () => {
    const entry = (...key: number[]) => ({ key: Uint8Array.from(key), value: item(1) })
    expect(() => trieRoot([entry(1, 2), entry(1, 2)])).toThrow(RangeError)
    expect(() => trieRoot([entry(1), entry(1, 2)])).toThrow(RangeError)
  })
})

const log: fc.Arbitrary<Log> = fc.record({
  address: bytesOf(20),
  topics: fc.array(bytesOf(32), { maxLength: 4 }),
  data: fc.uint8Array({ maxLength: 100 }),
})
const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined })
/** Removes the keys that are undefined, like decoding does. */
function stripped<Value extends object>(
  value: fc.Arbitrary<{ [Key in keyof Value]: Value[Key] | undefined }>,
): fc.Arbitrary<Value> {
  return value.map((all) => {
    const entries = Object.entries(all).filter(
      ([key, field]) => field !== undefined || key === 'contractAddress',
    )
    return Object.fromEntries(entries) as Value
  })
}
const l1: fc.Arbitrary<L1Fee> = stripped<L1Fee>(
  fc.record({
    l1GasPrice: uintOf(256),
    l1GasUsed: uintOf(64),
    l1Fee: uintOf(256),
    l1BaseFeeScalar: optional(uintOf(32)),
    l1BlobBaseFee: optional(uintOf(256)),
    l1BlobBaseFeeScalar: optional(uintOf(32)),
    l1FeeScalar: optional(fc.constantFrom('0.684', '0', '')),
    operatorFeeScalar: optional(uintOf(32)),
    operatorFeeConstant: optional(uintOf(64)),
    daFootprintGasScalar: optional(uintOf(16)),
    blobGasUsed: optional(uintOf(64)),
  }),
)
const receipts: fc.Arbitrary<Receipt> = fc.array(log, { maxLength: 4 }).chain((logs) =>
  stripped<Receipt>(
    fc.record({
      type: fc.constantFrom(0, 1, 2, 3, 4, 0x7e),
      status: fc.constantFrom(0 as const, 1 as const),
      cumulativeGasUsed: uintOf(64),
      gasUsed: uintOf(64),
      logsBloom: fc.constantFrom(bloomOf(logs), new Uint8Array(256), new Uint8Array(256).fill(7)),
      logs: fc.constant(logs),
      contractAddress: optional(bytesOf(20)),
      effectiveGasPrice: uintOf(256),
      depositNonce: optional(uintOf(64)),
      depositReceiptVersion: optional(fc.constant(1n)),
      l1: optional(l1),
      blobGasUsed: optional(uintOf(64)),
      blobGasPrice: optional(uintOf(256)),
    }),
  ),
)

describe('a receipt', () => {
  test('is stored without loss', () => {
    fc.assert(
      fc.property(receipts, (receipt) => {
        expect(decodeStoredReceipt(encodeStoredReceipt(receipt))).toEqual(receipt)
      }),
    )
  })
  test('has a stored summary with its bloom and its number of logs', () => {
    fc.assert(
      fc.property(receipts, (receipt) => {
        const { bloom, count } = summariseStoredLogs(encodeStoredReceipt(receipt))
        const isEmpty = receipt.logsBloom.every((byte) => byte === 0)
        expect([bloom, count]).toEqual([isEmpty ? none : receipt.logsBloom, receipt.logs.length])
      }),
    )
    for (const cut of [[0xf8], [0xc1, 0xf9, 1], [0xc2, 0xb8, 60]])
      expect(() => summariseStoredLogs(Uint8Array.from(cut))).toThrow(RlpError)
  })
  const none = new Uint8Array(0)
  test('is read from spoilt bytes only if it encodes to them', () => {
    const spoilt = fc.tuple(receipts, fc.nat(), fc.nat({ max: 255 })).map(([receipt, at, byte]) => {
      const stored = encodeStoredReceipt(receipt)
      return stored.with(at % stored.length, byte)
    })
    fc.assert(
      fc.property(fc.oneof(spoilt, fc.uint8Array({ maxLength: 50 })), (data) => {
        const receipt = decodedOrRefused(data)
        if (receipt !== undefined) expect(encodeStoredReceipt(receipt)).toEqual(data)
      }),
    )
  })
  const plain: Receipt = {
    type: 2,
    status: 1,
    cumulativeGasUsed: 21_000n,
    gasUsed: 21_000n,
    logsBloom: new Uint8Array(256),
    logs: [],
    contractAddress: undefined,
    effectiveGasPrice: 1n,
  }
  const body = `01825208b90100${'00'.repeat(256)}c0`
  const cases: [name: string, changes: Partial<Receipt>, hex: string][] = [
    ['type 2', {}, `0x02f90108${body}`],
    ['legacy', { type: 0 }, `0xf90108${body}`],
    [
      'a deposit',
      { type: 0x7e, depositNonce: 0x13c9f00n, depositReceiptVersion: 1n },
      `0x7ef9010e${body}84013c9f0001`,
    ],
    ['a deposit before Canyon', { type: 0x7e, depositNonce: 5n }, `0x7ef90108${body}`],
    ['a failure', { status: 0 }, `0x02f90108${body.replace(/^01/, '80')}`],
  ]
  test.each(cases)('has the consensus form of %s', (_name, changes, hex) => {
    expect(bytesToHex(encodeReceipt({ ...plain, ...changes }))).toBe(hex)
  })
  test('has a bloom with everything logged, which joins with another bloom', () => {
    fc.assert(
      fc.property(fc.array(log, { maxLength: 3 }), log, (logs, last) => {
        const bloom = orBloom(bloomOf(logs), bloomOf([last]))
        expect(bloom).toEqual(bloomOf([...logs, last]))
        for (const { address, topics } of [...logs, last])
          for (const part of [address, ...topics]) expect(bloomHas(bloom, part)).toBe(true)
        expect(bloomHas(new Uint8Array(256), last.address)).toBe(false)
      }),
    )
  })
})

const headers: fc.Arbitrary<Header> = fc
  .tuple(
    fc.record({
      parentHash: bytesOf(32),
      ommersHash: fc.constant(EMPTY_OMMERS),
      coinbase: bytesOf(20),
      stateRoot: bytesOf(32),
      transactionsRoot: bytesOf(32),
      receiptsRoot: bytesOf(32),
      logsBloom: bytesOf(256),
      difficulty: uintOf(256),
      number: uintOf(64),
      gasLimit: uintOf(64),
      gasUsed: uintOf(64),
      timestamp: uintOf(64),
      extraData: fc.uint8Array({ maxLength: 40 }),
      mixHash: bytesOf(32),
      nonce: bytesOf(8),
    }),
    fc.record({
      baseFeePerGas: uintOf(256),
      withdrawalsRoot: bytesOf(32),
      blobGasUsed: uintOf(64),
      excessBlobGas: uintOf(64),
      parentBeaconBlockRoot: bytesOf(32),
      requestsHash: bytesOf(32),
      blockAccessListHash: bytesOf(32),
      slotNumber: uintOf(64),
    }),
    fc.nat({ max: 8 }),
  )
  .map(([required, optional, count]) => ({
    ...required,
    ...Object.fromEntries(Object.entries(optional).slice(0, count)),
  }))

describe('a header', () => {
  test('decodes to what was encoded', () => {
    fc.assert(
      fc.property(headers, (header) => {
        expect(decodeHeader(encodeHeader(header))).toEqual(header)
      }),
    )
  })
  test('of Amsterdam has the new fields in its hash and in its JSON', () => {
    const [header] = fc.sample(
      headers.filter((one) => one.slotNumber !== undefined),
      1,
    )
    const hash = hashHeader(header!)
    expect(hash).not.toEqual(hashHeader({ ...header!, slotNumber: header!.slotNumber! ^ 1n }))
    const { blockAccessListHash: _, slotNumber, ...without } = header!
    expect(() => hashHeader({ ...without, slotNumber: slotNumber! })).toThrow(
      'a header with slotNumber needs blockAccessListHash',
    )
    const json = JSON.parse(headerText(header!, hash))
    expect(json).toMatchObject({
      blockAccessListHash: bytesToHex(header!.blockAccessListHash!),
      slotNumber: `0x${slotNumber!.toString(16)}`,
    })
    expect(decodeHeaderJson(json)).toEqual(header)
  })
  test('with a gap among its later fields is refused', () => {
    const [header] = fc.sample(
      headers.filter((one) => one.baseFeePerGas === undefined),
      1,
    )
    expect(() => encodeHeader({ ...header!, withdrawalsRoot: EMPTY_ROOT })).toThrow(
      'a header with withdrawalsRoot needs baseFeePerGas',
    )
    expect(() => encodeHeader({ ...header!, stateRoot: new Uint8Array(31) })).toThrow(
      'header stateRoot has 31 bytes, expected 32',
    )
  })
  test.each([
    [14, 'rlp: too few elements for types.Header'],
    [24, 'rlp: input list has too many elements for types.Header'],
  ])('with %i fields is refused', (count, message) => {
    expect(() => decodeHeader(encodeRlp(Array<Uint8Array>(count).fill(new Uint8Array(0))))).toThrow(
      new RlpError(message),
    )
  })
})

const recorded = 'op-blocks/op-mainnet-blocks.json.gz'
test.skipIf(isAbsent(recorded))('recorded OP blocks have their recorded header hashes', () => {
  for (const block of readBlocks(recorded)) {
    const header = headerOfJson(block)
    expect(bytesToHex(hashHeader(header))).toBe(block.hash)
    expect(decodeHeader(encodeHeader(header))).toEqual(header)
  }
})

const chains = ['chain-facts/ethtest-chain/chain.rlp', 'rpc-compat/tests/chain.rlp']
describe.skipIf(chains.some(isAbsent)).each(chains)('the chain in %s', (path) => {
  let blocks: readonly RlpBlock[]
  let file: Uint8Array
  beforeAll(() => {
    file = Uint8Array.from(readFileSync(conformance(path)))
    blocks = [...decodeBlocks(file)]
  })
  test('encodes to the same bytes', () => {
    expect(blocks.length).toBeGreaterThan(50)
    const encoded = blocks.map(encodeBlock)
    expect(Buffer.concat(encoded).equals(file)).toBe(true)
    expect(decodeBlock(encoded[0]!)).toEqual(blocks[0])
  })
  test('is linked by hash, and its headers have the right roots', () => {
    for (const [index, { header, transactions, ommers, withdrawals }] of blocks.entries()) {
      if (index > 0) expect(header.parentHash).toEqual(hashHeader(blocks[index - 1]!.header))
      expect(orderedRoot(transactions)).toEqual(header.transactionsRoot)
      expect(ommers.length === 0).toBe(bytesToHex(header.ommersHash) === bytesToHex(EMPTY_OMMERS))
      expect(withdrawals === undefined).toBe(header.withdrawalsRoot === undefined)
    }
  })
  test('has transactions that encode again from their fields', () => {
    for (const raw of blocks.flatMap(({ transactions }) => transactions)) {
      const transaction = decodeTransaction(raw)
      expect(encodeTransaction(transaction)).toEqual(raw)
      expect(transaction.hash).toEqual(transactionHash(raw))
    }
  })
  test('is refused at its last block when the file is cut', () => {
    const cut = decodeBlocks(file.subarray(0, -1))
    let count = 0
    expect(() => {
      for (const _block of cut) count++
    }).toThrow(RlpError)
    expect(count).toBe(blocks.length - 1)
  })
})

/** Decodes a stored receipt; undefined: an RlpError refused the data. */
function decodedOrRefused(data: Uint8Array): Receipt | undefined {
  try {
    return decodeStoredReceipt(data)
  } catch (error) {
    if (error instanceof RlpError) return undefined
    throw error
  }
}
