/**
 * A follower forwards transactions to the sequencer, and its own txpool stores the accepted ones.
 */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import type { Forward, Forwarded } from '../../../rpc/core/ports.ts'
import { createTransactions } from '../../../workers/front/transactions.ts'
import { execute } from '../../fixtures/executed.ts'
import { lazyChain } from '../../fixtures/lazy-state.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { owner } from '../../fixtures/probe-chain.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { addressOfSender, transfer } from '../../fixtures/txpool.ts'

const sent = transfer(0, 0)
const RAW = bytesToHex(sent.raw)
const HASH = bytesToHex(sent.hash)
const YES: Forwarded = { result: `"${HASH}"` }
const refuse = (): never => {
  throw new Error('nobody asks for it')
}

/** Makes a sequencer that always gives this response, and records its requests. */
function sequencer(reply: (signal: AbortSignal) => Forwarded | Promise<Forwarded>) {
  const received: unknown[] = []
  const forward: Forward = {
    async forward(method, params, { to, client, signal }) {
      received.push([method, ...params, to, client])
      return reply(signal)
    },
  }
  return { received, forward }
}

/** Makes a chain with fetched state, and a real txpool. */
function follower(reply: () => Forwarded | Promise<Forwarded>, balance = 10n ** 20n) {
  const after = { nonce: 0n, balance, codeHash: EMPTY_HASH }
  const changed = { before: undefined, after, slots: [], code: undefined }
  const memory = memoryChain([
    { ...changed, address: addressOfSender(0) },
    { ...changed, address: Buffer.from(owner.address.slice(2), 'hex') },
  ])
  const chain = lazyChain(memory)
  const { service } = createTransactions({
    reader: chain.reader,
    chain: CHAIN,
    journal: { append() {}, rewrite() {} },
    limits: DEFAULT_LIMITS,
    prove: refuse,
    makeDigest: refuse,
    isListed: refuse,
    onFailure: refuse,
    now: () => 0,
  })
  const { received, forward } = sequencer(reply)
  const source = { reader: chain.reader, onPublish: memory.onPublish }
  const { lazy } = chain
  const rpc = testRpc({ source, memory, lazy, forward, transactions: service })
  return { rpc, chain, service, received }
}

describe('a transaction', () => {
  test('enters the txpool only after the sequencer has accepted it', async () => {
    const response = Promise.withResolvers<Forwarded>()
    const { received, forward } = sequencer(() => response.promise)
    const rpc = testRpc({ forward })
    const { submit } = rpc.pool
    let isTaken: boolean | undefined
    Object.assign(rpc.pool, {
      submit(...sent: Parameters<typeof submit>) {
        isTaken = sent[2]
        return submit(...sent)
      },
    })
    const request = rpc.request('eth_sendRawTransaction', [RAW], { address: '10.0.0.7' })
    await expect.poll(() => received.length).toBe(1)
    expect(rpc.pool.transactions).toHaveLength(0)
    response.resolve(YES)
    expect((await request).result).toBe(HASH)
    expect(received).toEqual([['eth_sendRawTransaction', RAW, 'sequencer', '10.0.0.7']])
    expect(rpc.pool.transactions.map(({ hash }) => bytesToHex(hash))).toEqual([HASH])
    expect(isTaken).toBe(true)
  })

  test.each<[string, Forwarded, object]>([
    [
      'the sequencer refuses',
      { error: { code: -38_123, message: 'nönce too low', data: { next: '0x7' } } },
      { code: -38_123, message: 'nönce too low', data: { next: '0x7' } },
    ],
    [
      'cannot reach the sequencer',
      { silent: 'connection refused' },
      {
        code: -32_000,
        message:
          'no response from the sequencer (connection refused): it may have accepted the transaction',
      },
    ],
    [
      'gets a response without a hash',
      { result: '"yes"' },
      {
        code: -32_603,
        message: 'the sequencer accepted the transaction, but did not return its hash',
      },
    ],
  ])('that %s does not enter the txpool', async (_name, reply, error) => {
    const rpc = testRpc({ forward: sequencer(() => reply).forward })
    for (const method of ['eth_sendRawTransaction', 'eth_sendRawTransactionSync'])
      expect((await rpc.request(method, [RAW])).error).toEqual(error)
    expect(rpc.pool.transactions).toHaveLength(0)
    expect(rpc.bugs).toEqual([])
  })

  test('gets an error that it may have been accepted when the sequencer is silent', async () => {
    let isReported = false
    const { forward } = sequencer(async (signal) => {
      signal.addEventListener('abort', () => {
        isReported = true
      })
      return new Promise<Forwarded>(() => {})
    })
    const rpc = testRpc({ forward, limits: { sequencerMs: 30 } })
    expect((await rpc.request('eth_sendRawTransaction', [RAW])).error).toEqual({
      code: -32_000,
      message: 'no response from the sequencer within 30 ms: it may have accepted the transaction',
    })
    expect(isReported).toBe(true)
  })

  test('that is oversized is not forwarded', async () => {
    const { received, forward } = sequencer(() => YES)
    const rpc = testRpc({ forward })
    const { error } = await rpc.request('eth_sendRawTransaction', [`0x${'02'.repeat(131_073)}`])
    expect(error?.message).toBe('oversized data: transaction size 131073, limit 131072')
    expect(received).toEqual([])
  })

  test('sent for its receipt waits for its block', async () => {
    const rpc = testRpc({ forward: sequencer(() => YES).forward })
    const request = rpc.request('eth_sendRawTransactionSync', [RAW])
    await expect.poll(() => rpc.stats().receiptWaits).toBe(1)
    const { memory } = rpc
    const executed = execute([sent], [[]])
    memory.publish({ canonical: memory.make(memory.genesis, { executed }) })
    expect((await request).result).toMatchObject({ transactionHash: HASH, blockNumber: '0x1' })
  })
})

