/** What a worker finds out about a transaction it does for the client that sent it. */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import type { PoolCall, PoolClient } from '../../../rpc/seam/executor.ts'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'
import type { TransactionService } from '../../../rpc/seam/ports.ts'
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
  rulesAt: (...place: Parameters<typeof CHAIN.rulesAt>) => ({
    ...CHAIN.rulesAt(...place),
    gaslessContract: CONTRACT,
  }),
}

/** An executor that notes what it is asked, and answers all of it in the same way. */
function noting() {
  const calls: PoolCall[] = []
  const executor = {
    async execute(call: PoolCall) {
      calls.push(call)
      return { error: { code: -32_000, message: 'no' } }
    },
  }
  return { calls, asking: { executor, limits: DEFAULT_LIMITS, now: () => 0 } }
}

describe('for its client runs', () => {
  type Asking = ReturnType<typeof noting>['asking']
  const sidecar = { version: 0, blobs: [], commitments: [], proofs: [] } as never
  const cases: [name: string, ask: (asking: Asking, client: PoolClient) => Promise<unknown>][] = [
    ['the proof of blobs', (asking, client) => createProver(asking)(sidecar, client)],
    ['the digest', (asking, client) => createDigester(asking)(new Uint8Array(3), client)],
    [
      'the question to the whitelist',
      (asking, client) => createWhitelist(GASLESS, asking)(transfer(0, 0), client),
    ],
  ]
  test.each(cases)('%s', async (_name, ask) => {
    const { calls, asking } = noting()
    const client = { address: '10.0.0.7', isGone: false }
    await ask(asking, client)
    expect(calls).toHaveLength(1)
    expect(calls[0]!.client).toBe(client)
  })
})

test('a long transaction is looked at for the client that sent it', async () => {
  const { calls, asking } = noting()
  const { service } = createTransactions({
    reader: memoryChain(),
    chain: CHAIN,
    journal: { append() {}, rewrite() {} },
    limits: DEFAULT_LIMITS,
    prove: refuse,
    makeDigest: createDigester(asking),
    isListed: refuse,
    now: () => 0,
    onFailure: refuse,
  })
  const client = { address: '10.0.0.7', isGone: false }
  const { raw } = transfer(0, 0, { input: new Uint8Array(70_000), gasLimit: 10_000_000n })
  expect(await service.submit(raw, client)).toMatchObject({ error: { message: 'no' } })
  expect(calls[0]!.client).toBe(client)
})

test('nobody is asked about what the sequencer has taken', async () => {
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

test('methods say who sends', async () => {
  const rpc = testRpc()
  const submit = rpc.pool.submit
  const clients: string[] = []
  const noted: TransactionService['submit'] = (raw, client) => {
    clients.push(client.address)
    return submit(raw, client)
  }
  Object.assign(rpc.pool, { submit: noted })
  const { raw } = transfer(0, 0)
  await rpc.ask('eth_sendRawTransaction', [bytesToHex(raw)], { address: '10.0.0.7' })
  expect(clients).toEqual(['10.0.0.7'])
})
