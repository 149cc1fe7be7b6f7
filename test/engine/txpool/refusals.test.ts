/** The txpool refuses with fixed texts and reasons, and reports a journal that fails. */
import { describe, expect, test } from 'vitest'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import {
  encodeTransaction,
  makeDeposit,
  signTransaction,
} from '../../../engine/primitives/transaction-codec.ts'
import { JournalError } from '../../../engine/storage/directory/journal.ts'
import { Txpool } from '../../../engine/txpool/txpool.ts'
import { keyOf } from '../../../engine/txpool/types.ts'
import {
  addressOfSender,
  at,
  CHAIN_ID,
  keyOfSender,
  PlainHead,
  settled,
  testPool,
  transfer,
} from '../../fixtures/txpool.ts'

const legacy = (fields: object = {}) =>
  signTransaction(
    {
      type: 0,
      chainId: CHAIN_ID,
      nonce: 0n,
      to: new Uint8Array(20),
      value: 0n,
      gasLimit: 21_000n,
      input: new Uint8Array(0),
      gasPrice: 100n,
      ...fields,
    },
    keyOfSender(0),
  ).raw
const setCode = (authorizationList: []) =>
  signTransaction(
    {
      type: 4,
      chainId: CHAIN_ID,
      nonce: 0n,
      to: new Uint8Array(20),
      value: 0n,
      gasLimit: 90_000n,
      input: new Uint8Array(0),
      maxFeePerGas: 100n,
      maxPriorityFeePerGas: 1n,
      accessList: [],
      authorizationList,
    },
    keyOfSender(0),
  ).raw
const blob = () =>
  signTransaction(
    {
      type: 3,
      chainId: CHAIN_ID,
      nonce: 0n,
      to: new Uint8Array(20),
      value: 0n,
      gasLimit: 21_000n,
      input: new Uint8Array(0),
      maxFeePerGas: 100n,
      maxPriorityFeePerGas: 1n,
      accessList: [],
      maxFeePerBlobGas: 1n,
      blobVersionedHashes: [new Uint8Array(32).fill(1)],
    },
    keyOfSender(0),
  ).raw
const deposit = () =>
  makeDeposit({
    sourceHash: new Uint8Array(32),
    from: new Uint8Array(20),
    to: new Uint8Array(20),
    mint: 0n,
    value: 0n,
    gasLimit: 21_000n,
    isSystemTransaction: false,
    input: new Uint8Array(0),
  }).raw
const highS = () => {
  const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
  const good = transfer(0, 0)
  return encodeTransaction({ ...good, s: order - good.s, v: 1n - good.v })
}

