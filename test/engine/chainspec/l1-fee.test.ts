/**
 * L1 attributes, L1 fee, operator fee and DA footprint are checked with recorded OP blocks. They
 * are also checked with the formulas by hand.
 */
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { nextBaseFee } from '../../../engine/chainspec/base-fee.ts'
import { fastlzLength } from '../../../engine/chainspec/fastlz.ts'
import {
  decodeL1Attributes,
  encodeL1Attributes,
  type L1Attributes,
  l1AttributesDeposit,
} from '../../../engine/chainspec/l1-attributes.ts'
import {
  daFootprint,
  l1Cost,
  l1FeeParameters,
  operatorFee,
  receiptL1Fee,
  rollupData,
} from '../../../engine/chainspec/l1-fee.ts'
import { chainSpec } from '../../../engine/chainspec/registry.ts'
import { hashHeader } from '../../../engine/primitives/header.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { orderedRoot } from '../../../engine/primitives/ordered-root.ts'
import { decodeTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { bigintToBytes, concatBytes } from '../../../engine/primitives/words.ts'
import {
  headerOfJson,
  isAbsent,
  type JsonBlock,
  readBlocks,
  readWitness,
  type Witness,
} from '../../fixtures/blocks.ts'
import { bytesOf, uintOf } from '../../fixtures/references.ts'

const opMainnet = chainSpec({ name: 'op-mainnet' })
const xlayer = chainSpec({ name: 'xlayer' })
const jovian = xlayer.rulesAt(50_000_000n, 1_800_000_000n)
const isthmus = xlayer.rulesAt(50_000_000n, 1_761_600_000n)
const ecotone = opMainnet.rulesAt(120_000_000n, 1_710_374_401n)
const canyon = opMainnet.rulesAt(120_000_000n, 1_704_992_401n)
const bedrock = opMainnet.rulesAt(120_000_000n, -1n)
const ethereum = { ...canyon, l1Fee: 'none' } as const

const attributes: fc.Arbitrary<L1Attributes> = fc.record({
  number: uintOf(64),
  timestamp: uintOf(64),
  baseFee: uintOf(256),
  blobBaseFee: uintOf(256),
  hash: bytesOf(32),
  sequenceNumber: uintOf(64),
  batcherHash: bytesOf(32),
  baseFeeScalar: uintOf(32),
  blobBaseFeeScalar: uintOf(32),
  operatorFeeScalar: uintOf(32),
  operatorFeeConstant: uintOf(64),
  daFootprintGasScalar: uintOf(16),
  overhead: uintOf(256),
  scalar: uintOf(256),
})

describe('L1 attributes', () => {
  test.each([
    ['overhead', 260],
    ['blobs', 164],
    ['operator', 176],
    ['footprint', 178],
  ] as const)('in the form %s decode to what was encoded', (form, length) => {
    fc.assert(
      fc.property(attributes, (all) => {
        const calldata = encodeL1Attributes(all, form)
        expect(calldata.length).toBe(length)
        const decoded = decodeL1Attributes(calldata)!
        expect(decoded.form).toBe(form)
        expect(encodeL1Attributes(decoded.attributes, form)).toEqual(calldata)
        expect(decoded.attributes.hash).toEqual(all.hash)
        if (form === 'footprint')
          expect(decoded.attributes).toEqual({ ...all, overhead: 0n, scalar: 0n })
      }),
    )
  })
  test.each(['0x', '0x3db6be2b', '0x01020304', `0x3db6be2b${'00'.repeat(175)}`])(
    'are not read from %s',
    (hex) => {
      expect(decodeL1Attributes(hexToBytes(hex))).toBeUndefined()
    },
  )
  test('have the form of their rules', () => {
    expect([canyon, ecotone, isthmus, jovian].map((rules) => rules.l1Attributes)).toEqual([
      'overhead',
      'blobs',
      'operator',
      'footprint',
    ])
  })
})

const recorded = 'op-blocks/op-mainnet-blocks.json.gz'
describe.skipIf(isAbsent(recorded))('a recorded block of OP Mainnet', () => {
  let blocks: ReadonlyMap<bigint, JsonBlock>
  beforeAll(() => {
    blocks = new Map(readBlocks(recorded).map((block) => [BigInt(block.number!), block]))
  })
  const numbers = [
    125_985_142n,
    142_153_611n,
    142_153_711n,
    142_156_623n,
    142_156_624n,
    142_156_625n,
    151_861_708n,
    151_861_709n,
  ]

  test.each(numbers)('%s has the first transaction that its attributes give', (number) => {
    const { transactions, rawTransactions, timestamp } = blocks.get(number)!
    const { form, attributes } = decodeL1Attributes(hexToBytes(transactions[0]!.input!))!
    expect(form).toBe(opMainnet.rulesAt(number, BigInt(timestamp!)).l1Attributes)
    const deposit = l1AttributesDeposit(attributes, form)
    expect(bytesToHex(deposit.raw)).toBe(rawTransactions[0])
    expect(bytesToHex(deposit.hash)).toBe(transactions[0]!.hash)
    expect(bytesToHex(deposit.sourceHash)).toBe(transactions[0]!.sourceHash)
  })
  test.each(numbers.slice(-2))('%s has the DA footprint of its transactions', (number) => {
    const { transactions, rawTransactions, timestamp, blobGasUsed } = blocks.get(number)!
    const { attributes } = decodeL1Attributes(hexToBytes(transactions[0]!.input!))!
    const rules = opMainnet.rulesAt(number, BigInt(timestamp!))
    const sum = rawTransactions
      .filter((raw) => !raw.startsWith('0x7e'))
      .reduce((all, raw) => all + daFootprint(rollupData(hexToBytes(raw)), attributes, rules), 0n)
    expect(sum).toBe(BigInt(blobGasUsed!))
  })
  test.each([
    [142_156_623n, 142_156_624n],
    [142_156_624n, 142_156_625n],
    [151_861_708n, 151_861_709n],
  ])('gives the base fee of the block after %s', (parent, child) => {
    const { timestamp, baseFeePerGas } = blocks.get(child)!
    const fee = nextBaseFee(opMainnet, headerOfJson(blocks.get(parent)!), BigInt(timestamp!))
    expect(fee).toBe(BigInt(baseFeePerGas!))
  })
})

const witness = (number: number) => `op-blocks/op-sepolia-${number}.json.gz`
describe.skipIf(isAbsent(witness(26_207_960)))('a recorded block of OP Sepolia', () => {
  const opSepolia = chainSpec({ name: 'op-sepolia' })
  test.each([26_207_960, 26_207_961, 26_207_962])(
    '%s: hash, fee and attributes match',
    (number) => {
      const [
        { parent_header: parent, expected_block_hash: hash, executing_payload: payload },
        next,
      ] = [number, number + 1].map((height) => readWitness(witness(height))) as [Witness, Witness]
      const header = headerOfJson(next.parent_header)
      expect(bytesToHex(hashHeader(header))).toBe(hash)
      expect(nextBaseFee(opSepolia, headerOfJson(parent), header.timestamp)).toBe(
        header.baseFeePerGas,
      )
      const deposit = decodeTransaction(hexToBytes(payload.transactions[0]!))
      const { form, attributes } = decodeL1Attributes(deposit.input)!
      expect(form).toBe(opSepolia.rulesAt(header.number, header.timestamp).l1Attributes)
      expect(l1AttributesDeposit(attributes, form)).toEqual(deposit)
      const roots = orderedRoot(payload.transactions.map(hexToBytes))
      expect(bytesToHex(roots)).toBe(bytesToHex(header.transactionsRoot))
    },
  )
})

describe('the FastLZ length', () => {
  // The vectors come from the specification of Fjord and the reference implementations.
  test.each([
    ['nothing', '0x', 0],
    ['1000 zeros', `0x${'00'.repeat(1000)}`, 21],
    ['1000 ones', `0x${'ff'.repeat(1000)}`, 21],
    ['12 bytes, too few for a match', `0x${'01'.repeat(12)}`, 13],
    [
      '16 literals, a copy of 12, 5 literals',
      `0x${'00112233445566778899aabbccddeeff'.repeat(2)}01`,
      17 + 3 + 6,
    ],
  ])('is right for %s', (_name, hex, expected) => {
    expect(fastlzLength(hexToBytes(hex))).toBe(expected)
  })
  test('is bounded by the length of the data, and repeated bytes cost little', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 3000 }), (data) => {
        const literal = data.length + Math.ceil(data.length / 32)
        expect(fastlzLength(data)).toBeLessThanOrEqual(literal + data.length)
        expect(fastlzLength(concatBytes(data, new Uint8Array(600)))).toBeLessThan(
          fastlzLength(data) + 80,
        )
      }),
    )
  })
  test('equals the plain transcription of the reference', () => {
    const repetitive = fc
      .array(fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 12, max: 3 }), fc.nat({ max: 90 })))
      .map((runs) =>
        concatBytes(...runs.flatMap(([run, times]) => Array.from({ length: times }, () => run))),
      )
    fc.assert(
      fc.property(fc.oneof(repetitive, fc.uint8Array({ maxLength: 400 })), (data) => {
        expect(fastlzLength(data)).toBe(referenceLength(data))
      }),
      { numRuns: 500 },
    )
    const far = concatBytes(
      new Uint8Array(20).fill(1),
      noise(8180),
      new Uint8Array(40).fill(1),
      noise(20),
    )
    for (let cut = 0; cut < 40; cut++)
      expect(fastlzLength(far.subarray(cut))).toBe(referenceLength(far.subarray(cut)))
  })
})

