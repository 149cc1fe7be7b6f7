/** Transactions of every type are compared with viem and ethers; refusals have fixed texts. */
import fc from 'fast-check'
import { getContractAddress } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { getSourceHash, parseTransaction as parseDeposit } from 'viem/op-stack'
import { recoverAuthorizationAddress } from 'viem/utils'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { orderedRoot } from '../../../engine/primitives/ordered-root.ts'
import { encodeRlp, type RlpItem, rlpUint } from '../../../engine/primitives/rlp.ts'
import {
  addressOfKey,
  authorizationHash,
  CURVE_ORDER,
  recoverAuthority,
  sign,
} from '../../../engine/primitives/signature.ts'
import {
  type Authorization,
  isSigned,
  type SignedTransaction,
} from '../../../engine/primitives/transaction.ts'
import {
  createAddress,
  decodeTransaction,
  encodeTransaction,
  makeDeposit,
  openTransaction,
  signTransaction,
  sourceHash,
  TransactionError,
  type UnsignedTransaction,
  yParityOf,
} from '../../../engine/primitives/transaction-codec.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import { Transaction as EthersTransaction, Signature } from '../../clients/ethers.ts'
import { isAbsent, type JsonBlock, readBlocks } from '../../fixtures/blocks.ts'
import { bytesOf, privateKeys, uintOf } from '../../fixtures/references.ts'

const chainIds = fc.bigInt({ min: 1n, max: 2n ** 53n - 1n })
const to = fc.option(bytesOf(20), { nil: undefined })
const message = {
  nonce: uintOf(53),
  value: uintOf(256),
  gasLimit: uintOf(53),
  input: fc.uint8Array({ maxLength: 300 }),
}
const accessList = fc.array(
  fc.record({ address: bytesOf(20), storageKeys: fc.array(bytesOf(32), { maxLength: 3 }) }),
  { maxLength: 3 },
)
/** viem refuses a priority fee above the fee, but the envelope allows it. */
const dynamicFee = fc
  .tuple(uintOf(128), uintOf(128))
  .map(([a, b]): [bigint, bigint] => (a < b ? [a, b] : [b, a]))
const authorization: fc.Arbitrary<Authorization> = fc
  .record({ chainId: chainIds, address: bytesOf(20), nonce: uintOf(53), key: privateKeys })
  .map(({ key, ...fields }) => {
    const { r, s, yParity } = sign(authorizationHash(fields), key)
    return { ...fields, r, s, yParity: BigInt(yParity) }
  })
const blobHash = bytesOf(31).map((rest) => concatBytes(Uint8Array.of(1), rest))

const unsigned: fc.Arbitrary<UnsignedTransaction> = fc.oneof(
  fc.record({
    ...message,
    type: fc.constant(0 as const),
    to,
    gasPrice: uintOf(128),
    chainId: fc.option(chainIds, { nil: undefined }),
  }),
  fc.record({
    ...message,
    type: fc.constant(1 as const),
    to,
    gasPrice: uintOf(128),
    chainId: chainIds,
    accessList,
  }),
  withFees(
    fc.record({ ...message, type: fc.constant(2 as const), to, chainId: chainIds, accessList }),
  ),
  withFees(
    fc.record({
      ...message,
      type: fc.constant(3 as const),
      to: bytesOf(20),
      chainId: chainIds,
      accessList,
      maxFeePerBlobGas: uintOf(128),
      blobVersionedHashes: fc.array(blobHash, { minLength: 1, maxLength: 3 }),
    }),
  ),
  withFees(
    fc.record({
      ...message,
      type: fc.constant(4 as const),
      to: bytesOf(20),
      chainId: chainIds,
      accessList,
      authorizationList: fc.array(authorization, { minLength: 1, maxLength: 2 }),
    }),
  ),
)
function withFees<Fields extends object>(fields: fc.Arbitrary<Fields>) {
  return fc.tuple(fields, dynamicFee).map(([rest, [maxPriorityFeePerGas, maxFeePerGas]]) => ({
    ...rest,
    maxPriorityFeePerGas,
    maxFeePerGas,
  }))
}

