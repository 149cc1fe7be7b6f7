/**
 * Post-exec transactions (type 0x7D): their bytes, their malformed forms, and the decoders that
 * refuse them.
 */
import { describe, expect, test } from 'vitest'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { keccak256 } from '../../../engine/primitives/keccak.ts'
import { encodeRlp, type RlpItem, rlpUint } from '../../../engine/primitives/rlp.ts'
import { isSigned } from '../../../engine/primitives/transaction.ts'
import {
  decodeTransaction,
  encodeTransaction,
  makePostExec,
  openTransaction,
} from '../../../engine/primitives/transaction-codec.ts'
import { concatBytes, ZERO_20 } from '../../../engine/primitives/words.ts'
import { encodeTransactionJson } from '../../../engine/sources/upstream/transaction-json.ts'
import { decodeSubmitted } from '../../../engine/txpool/validation.ts'

const REFUNDS = [
  { index: 1n, gasRefund: 5_000n },
  { index: 3n, gasRefund: 1n },
]
/** Version 1, block 1,000 (0x03e8), refunds of 5,000 (0x1388) for 1 and of 1 for 3. */
const RAW = hexToBytes('0x7dcd018203e8c8c401821388c20301')

const pair = (index: number, refund: number): RlpItem => [rlpUint(index), rlpUint(refund)]
const payload = (items: readonly RlpItem[]) => concatBytes(Uint8Array.of(0x7d), encodeRlp(items))
const withEntries = (...entries: RlpItem[]) => payload([rlpUint(1), rlpUint(1_000), entries])

test('a post-exec transaction has fixed bytes and their hash', () => {
  const made = makePostExec(1_000n, REFUNDS)
  expect(bytesToHex(made.raw)).toBe(bytesToHex(RAW))
  expect(made.hash).toEqual(keccak256(RAW))
  const decoded = decodeTransaction(RAW)
  expect(decoded).toEqual(made)
  expect(decoded).toMatchObject({
    type: 0x7d,
    version: 1n,
    blockNumber: 1_000n,
    refunds: REFUNDS,
    from: ZERO_20,
    to: ZERO_20,
    gasLimit: 0n,
    value: 0n,
    input: RAW.subarray(1),
  })
  expect(isSigned(decoded)).toBe(false)
  expect(encodeTransaction(made)).toEqual(RAW)
})

describe('a post-exec transaction is malformed with', () => {
  test.each<[what: string, raw: Uint8Array, why: string]>([
    ['no payload', Uint8Array.of(0x7d), 'typed transaction too short'],
    [
      'a value that is not a list',
      hexToBytes('0x7d01'),
      'rlp: expected input list for types.PostExecTx',
    ],
    ['extra bytes', concatBytes(RAW, Uint8Array.of(0)), 'rlp: input contains more than one value'],
    ['two fields', payload([rlpUint(1), rlpUint(2)]), 'rlp: too few elements for types.PostExecTx'],
    [
      'four fields',
      payload([rlpUint(1), rlpUint(2), [], []]),
      'rlp: input list has too many elements for types.PostExecTx',
    ],
    [
      'version 0',
      payload([rlpUint(0), rlpUint(2), [pair(1, 1)]]),
      'post-exec: version 0, 1 is known',
    ],
    [
      'version 2',
      payload([rlpUint(2), rlpUint(2), [pair(1, 1)]]),
      'post-exec: version 2, 1 is known',
    ],
    [
      'a number above 64 bits',
      payload([rlpUint(1), rlpUint(2n ** 64n), [pair(1, 1)]]),
      'rlp: input string too long for uint64, decoding into (types.PostExecTx).BlockNumber',
    ],
    ['no entries', withEntries(), 'post-exec: no refunds'],
    ['a refund of 0', withEntries(pair(1, 0)), 'post-exec: a refund of 0 for transaction 1'],
    ['an index twice', withEntries(pair(1, 1), pair(1, 2)), 'post-exec: index 1 after 1'],
    [
      'an index lower than the one before',
      withEntries(pair(2, 1), pair(1, 2)),
      'post-exec: index 1 after 2',
    ],
    [
      'an entry with three fields',
      withEntries([rlpUint(1), rlpUint(1), rlpUint(1)]),
      'rlp: input list has too many elements for types.SDMGasEntry, decoding into (types.PostExecTx).Refunds[0]',
    ],
    [
      'an entry that is not a list',
      withEntries(rlpUint(1)),
      'rlp: expected input list for types.SDMGasEntry, decoding into (types.PostExecTx).Refunds[0]',
    ],
  ])('%s', (_, raw, why) => {
    expect(() => decodeTransaction(raw)).toThrow(why)
    expect(() => decodeTransaction(raw)).toThrow(
      expect.objectContaining({ name: 'TransactionError' }),
    )
  })
})

test('a post-exec transaction is refused by the txpool and as a signed transaction', () => {
  const { hash, from } = decodeTransaction(RAW)
  const refused = { error: expect.objectContaining({ message: 'transaction type not supported' }) }
  expect(decodeSubmitted(RAW)).toEqual(refused)
  expect(() => openTransaction(RAW, { hash, from })).toThrow('transaction type not supported')
})

test('the JSON-RPC object of a post-exec transaction gives its bytes', () => {
  const object = {
    type: '0x7d',
    hash: bytesToHex(keccak256(RAW)),
    from: bytesToHex(ZERO_20),
    gas: '0x0',
    value: '0x0',
    input: bytesToHex(RAW.subarray(1)),
  }
  expect(encodeTransactionJson(object)).toEqual(RAW)
})