describe('the fees of a transaction', () => {
  const parameters = {
    baseFee: 1_000_000_000n,
    blobBaseFee: 10_000_000n,
    baseFeeScalar: 2n,
    blobBaseFeeScalar: 3n,
    operatorFeeScalar: 1_439_103_868n,
    operatorFeeConstant: 1_256_417_826_609_331_460n,
    daFootprintGasScalar: 400n,
    overhead: 188n,
    scalar: 684_000n,
  }
  // 20 zero bytes and 30 others cost 560 gas of calldata, and are below the minimum estimate.
  const data = rollupData(concatBytes(new Uint8Array(20), noise(30)))
  test('depend on the zero bytes, other bytes and size of its envelope', () => {
    expect(data).toEqual({ zeroBytes: 20n, nonZeroBytes: 30n, estimatedSize: 100_000_000n })
    const long = rollupData(noise(1000))
    expect(long.estimatedSize).toBe(836_500n * BigInt(fastlzLength(noise(1000))) - 42_585_600n)
  })
  test.each([
    ['none', ethereum, 0n, 0n],
    [
      'bedrock',
      bedrock,
      560n + 188n + 1088n,
      ((560n + 188n + 1088n) * 10n ** 9n * 684_000n) / 10n ** 6n,
    ],
    ['regolith', canyon, 748n, (748n * 10n ** 9n * 684_000n) / 10n ** 6n],
    ['ecotone', ecotone, 560n, (560n * 32_030_000_000n) / 16_000_000n],
    ['fjord', jovian, 1600n, 3_203_000n],
  ])('have the L1 fee of %s', (_name, rules, gasUsed, fee) => {
    expect(l1Cost(data, parameters, rules)).toEqual({ gasUsed, fee })
  })
  test('in the first Ecotone block are those from before', () => {
    const unset = { ...parameters, baseFeeScalar: 0n, blobBaseFeeScalar: 0n, blobBaseFee: 0n }
    expect(l1Cost(data, unset, ecotone)).toEqual(l1Cost(data, parameters, canyon))
  })
  test.each([
    ['none', ecotone, 0n],
    ['isthmus', isthmus, (21_000n * 1_439_103_868n) / 1_000_000n + 1_256_417_826_609_331_460n],
    ['jovian', jovian, 21_000n * 1_439_103_868n * 100n + 1_256_417_826_609_331_460n],
  ])('have the operator fee of %s', (_name, rules, fee) => {
    expect(operatorFee(21_000n, parameters, rules)).toBe(fee)
  })
  test('include a DA footprint at Jovian only', () => {
    expect(daFootprint(data, parameters, jovian)).toBe(40_000n)
    expect(daFootprint(data, parameters, isthmus)).toBe(0n)
    expect(daFootprint(data, { ...parameters, daFootprintGasScalar: 0n }, jovian)).toBe(0n)
  })
  test('have parameters from storage, for which only the needed slots are read', () => {
    const slots = new Map([
      [1, bigintToBytes(7n, 32)],
      [3, hexToBytes(`0x${'00'.repeat(16)}0000146b000f79c50000000000000004`)],
      [5, bigintToBytes(188n, 32)],
      [6, bigintToBytes(684_000n, 32)],
      [7, bigintToBytes(9n, 32)],
      [8, hexToBytes(`0x${'00'.repeat(18)}0190000000010000000000000002`)],
    ])
    const all = {
      baseFee: 7n,
      blobBaseFee: 9n,
      baseFeeScalar: 5227n,
      blobBaseFeeScalar: 1_014_213n,
      operatorFeeScalar: 1n,
      operatorFeeConstant: 2n,
      daFootprintGasScalar: 400n,
      overhead: 188n,
      scalar: 684_000n,
    }
    const read = (rules: Parameters<typeof l1FeeParameters>[0], empty: readonly number[] = []) => {
      const requested: number[] = []
      const found = l1FeeParameters(rules, (number) => {
        requested.push(number)
        return empty.includes(number) ? new Uint8Array(32) : slots.get(number)!
      })
      return { requested: requested.sort(), found }
    }
    const none = { overhead: 0n, scalar: 0n }
    const noOperator = { operatorFeeScalar: 0n, operatorFeeConstant: 0n, daFootprintGasScalar: 0n }
    const noBlob = { blobBaseFee: 0n, baseFeeScalar: 0n, blobBaseFeeScalar: 0n }
    expect(read(jovian)).toEqual({ requested: [1, 3, 7, 8], found: { ...all, ...none } })
    expect(read(isthmus)).toEqual({ requested: [1, 3, 7, 8], found: { ...all, ...none } })
    expect(read(ecotone)).toEqual({
      requested: [1, 3, 7],
      found: { ...all, ...none, ...noOperator },
    })
    const old = { ...all, ...noOperator, ...noBlob }
    expect(read(ecotone, [3, 7])).toEqual({ requested: [1, 3, 5, 6, 7], found: old })
    expect(read(canyon)).toEqual({ requested: [1, 5, 6], found: old })
    expect(read(bedrock)).toEqual({ requested: [1, 5, 6], found: old })
  })
  describe('in a receipt', () => {
    const feeInputs = (
      rules: typeof jovian,
      changes: Partial<typeof parameters> = {},
      isDeposit = false,
    ) => receiptL1Fee({ data, isDeposit }, { ...parameters, ...changes }, rules)
    const fjord = {
      l1GasPrice: 1_000_000_000n,
      l1GasUsed: 1600n,
      l1Fee: 3_203_000n,
      l1BaseFeeScalar: 2n,
      l1BlobBaseFee: 10_000_000n,
      l1BlobBaseFeeScalar: 3n,
    }
    const noOperator = { operatorFeeScalar: 0n, operatorFeeConstant: 0n }
    test('have all fields at Jovian', () => {
      expect(feeInputs(jovian)).toEqual({
        ...fjord,
        operatorFeeScalar: parameters.operatorFeeScalar,
        operatorFeeConstant: parameters.operatorFeeConstant,
        daFootprintGasScalar: 400n,
        blobGasUsed: 40_000n,
      })
    })
    test('have no operator fields when both are 0', () => {
      expect(feeInputs(isthmus, noOperator)).toEqual(fjord)
    })
    test('are 0 for a deposit', () => {
      expect(feeInputs(isthmus, noOperator, true)).toEqual({ ...fjord, l1Fee: 0n })
    })
    test('have a decimal scalar before Ecotone', () => {
      expect(feeInputs(canyon)).toEqual({
        l1GasPrice: 1_000_000_000n,
        l1GasUsed: 748n,
        l1Fee: 511_632_000_000n,
        l1FeeScalar: '0.684',
      })
      expect(feeInputs(canyon, { scalar: 3_000_000n })?.l1FeeScalar).toBe('3')
    })
    test('are absent on an L1 chain', () => {
      expect(feeInputs({ ...jovian, l1Fee: 'none' })).toBeUndefined()
    })
  })
})

