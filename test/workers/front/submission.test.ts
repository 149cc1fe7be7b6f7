/** A worker's check of a transaction counts for the client that sent it. */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import type { PoolCall, PoolClient } from '../../../rpc/core/executor.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import type { TransactionService } from '../../../rpc/core/ports.ts'
import { createDigester } from '../../../workers/front/digester.ts'
import { createProver } from '../../../workers/front/prover.ts'
import { createTransactions } from '../../../workers/front/transactions.ts'
import { createWhitelist } from '../../../workers/front/whitelist.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { addressOfSender, transfer } from '../../fixtures/txpool.ts'

const refuse = (): never => {
  throw new Error('nobody asks for it')
}
const CONTRACT = new Uint8Array(20).fill(7)
const GASLESS = {
  ...CHAIN,
  rulesAt: (...args: Parameters<typeof CHAIN.rulesAt>) => ({
    ...CHAIN.rulesAt(...args),
    gaslessContract: CONTRACT,
  }),
}

/** Makes an executor that records its calls, and always responds in the same way. */
function recording() {
  const calls: PoolCall[] = []
  const executor = {
    async execute(call: PoolCall) {
      calls.push(call)
      return { error: { code: -32_000, message: 'no' } }
    },
  }
  return { calls, pool: { executor, limits: DEFAULT_LIMITS, now: () => 0 } }
}

describe('a worker call for a transaction', () => {
  type Requester = ReturnType<typeof recording>['pool']
  const sidecar = { version: 0, blobs: [], commitments: [], proofs: [] } as never
  const cases: [
    name: string,
    request: (pool: Requester, client: PoolClient) => Promise<unknown>,
  ][] = [
    ['the proof of blobs', (pool, client) => createProver(pool)(sidecar, client)],
    ['the digest', (pool, client) => createDigester(pool)(new Uint8Array(3), client)],
    [
      'the call of the gasless allowlist',
      (pool, client) => createWhitelist(GASLESS, pool)(transfer(0, 0), client),
    ],
  ]
  test.each(cases)('counts for the client that sent it: %s', async (_name, request) => {
    const { calls, pool } = recording()
    const client = { address: '10.0.0.7', isGone: false }
    await request(pool, client)
    expect(calls).toHaveLength(1)
    expect(calls[0]!.client).toBe(client)
  })
})

test('the check of a long transaction counts for the client that sent it', async () => {
  const { calls, pool } = recording()
  const { service } = createTransactions({
    reader: memoryChain(),
    chain: CHAIN,
    journal: { append() {}, rewrite() {} },
    limits: DEFAULT_LIMITS,
    prove: refuse,
    makeDigest: createDigester(pool),
    isListed: refuse,
    now: () => 0,
    onFailure: refuse,
  })
  const client = { address: '10.0.0.7', isGone: false }
  const { raw } = transfer(0, 0, { input: new Uint8Array(70_000), gasLimit: 10_000_000n })
  expect(await service.submit(raw, client)).toMatchObject({ error: { message: 'no' } })
  expect(calls[0]!.client).toBe(client)
})

test('transactions that the sequencer accepted need no allowlist call', async () => {
  const after = { nonce: 0n, balance: 10n ** 20n, codeHash: EMPTY_HASH }
  const sender = {
    address: addressOfSender(0),
    before: undefined,
    after,
    slots: [],
    code: undefined,
  }
  const { service } = createTransactions({
    reader: memoryChain([sender]),
    chain: GASLESS,
    journal: { append() {}, rewrite() {} },
    limits: DEFAULT_LIMITS,
    prove: refuse,
    makeDigest: refuse,
    isListed: refuse,
    now: () => 0,
    onFailure: refuse,
  })
  const client = { address: '10.0.0.7', isGone: false }
  const { raw, hash } = transfer(0, 0, { maxFeePerGas: 0n, maxPriorityFeePerGas: 0n })
  expect(() => service.submit(raw, client)).toThrow('nobody asks for it')
  expect(await service.submit(raw, client, true)).toEqual({ hash })
})

test('methods pass the address of the sending client', async () => {
  const rpc = testRpc()
  const submit = rpc.pool.submit
  const clients: string[] = []
  const recorded: TransactionService['submit'] = (raw, client) => {
    clients.push(client.address)
    return submit(raw, client)
  }
  Object.assign(rpc.pool, { submit: recorded })
  const { raw } = transfer(0, 0)
  await rpc.request('eth_sendRawTransaction', [bytesToHex(raw)], { address: '10.0.0.7' })
  expect(clients).toEqual(['10.0.0.7'])
})