describe('a follower that fetches state', () => {
  test('fetches the account of the sender while it forwards the transaction', async () => {
    const response = Promise.withResolvers<Forwarded>()
    const { rpc, chain, service } = follower(() => response.promise)
    const request = rpc.request('eth_sendRawTransaction', [RAW], { address: '10.0.0.7' })
    const account = `account ${bytesToHex(addressOfSender(0))}`
    await expect.poll(() => chain.fetches.length).toBe(1)
    expect(chain.fetches[0]).toEqual({ keys: [account], for: 'send', client: '10.0.0.7' })
    expect(service.isExpected(sent.hash)).toBe(false)
    response.resolve(YES)
    expect((await request).result).toBe(HASH)
    expect(service.isExpected(sent.hash)).toBe(true)
    // The txpool needs the L1 cost, which is fetched.
    const others = chain.fetches.slice(1).flatMap(({ keys }) => keys)
    expect(others).not.toContain(account)
    expect(others.every((key) => key.startsWith('slot '))).toBe(true)
    expect(rpc.memory.leaks()).toBe(0)
  })

  test('accepts a transaction that its own txpool refuses', async () => {
    const { rpc, service } = follower(() => YES, 0n)
    expect((await rpc.request('eth_sendRawTransaction', [RAW])).result).toBe(HASH)
    expect(service.isExpected(sent.hash)).toBe(false)
  })

  test('lets the sequencer refuse a malformed transaction', async () => {
    const error = { code: -32_602, message: 'failed to decode signed transaction' }
    const { rpc, chain } = follower(() => ({ error }))
    expect((await rpc.request('eth_sendRawTransaction', ['0x02c0'])).error).toEqual(error)
    expect(chain.fetches).toEqual([])
  })

  test('fills in a transaction of its own account, and sends it once', async () => {
    const { rpc, chain, received } = follower(() => YES)
    const call = { from: owner.address, to: owner.address, gasPrice: '0x77359400', gas: '0x5208' }
    const { result, error } = await rpc.request('eth_sendTransaction', [call])
    expect([result, error]).toEqual([HASH, undefined])
    expect(received).toHaveLength(1)
    expect(chain.fetches[0]).toMatchObject({
      keys: [`account ${owner.address.toLowerCase()}`],
      for: 'send',
    })
  })
})
