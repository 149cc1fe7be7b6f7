/** A worker digests long transactions, and its result replaces the pool's own check. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import type { InvalidTransaction } from '../../../engine/execution/transaction/invalid.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import { encodeRlp, type RlpItem } from '../../../engine/primitives/rlp.ts'
import { CURVE_ORDER } from '../../../engine/primitives/signature.ts'
import {
  decodeTransaction,
  encodeTransaction,
  makeDeposit,
  signTransaction,
  TransactionError,
} from '../../../engine/primitives/transaction-codec.ts'
import { concatBytes, ZERO_20, ZERO_32 } from '../../../engine/primitives/words.ts'
import { digestOf } from '../../../engine/txpool/validation.ts'
import { invalidTransaction } from '../../../rpc/core/errors.ts'
import { OWN_CLIENT } from '../../../rpc/core/executor.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { createCallRunner } from '../../../rpc/dispatch/worker-call.ts'
import { digestTransaction } from '../../../rpc/methods/shared/digest.ts'
import { createDigester } from '../../../workers/front/digester.ts'
import { referenceEngine as engine } from '../../fixtures/engine.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { bytesOf } from '../../fixtures/references.ts'
import { localExecutor } from '../../fixtures/rpc.ts'
import { at, best, CHAIN_ID, names, testPool, transfer, want } from '../../fixtures/txpool.ts'
import { call, startNode } from '../../kit/node.ts'

const bugs: unknown[] = []
const digesterWithin = (ms: number) => {
  const methods = new Map([[digestTransaction.name, digestTransaction]])
  const parts = { reader: memoryChain(), chain: CHAIN, engine, limits: DEFAULT_LIMITS, methods }
  const runner = () =>
    createCallRunner({ ...parts, now: () => 0, onBug: (bug) => void bugs.push(bug) })
  const executor = localExecutor(runner, ms, [])
  const limits = { ...DEFAULT_LIMITS, callMs: ms }
  return createDigester({ executor, limits, now: () => performance.now() })
}
const makeDigest = digesterWithin(60_000)

/** Submits like workers/front/transactions.ts. */
async function submitted({ pool, head }: ReturnType<typeof testPool>, raw: Bytes) {
  const first = pool.submit(raw, at(head))
  if (!('undigested' in first)) return withCode(first)
  expect(first.undigested).toEqual(raw)
  const made = await makeDigest(raw, OWN_CLIENT)
  return 'error' in made ? made : withCode(pool.submit(raw, at(head), made))
}
const withCode = <T extends object>(result: T | { readonly error: InvalidTransaction }) =>
  'error' in result ? { error: invalidTransaction(result.error).toObject() } : result

const LONG = 70_000
const GAS = 10_000_000n
const long = (sender: number, nonce: number, fields: Parameters<typeof transfer>[2] = {}) =>
  transfer(sender, nonce, { input: new Uint8Array(LONG).fill(nonce + 1), gasLimit: GAS, ...fields })

describe('a long transaction', () => {
  test('is accepted with its digest, and known from then on', async () => {
    const parts = testPool()
    const { pool, head, journal } = parts
    const sent = long(0, 0)
    expect(pool.submit(sent.raw, at(head))).toEqual({ undigested: sent.raw })
    expect([pool.get(sent.hash), journal]).toEqual([undefined, []])
    expect(await submitted(parts, sent.raw)).toEqual({ hash: sent.hash })
    expect([pool.get(sent.hash), journal]).toEqual([sent, [sent.raw]])
    expect(await submitted(parts, sent.raw)).toEqual({
      error: { code: -32000, message: 'already known' },
    })
    expect(names(best(pool, want()))).toEqual(names([sent]))
  })

  test('has more than 65,536 bytes', () => {
    const { pool, head } = testPool()
    const size = (length: number) => long(0, 0, { input: new Uint8Array(length) }).raw
    const rest = 65_536 - (size(65_000).length - 65_000)
    expect(size(rest)).toHaveLength(65_536)
    expect(pool.submit(size(rest), at(head))).toHaveProperty('hash')
    expect(pool.submit(size(rest + 1), at(head))).toHaveProperty('undigested')
  })

  test('has a deadline for its digest', async () => {
    expect(await digesterWithin(-1)(long(0, 0).raw, OWN_CLIENT)).toMatchObject({
      error: { code: -32002 },
    })
  })

  test('is restored from the journal without a request for its digest', () => {
    const { pool, head } = testPool()
    const sent = long(0, 0)
    expect(pool.restore(sent.raw, head)).toBe(true)
    expect(pool.get(sent.hash)).toEqual(sent)
  })
})