describe('a signed transaction', () => {
  test('matches ethers, encodes again from its fields and has its sender', () => {
    fc.assert(
      fc.property(unsigned, privateKeys, (fields, key) => {
        const ours = signTransaction(fields, key)
        expect(ours).toMatchObject(fields)
        expect(ours.from).toEqual(addressOfKey(key))
        expect(encodeTransaction(ours)).toEqual(ours.raw)
        expect(decodeTransaction(ours.raw)).toEqual(ours)
        expect(openTransaction(ours.raw, ours)).toEqual(ours)
        expect(decodeTransaction(ours.raw, new Uint8Array(20)).from).toEqual(new Uint8Array(20))
        compareWithEthers(ours)
      }),
      { numRuns: 150 },
    )
  })

  test('has the bytes that viem signs', async () => {
    await fc.assert(
      fc.asyncProperty(unsigned, privateKeys, async (fields, key) => {
        const account = privateKeyToAccount(bytesToHex(key))
        const ours = signTransaction(fields, key)
        const theirs = await account.signTransaction(viemFields(fields))
        expect(bytesToHex(ours.raw)).toBe(theirs)
      }),
      { numRuns: 50 },
    )
  })
  test('with an authorization has the authority that viem finds', async () => {
    await fc.assert(
      fc.asyncProperty(authorization, async (entry) => {
        const theirs = await recoverAuthorizationAddress({
          authorization: viemAuthorization(entry),
        })
        expect(bytesToHex(recoverAuthority(entry)!)).toBe(theirs.toLowerCase())
        expect(
          recoverAuthority({ ...entry, s: CURVE_ORDER - entry.s, yParity: 1n - entry.yParity }),
        ).toBeUndefined()
        expect(recoverAuthority({ ...entry, yParity: entry.yParity + 2n })).toBeUndefined()
      }),
      { numRuns: 30 },
    )
  })
})

const KEY = new Uint8Array(32).fill(1)
const legacy = {
  type: 0,
  chainId: 196n,
  nonce: 1n,
  gasPrice: 2n,
  gasLimit: 21_000n,
  to: new Uint8Array(20).fill(3),
  value: 4n,
  input: new Uint8Array(0),
} as const
const signedLegacy = signTransaction(legacy, KEY)
const dynamic = signTransaction(
  {
    type: 2,
    chainId: 196n,
    nonce: 1n,
    maxPriorityFeePerGas: 1n,
    maxFeePerGas: 2n,
    gasLimit: 21_000n,
    to: undefined,
    value: 0n,
    input: new Uint8Array(0),
    accessList: [],
  },
  KEY,
)
const spoilt = <T extends SignedTransaction>(transaction: T, changes: Partial<T>): Bytes =>
  encodeTransaction({ ...transaction, ...changes })
const highS = (transaction: SignedTransaction) => CURVE_ORDER - transaction.s