/** Makes bytes without a zero and with hardly any repetition, the same at each call. */
function noise(length: number): Uint8Array {
  let state = 1
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return ((state >>> 24) % 255) + 1
  })
}

/**
 * Repeats the compressor's loop step by step, independently of our code: it writes the stream and
 * counts the bytes.
 */
function referenceLength(data: Uint8Array): number {
  const out: number[] = []
  const table = new Map<number, number>()
  const three = (at: number) => data[at]! + data[at + 1]! * 256 + data[at + 2]! * 65_536
  const hash = (value: number) => Number(((2_654_435_769n * BigInt(value)) % 2n ** 32n) >> 19n)
  const literals = (from: number, to: number) => {
    for (let at = from; at < to; at += 32) out.push(0, ...data.subarray(at, Math.min(at + 32, to)))
  }
  const limit = Math.max(0, data.length - 13)
  let anchor = 0
  let at = 2
  while (at < limit) {
    let earlier = 0
    let isFound = false
    while (at < limit && !isFound) {
      earlier = table.get(hash(three(at))) ?? 0
      table.set(hash(three(at)), at)
      isFound = at - earlier < 8192 && three(at) === three(earlier)
      at++
    }
    if (at >= limit) break
    at--
    literals(anchor, at)
    let matched = 0
    for (const end = limit + 9 - at - 3; matched < end; ) {
      matched++
      if (data[earlier + 2 + matched] !== data[at + 2 + matched]) break
    }
    let rest = matched - 1
    for (; rest >= 262; rest -= 262) out.push(1, 1, 1)
    out.push(...(rest >= 6 ? [1, 1, 1] : [1, 1]))
    at += matched
    table.set(hash(three(at)), at)
    table.set(hash(three(at + 1)), at + 1)
    at += 2
    anchor = at
  }
  literals(anchor, data.length)
  return out.length
}