describe('a refusal has the same words with and without a digest:', () => {
  const plain = (length: number) =>
    transfer(0, 0, { input: new Uint8Array(length).fill(1), gasLimit: GAS })
  const items = (...all: RlpItem[]) => concatBytes(Uint8Array.of(2), encodeRlp(all))
  const cases: [name: string, make: (length: number) => Bytes, message: string][] = [
    [
      'an invalid signature',
      (length) => encodeTransaction({ ...plain(length), s: CURVE_ORDER - 1n }),
      'invalid sender: invalid transaction v, r, s values',
    ],
    [
      'bytes after it',
      (length) => concatBytes(plain(length).raw, Uint8Array.of(0)),
      'rlp: input contains more than one value',
    ],
    [
      'a deposit',
      (length) =>
        makeDeposit({
          sourceHash: ZERO_32,
          from: ZERO_20,
          to: ZERO_20,
          mint: 0n,
          value: 0n,
          gasLimit: 1n,
          isSystemTransaction: false,
          input: new Uint8Array(length),
        }).raw,
      'transaction type not supported',
    ],
    [
      'an unknown type',
      (length) => concatBytes(Uint8Array.of(5), plain(length).raw.subarray(1)),
      'transaction type not supported',
    ],
    [
      'cut short',
      (length) => plain(length).raw.slice(0, -1),
      'rlp: value size exceeds available input length',
    ],
    [
      'too few fields',
      (length) => items(new Uint8Array(length)),
      'rlp: too few elements for types.DynamicFeeTx',
    ],
    [
      'too many fields',
      (length) => items(...Array.from({ length }, () => Uint8Array.of(1))),
      'rlp: input list has too many elements for types.DynamicFeeTx',
    ],
    [
      'a list instead of a number',
      (length) => {
        const empty = new Uint8Array(0)
        return items([new Uint8Array(length)], ...Array.from({ length: 11 }, () => empty))
      },
      'rlp: expected input string or byte for *big.Int, decoding into (types.DynamicFeeTx).ChainID',
    ],
    [
      'another chain',
      (length) => transfer(0, 0, { chainId: 5n, input: new Uint8Array(length), gasLimit: GAS }).raw,
      `invalid sender: invalid chain id for signer: have 5 want ${CHAIN_ID}`,
    ],
    [
      'too little gas',
      (length) => transfer(0, 0, { input: new Uint8Array(length), gasLimit: 21_000n }).raw,
      '',
    ],
  ]
  test.each(cases)('%s', async (_, make, message) => {
    const [short, lengthy] = [make(100), make(LONG)]
    expect(lengthy.length).toBeGreaterThan(65_536)
    for (const raw of [short, lengthy]) {
      const own = testPool({ ownDigestBytes: Number.POSITIVE_INFINITY })
      const refused = own.pool.submit(raw, at(own.head))
      expect(refused).toHaveProperty('error')
      expect(await submitted(testPool({ ownDigestBytes: 0 }), raw)).toEqual(withCode(refused))
      if (message !== '')
        expect(refused).toEqual({ error: { code: expect.any(String), why: 'input', message } })
    }
  })
})