describe('the transaction decoder', () => {
  const list = (items: RlpItem) => encodeRlp(items)
  const typed = (type: number, items: RlpItem) => concatBytes(Uint8Array.of(type), list(items))
  const empty = new Uint8Array(0)
  const legacyItems = (changes: Record<number, RlpItem>): RlpItem =>
    [1, 2, 3]
      .map(rlpUint)
      .concat([legacy.to, rlpUint(4), empty, rlpUint(27), rlpUint(1), rlpUint(1)])
      .map((item, at) => changes[at] ?? item)
  const cases: [name: string, raw: Bytes, reason: TransactionError['reason'], message: string][] = [
    ['nothing', empty, 'malformed', 'typed transaction too short'],
    ['one byte', Uint8Array.of(2), 'malformed', 'typed transaction too short'],
    ['type 0x12', Uint8Array.of(0x12, 0x34), 'type', 'transaction type not supported'],
    ['type 0x7f', Uint8Array.of(0x7f, 0xc0), 'type', 'transaction type not supported'],
    [
      'type 0',
      concatBytes(Uint8Array.of(0), signedLegacy.raw),
      'type',
      'transaction type not supported',
    ],
    [
      'a legacy list with three fields',
      list([empty, empty, empty]),
      'malformed',
      'rlp: too few elements for types.LegacyTx',
    ],
    [
      'a legacy list with ten fields',
      list(Array<Bytes>(10).fill(empty)),
      'malformed',
      'rlp: input list has too many elements for types.LegacyTx',
    ],
    [
      'a string instead of a list',
      list(new Uint8Array(60)),
      'malformed',
      'rlp: expected input list for types.LegacyTx',
    ],
    ['an empty type 2', typed(2, []), 'malformed', 'rlp: too few elements for types.DynamicFeeTx'],
    [
      'trailing bytes',
      concatBytes(signedLegacy.raw, Uint8Array.of(0)),
      'malformed',
      'rlp: input contains more than one value',
    ],
    [
      'trailing bytes of type 2',
      concatBytes(dynamic.raw, Uint8Array.of(0)),
      'malformed',
      'rlp: input contains more than one value',
    ],
    [
      'cut short',
      signedLegacy.raw.subarray(0, -1),
      'malformed',
      'rlp: value size exceeds available input length',
    ],
    [
      'a nonce with a zero in front',
      list(legacyItems({ 0: Uint8Array.of(0, 1) })),
      'malformed',
      'rlp: non-canonical integer (leading zero bytes) for uint64, decoding into (types.LegacyTx).Nonce',
    ],
    [
      'a nonce of 9 bytes',
      list(legacyItems({ 0: new Uint8Array(9).fill(1) })),
      'malformed',
      'rlp: input string too long for uint64, decoding into (types.LegacyTx).Nonce',
    ],
    [
      'a value of 33 bytes',
      list(legacyItems({ 4: new Uint8Array(33).fill(1) })),
      'malformed',
      'rlp: input string too long for *big.Int, decoding into (types.LegacyTx).Value',
    ],
    [
      'an address of 19 bytes',
      list(legacyItems({ 3: new Uint8Array(19) })),
      'malformed',
      'rlp: input string too short for common.Address, decoding into (types.LegacyTx).To',
    ],
    [
      'an empty list instead of an address',
      list(legacyItems({ 3: [] })),
      'malformed',
      'rlp: wrong kind of empty value (got List, want String) for *common.Address, decoding into (types.LegacyTx).To',
    ],
    [
      'a list instead of an address',
      list(legacyItems({ 3: [empty] })),
      'malformed',
      'rlp: expected input string or byte for common.Address, decoding into (types.LegacyTx).To',
    ],
    [
      'a list instead of data',
      list(legacyItems({ 5: [empty] })),
      'malformed',
      'rlp: expected input string or byte for []uint8, decoding into (types.LegacyTx).Data',
    ],
    ...(
      [
        [empty, 'rlp: expected input list for types.AccessList', ''],
        [[empty], 'rlp: expected input list for types.AccessTuple', '[0]'],
        [[[empty]], 'rlp: too few elements for types.AccessTuple', '[0]'],
        [
          [
            [legacy.to, []],
            [new Uint8Array(21), []],
          ],
          'rlp: input string too long for common.Address',
          '[1].Address',
        ],
        [
          [[legacy.to, [new Uint8Array(32), new Uint8Array(31)]]],
          'rlp: input string too short for common.Hash',
          '[0].StorageKeys[1]',
        ],
      ] as const
    ).map(([accessList, fault, path]): [string, Bytes, 'malformed', string] => [
      `an access list with a fault in ${path === '' ? 'itself' : path}`,
      typed(1, [...Array<Bytes>(7).fill(empty), accessList, empty, empty, empty]),
      'malformed',
      `${fault}, decoding into (types.AccessListTx).AccessList${path}`,
    ]),
    [
      'an authorization with a long address',
      typed(4, [
        ...Array<Bytes>(5).fill(empty),
        legacy.to,
        empty,
        empty,
        [],
        [[empty, new Uint8Array(21), empty, empty, empty, empty]],
        ...[empty, empty, empty],
      ]),
      'malformed',
      'rlp: input string too long for common.Address, decoding into (types.SetCodeTx).AuthList[0].Address',
    ],
    [
      'a fee of 33 bytes of a transaction with authorizations',
      typed(4, [
        ...[empty, empty, new Uint8Array(33).fill(1), empty, empty, legacy.to, empty, empty],
        ...[[], [], empty, empty, empty],
      ]),
      'malformed',
      'rlp: input string too long for *uint256.Int, decoding into (types.SetCodeTx).GasTipCap',
    ],
    [
      'a blob transaction that creates a contract',
      typed(
        3,
        [1, 1, 1, 1, 1]
          .map(rlpUint)
          .concat([empty, empty, empty])
          .concat(Array<Bytes>(6).fill(empty)),
      ),
      'malformed',
      'rlp: input string too short for common.Address, decoding into (types.BlobTx).To',
    ],
    [
      'a deposit with a boolean of 2',
      typed(0x7e, [
        new Uint8Array(32),
        legacy.to,
        legacy.to,
        empty,
        empty,
        empty,
        rlpUint(2),
        empty,
      ]),
      'malformed',
      'rlp: invalid boolean value: 2',
    ],
    [
      'high s',
      spoilt(signedLegacy, { s: highS(signedLegacy), v: signedLegacy.v ^ 1n }),
      'signature',
      'invalid sender: invalid transaction v, r, s values',
    ],
    [
      'high s of type 2',
      spoilt(dynamic, { s: highS(dynamic), v: 1n - dynamic.v }),
      'signature',
      'invalid sender: invalid transaction v, r, s values',
    ],
    [
      'r of 0',
      spoilt(signedLegacy, { r: 0n }),
      'signature',
      'invalid sender: invalid transaction v, r, s values',
    ],
    [
      's of 0',
      spoilt(dynamic, { s: 0n }),
      'signature',
      'invalid sender: invalid transaction v, r, s values',
    ],
    [
      'v of 2',
      spoilt(dynamic, { v: 2n }),
      'signature',
      'invalid sender: invalid transaction v, r, s values',
    ],
    [
      'a legacy v of 0',
      spoilt(signedLegacy, { v: 0n }),
      'signature',
      'invalid sender: invalid transaction v, r, s values',
    ],
    [
      'a legacy v of 29',
      spoilt(signedLegacy, { v: 29n }),
      'signature',
      'invalid sender: invalid transaction v, r, s values',
    ],
    [
      'a transaction of 33 million bytes',
      new Uint8Array(33 * 1024 * 1024),
      'size',
      'oversized data: transaction size 34603008, limit 33554432',
    ],
  ]
  test.each(cases)('refuses %s', (_name, raw, reason, message) => {
    expect(() => decodeTransaction(raw)).toThrow(new TransactionError(reason, message))
    expect(caught(() => decodeTransaction(raw))).toMatchObject({ reason })
  })
  test('gives for any bytes a transaction that encodes to them, or an error', () => {
    const spoiltBytes = fc
      .tuple(fc.constantFrom(signedLegacy.raw, dynamic.raw), fc.nat(), fc.nat({ max: 255 }))
      .map(([raw, at, byte]) => raw.with(at % raw.length, byte))
    fc.assert(
      fc.property(fc.oneof(spoiltBytes, fc.uint8Array({ maxLength: 60 })), (raw) => {
        const result = caught(() => decodeTransaction(raw))
        if (result instanceof Error) expect(result).toBeInstanceOf(TransactionError)
        else expect(encodeTransaction(result as SignedTransaction)).toEqual(raw)
      }),
      { numRuns: 600 },
    )
  })
})