describe('the txpool refuses', () => {
  const cases: [name: string, raw: () => Bytes, why: string, message: string | RegExp][] = [
    [
      'too large',
      () => new Uint8Array(131_073),
      'input',
      'oversized data: transaction size 131073, limit 131072',
    ],
    ['no bytes', () => new Uint8Array(0), 'input', 'typed transaction too short'],
    ['an unknown type', () => Uint8Array.of(0x12, 0x34), 'input', 'transaction type not supported'],
    ['blob', blob, 'input', 'transaction type not supported'],
    ['deposit', deposit, 'input', 'transaction type not supported'],
    ['trailing byte', () => Uint8Array.of(...transfer(0, 0).raw, 0), 'input', /rlp/],
    ['high s', highS, 'input', /^invalid sender: /],
    [
      'another chain',
      () => transfer(0, 0, { chainId: 1n }).raw,
      'input',
      'invalid sender: invalid chain id for signer: have 1 want 196',
    ],
    [
      'no replay protection',
      () => legacy({ chainId: undefined }),
      'input',
      'only replay-protected (EIP-155) transactions allowed over RPC',
    ],
    [
      'fee above the cap',
      () => transfer(0, 0, { maxFeePerGas: 10n ** 15n }).raw,
      'input',
      'tx fee (21000000000000000000 wei) exceeds the configured cap (1000000000000000000 wei)',
    ],
    [
      'initcode',
      () =>
        transfer(0, 0, { to: undefined, input: new Uint8Array(49_153), gasLimit: 3_000_000n }).raw,
      'input',
      'max initcode size exceeded: code size 49153 limit 49152',
    ],
    [
      'more gas than the first transaction of a block leaves',
      () => transfer(0, 0, { gasLimit: 29_930_001n }).raw,
      'input',
      'exceeds block gas limit',
    ],
    [
      'tip above fee',
      () => transfer(0, 0, { maxFeePerGas: 1n, maxPriorityFeePerGas: 2n }).raw,
      'rejected',
      'max priority fee per gas higher than max fee per gas',
    ],
    ['last nonce', () => transfer(0, 2n ** 64n - 1n).raw, 'rejected', 'nonce has max value'],
    [
      'gas below intrinsic',
      () => transfer(0, 0, { gasLimit: 20_000n }).raw,
      'input',
      'intrinsic gas too low: gas 20000, minimum needed 21000',
    ],
    [
      'gas below floor',
      () => transfer(0, 0, { input: new Uint8Array(100), gasLimit: 23_000n }).raw,
      'input',
      'insufficient gas for floor data gas cost: gas 23000, minimum needed 25000',
    ],
    [
      'no authorization',
      () => setCode([]),
      'input',
      'set code tx must have at least one authorization tuple',
    ],
    ['nonce too low', () => transfer(1, 4).raw, 'input', 'nonce too low: next nonce 5, tx nonce 4'],
    // The cost is 21,000 × 1,000 at the fee cap, value 1, and L1 and operator fee 7.
    [
      'no funds',
      () => transfer(2, 0).raw,
      'rejected',
      'insufficient funds for gas * price + value: have 21000007 want 21000008',
    ],
  ]
  test.each(cases)('a transaction with this fault: %s', (_name, raw, why, message) => {
    const { pool, head, journal } = testPool()
    head.nonces.set(keyOf(addressOfSender(1)), 5n)
    head.balances.set(keyOf(addressOfSender(2)), 21_000_007n)
    const result = pool.submit(raw(), at(head))
    expect(result).toEqual({
      error: {
        code: expect.any(String),
        why,
        message: typeof message === 'string' ? message : expect.stringMatching(message),
      },
    })
    expect(journal).toEqual([])
    expect(pool.counts()).toEqual({ pending: 0, queued: 0 })
  })

  test('any transaction of a contract account', () => {
    const { pool, head } = testPool()
    head.contracts.add(keyOf(addressOfSender(0)))
    for (const nonce of [0, 3])
      expect(pool.submit(transfer(0, nonce).raw, at(head))).toEqual({
        error: { code: 'senderIsContract', why: 'rejected', message: 'sender is not an EOA' },
      })
    expect(pool.submit(transfer(1, 0).raw, at(head))).toHaveProperty('hash')
  })

  test('more gas than a block has for a pool transaction', () => {
    const { pool, head } = testPool()
    expect(pool.submit(transfer(0, 0, { gasLimit: 29_930_000n }).raw, at(head))).toHaveProperty(
      'hash',
    )
    head.rules = { ...head.rules, isOptimism: false }
    expect(pool.submit(transfer(1, 0, { gasLimit: 30_000_000n }).raw, at(head))).toHaveProperty(
      'hash',
    )
    expect(pool.submit(transfer(2, 0, { gasLimit: 30_000_001n }).raw, at(head))).toMatchObject({
      error: { message: 'exceeds block gas limit' },
    })
  })

  test('more data than any block takes', () => {
    const { pool, head } = testPool()
    head.footprint = head.gasLimit
    expect(pool.submit(transfer(0, 0).raw, at(head))).toHaveProperty('hash')
    head.footprint = head.gasLimit + 1n
    expect(pool.submit(transfer(1, 0).raw, at(head))).toEqual({
      error: {
        code: 'daFootprintTooLarge',
        why: 'input',
        message: 'DA footprint exceeds block gas limit: footprint 30000001, limit 30000000',
      },
    })
    expect(pool.counts()).toEqual({ pending: 1, queued: 0 })
  })

  test('a transaction that it already has', () => {
    const { pool, head } = testPool()
    pool.submit(transfer(0, 0).raw, at(head))
    expect(pool.submit(transfer(0, 0).raw, at(head))).toEqual({
      error: { code: 'alreadyKnown', why: 'input', message: 'already known' },
    })
  })

  test('a sender whose funds do not cover all of its pooled transactions', () => {
    const { pool, head } = testPool()
    head.balances.set(keyOf(addressOfSender(0)), 2n * 21_000_008n)
    expect(pool.submit(transfer(0, 0).raw, at(head))).toHaveProperty('hash')
    expect(pool.submit(transfer(0, 1).raw, at(head))).toHaveProperty('hash')
    expect(pool.submit(transfer(0, 2).raw, at(head))).toEqual({
      error: {
        code: 'funds',
        why: 'rejected',
        message: 'insufficient funds for gas * price + value: have 42000016 want 63000024',
      },
    })
    pool.include(transfer(0, 0), 1)
    head.nonces.set(keyOf(addressOfSender(0)), 1n)
    expect(pool.submit(transfer(0, 2).raw, at(head))).toHaveProperty('hash')
  })

  test('a transaction that its journal cannot store', () => {
    const pool = new Txpool({
      now: () => 0,
      journal: {
        append: () => {
          throw new Error('no space left')
        },
        rewrite: () => {},
      },
    })
    expect(() => pool.submit(transfer(0, 0).raw, at(new PlainHead()))).toThrow('no space left')
    expect(pool.get(transfer(0, 0).hash)).toBeUndefined()
  })
})

test('a full journal is rewritten with the transactions that still count', () => {
  const records: Bytes[] = []
  const pool = new Txpool({
    limits: { retentionBlocks: 0 },
    now: () => 0,
    journal: {
      append: (raw) => {
        if (records.length === 2) throw new JournalError('full', 'full')
        records.push(raw)
      },
      rewrite: (all) => void records.splice(0, records.length, ...all),
    },
  })
  const head = new PlainHead()
  for (const sender of [0, 1]) pool.submit(transfer(sender, 0).raw, at(head))
  pool.include(transfer(0, 0), 1)
  pool.settle(settled({ number: 2, index: 0 }, 2))
  expect(pool.submit(transfer(2, 0).raw, at(head))).toHaveProperty('hash')
  expect(records).toEqual([transfer(1, 0).raw, transfer(2, 0).raw])
  expect(() => pool.submit(transfer(3, 0).raw, at(head))).toThrow('full')
})