test('pools that get a digest and pools that make one agree', async () => {
  const lists = {
    input: fc.uint8Array({ maxLength: 200 }),
    accessList: fc.array(
      fc.record({ address: bytesOf(20), storageKeys: fc.array(bytesOf(32), { maxLength: 3 }) }),
      { maxLength: 3 },
    ),
  }
  const sent = fc
    .record({
      ...lists,
      sender: fc.nat(1),
      nonce: fc.nat(3),
      gasLimit: fc.bigInt({ min: 21_000n, max: 31_000_000n }),
      maxFeePerGas: fc.bigInt({ min: 0n, max: 3_000n }),
    })
    .map(({ sender, nonce, ...fields }) => transfer(sender, nonce, fields).raw)
  const damaged = fc
    .tuple(sent, fc.nat(), fc.nat(255))
    .map(([raw, at, byte]) => raw.with(at % raw.length, byte))
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(sent, damaged), { maxLength: 8 }), async (raws) => {
      const own = testPool({ ownDigestBytes: Number.POSITIVE_INFINITY })
      const given = testPool({ ownDigestBytes: 0 })
      for (const raw of raws) {
        const made = await makeDigest(raw, OWN_CLIENT)
        expect(made).toEqual(withCode(digestOf(raw)))
        expect(made).toMatchObject(senderOf(raw))
        expect(await submitted(given, raw)).toEqual(await submitted(own, raw))
      }
      expect(best(given.pool, want())).toEqual(best(own.pool, want()))
      expect(given.journal).toEqual(own.journal)
      expect(bugs).toEqual([])
    }),
    { numRuns: 60 },
  )
})

/** Makes the smallest digest; an invalid transaction gives an empty one. */
function senderOf(raw: Bytes) {
  try {
    const { hash, from, type } = decodeTransaction(raw)
    return type === 0x7e ? {} : { digest: { hash, from } }
  } catch (error) {
    if (error instanceof TransactionError)
      return { error: { code: -32000, message: error.message } }
    throw error
  }
}

const ownTransfer = (nonce: number, length: number) =>
  signTransaction(
    {
      type: 2,
      chainId: CHAIN_ID,
      nonce: BigInt(nonce),
      to: new Uint8Array(20).fill(0xaa),
      value: 1n,
      gasLimit: GAS,
      input: new Uint8Array(length).fill(1),
      accessList: [],
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 1n,
    },
    hexToBytes(DEV_ACCOUNTS[0]!.privateKey),
  )

test('a node includes a long transaction in order, and refuses a damaged one', async () => {
  const node = await startNode(['--ephemeral'])
  try {
    const url = `${node.url}/flashblocks`
    const sent = [0, 1, 2].map((nonce) => ownTransfer(nonce, nonce === 1 ? 130_000 : 0))
    const batch = sent.map(({ raw }, id) => ({
      jsonrpc: '2.0',
      id,
      method: 'eth_sendRawTransaction',
      params: [bytesToHex(raw)],
    }))
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(batch),
    })
    const replies = (await response.json()) as readonly { readonly result: string }[]
    expect(replies.map(({ result }) => result)).toEqual(sent.map(({ hash }) => bytesToHex(hash)))
    const next = ownTransfer(3, 130_000)
    const receipt = await call(url, 'eth_sendRawTransactionSync', [bytesToHex(next.raw)])
    expect(receipt).toMatchObject({ transactionHash: bytesToHex(next.hash), status: '0x1' })
    const nonce = await call(url, 'eth_getTransactionCount', [bytesToHex(next.from), 'pending'])
    expect(nonce).toBe('0x4')
    const damaged = concatBytes(next.raw, Uint8Array.of(0))
    await expect(call(url, 'eth_sendRawTransaction', [bytesToHex(damaged)])).rejects.toThrow(
      'rlp: input contains more than one value',
    )
  } finally {
    expect(await node.stop('SIGTERM')).toBe(0)
  }
})