describe('the v of a legacy signature', () => {
  test.each([
    ['a chain id', legacy, [427n, 428n]],
    ['none', { ...legacy, chainId: undefined }, [27n, 28n]],
  ])('shows the y parity with %s', (_name, fields, vs) => {
    const seen = new Map<bigint, number>()
    for (let nonce = 0n; nonce < 20n; nonce++) {
      const { v, chainId } = signTransaction({ ...fields, nonce }, KEY) as typeof signedLegacy
      expect(chainId).toBe(fields.chainId)
      seen.set(v, yParityOf(signTransaction({ ...fields, nonce }, KEY)))
    }
    expect([...seen].sort(([a], [b]) => Number(a - b))).toEqual(vs.map((v, parity) => [v, parity]))
  })
})

const recorded = 'op-blocks/op-mainnet-blocks.json.gz'
describe('a deposit', () => {
  const arbitrary = fc.record({
    sourceHash: bytesOf(32),
    from: bytesOf(20),
    to,
    mint: uintOf(128),
    value: uintOf(256),
    gasLimit: uintOf(53),
    isSystemTransaction: fc.boolean(),
    input: fc.uint8Array({ maxLength: 200 }),
  })
  test('matches viem', () => {
    fc.assert(
      fc.property(arbitrary, (fields) => {
        const deposit = makeDeposit(fields)
        expect(decodeTransaction(deposit.raw)).toEqual(deposit)
        const theirs = parseDeposit(bytesToHex(deposit.raw) as `0x7e${string}`)
        expect({
          from: theirs.from,
          to: theirs.to?.toLowerCase(),
          gas: theirs.gas ?? 0n,
          mint: theirs.mint ?? 0n,
          value: theirs.value ?? 0n,
          isSystemTx: theirs.isSystemTx ?? false,
          data: theirs.data ?? '0x',
          sourceHash: theirs.sourceHash,
        }).toEqual({
          from: bytesToHex(fields.from),
          to: fields.to && bytesToHex(fields.to),
          gas: fields.gasLimit,
          mint: fields.mint,
          value: fields.value,
          isSystemTx: fields.isSystemTransaction,
          data: bytesToHex(fields.input),
          sourceHash: bytesToHex(fields.sourceHash),
        })
      }),
    )
  })
  test('has the source hashes of viem', () => {
    fc.assert(
      fc.property(bytesOf(32), fc.nat(), (hash, index) => {
        const l1BlockHash = bytesToHex(hash)
        expect(bytesToHex(sourceHash(0, hash, BigInt(index)))).toBe(
          getSourceHash({ domain: 'userDeposit', l1BlockHash, l1LogIndex: index }),
        )
        expect(bytesToHex(sourceHash(1, hash, BigInt(index)))).toBe(
          getSourceHash({ domain: 'l1InfoDeposit', l1BlockHash, sequenceNumber: index }),
        )
      }),
    )
  })
  // The value comes from the specification of Ecotone, derivation: first upgrade transaction.
  test('of an upgrade has the source hash of the specification', () => {
    const intent = Uint8Array.from(Buffer.from('Ecotone: L1 Block Deployment'))
    expect(bytesToHex(sourceHash(2, intent))).toBe(
      '0x877a6077205782ea15a6dc8699fa5ebcec5e0f4389f09cb8eda09488231346f8',
    )
  })
  test('creates a contract at the address of viem', () => {
    fc.assert(
      fc.property(bytesOf(20), uintOf(53), (from, nonce) => {
        expect(bytesToHex(createAddress(from, nonce))).toBe(
          getContractAddress({ from: bytesToHex(from), nonce }).toLowerCase(),
        )
      }),
    )
  })
})

describe.skipIf(isAbsent(recorded))('recorded blocks of OP Mainnet', () => {
  let blocks: readonly JsonBlock[]
  beforeAll(() => {
    blocks = readBlocks(recorded)
  })
  test('have transactions with the recorded hash, sender and fields', () => {
    for (const { transactions, rawTransactions } of blocks)
      for (const [index, json] of transactions.entries()) {
        const ours = decodeTransaction(hexToBytes(rawTransactions[index]!))
        expect(bytesToHex(ours.hash)).toBe(json.hash)
        expect(bytesToHex(ours.from)).toBe(json.from)
        expect(ours.to === undefined ? null : bytesToHex(ours.to)).toBe(json.to)
        expect(bytesToHex(ours.input)).toBe(json.input)
        expect([ours.value, ours.gasLimit]).toEqual([BigInt(json.value), BigInt(json.gas)])
        if (isSigned(ours))
          expect([ours.nonce, ours.v, ours.r, ours.s]).toEqual(
            [json.nonce, json.v, json.r, json.s].map(BigInt),
          )
      }
  })
  test('have the recorded transactions roots', () => {
    for (const { rawTransactions, transactionsRoot } of blocks)
      expect(bytesToHex(orderedRoot(rawTransactions.map(hexToBytes)))).toBe(transactionsRoot)
  })
})

function caught<Value>(run: () => Value): Value | Error {
  try {
    return run()
  } catch (error) {
    return error as Error
  }
}

function compareWithEthers(ours: SignedTransaction): void {
  const theirs = EthersTransaction.from(bytesToHex(ours.raw))
  const chainId = ours.chainId ?? 0n
  expect(theirs).toMatchObject({
    type: ours.type,
    hash: bytesToHex(ours.hash),
    nonce: Number(ours.nonce),
    value: ours.value,
    gasLimit: ours.gasLimit,
    data: bytesToHex(ours.input),
    chainId,
  })
  expect(theirs.to?.toLowerCase()).toBe(ours.to && bytesToHex(ours.to))
  expect(theirs.from?.toLowerCase()).toBe(bytesToHex(ours.from))
  const signature = Signature.from(theirs.signature!)
  expect([BigInt(signature.r), BigInt(signature.s), signature.yParity]).toEqual([
    ours.r,
    ours.s,
    yParityOf(ours),
  ])
  if (ours.type <= 1) expect(theirs.gasPrice).toBe((ours as { gasPrice: bigint }).gasPrice)
  if (ours.type === 0) return
  expect(
    theirs.accessList?.map(({ address, storageKeys }) => [address.toLowerCase(), storageKeys]),
  ).toEqual(
    ours.accessList.map(({ address, storageKeys }) => [
      bytesToHex(address),
      storageKeys.map(bytesToHex),
    ]),
  )
  if (ours.type === 1) return
  expect([theirs.maxFeePerGas, theirs.maxPriorityFeePerGas]).toEqual([
    ours.maxFeePerGas,
    ours.maxPriorityFeePerGas,
  ])
  if (ours.type === 3)
    expect([theirs.maxFeePerBlobGas, theirs.blobVersionedHashes]).toEqual([
      ours.maxFeePerBlobGas,
      ours.blobVersionedHashes.map(bytesToHex),
    ])
  if (ours.type === 4)
    expect(
      theirs.authorizationList?.map(({ address, nonce, chainId }) => [
        address.toLowerCase(),
        nonce,
        chainId,
      ]),
    ).toEqual(
      ours.authorizationList.map((entry) => [
        bytesToHex(entry.address),
        entry.nonce,
        entry.chainId,
      ]),
    )
}

const viemAuthorization = (entry: Authorization) => ({
  address: bytesToHex(entry.address),
  chainId: Number(entry.chainId),
  nonce: Number(entry.nonce),
  r: bytesToHex(hexToBytes(`0x${entry.r.toString(16).padStart(64, '0')}`)),
  s: bytesToHex(hexToBytes(`0x${entry.s.toString(16).padStart(64, '0')}`)),
  yParity: Number(entry.yParity),
})

function viemFields(
  fields: UnsignedTransaction,
): Parameters<ReturnType<typeof privateKeyToAccount>['signTransaction']>[0] {
  const common = {
    nonce: Number(fields.nonce),
    gas: fields.gasLimit,
    value: fields.value,
    data: bytesToHex(fields.input),
    to: fields.to && bytesToHex(fields.to),
  }
  if (fields.type === 0)
    return {
      ...common,
      type: 'legacy',
      gasPrice: fields.gasPrice,
      ...(fields.chainId === undefined ? {} : { chainId: Number(fields.chainId) }),
    }
  const listed = {
    ...common,
    chainId: Number(fields.chainId),
    accessList: fields.accessList.map(({ address, storageKeys }) => ({
      address: bytesToHex(address),
      storageKeys: storageKeys.map(bytesToHex),
    })),
  }
  if (fields.type === 1) return { ...listed, type: 'eip2930', gasPrice: fields.gasPrice }
  const { maxFeePerGas, maxPriorityFeePerGas } = fields
  const fees = { ...listed, maxFeePerGas, maxPriorityFeePerGas }
  if (fields.type === 2) return { ...fees, type: 'eip1559' }
  if (fields.type === 4)
    return {
      ...fees,
      type: 'eip7702',
      authorizationList: fields.authorizationList.map(viemAuthorization),
    }
  return {
    ...fees,
    type: 'eip4844',
    to: bytesToHex(fields.to!),
    maxFeePerBlobGas: fields.maxFeePerBlobGas,
    blobVersionedHashes: fields.blobVersionedHashes.map(bytesToHex),
  }
}
