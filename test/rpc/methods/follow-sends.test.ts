/** Transactions of a node that follows others: the sequencer takes them, and the txpool here keeps what it has taken. */
import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'
import type { Forward, Forwarded } from '../../../rpc/seam/ports.ts'
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

/** A sequencer that says this to all; what it is asked. */
function sequencer(says: (signal: AbortSignal) => Forwarded | Promise<Forwarded>) {
  const heard: unknown[] = []
  const forward: Forward = {
    async forward(method, params, { to, client, signal }) {
      heard.push([method, ...params, to, client])
      return says(signal)
    },
  }
  return { heard, forward }
}

/** A chain whose state is fetched, with a real txpool. */
function follower(says: () => Forwarded | Promise<Forwarded>, balance = 10n ** 20n) {
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
    ...{ prove: refuse, makeDigest: refuse, isListed: refuse, onFailure: refuse },
    now: () => 0,
  })
  const { heard, forward } = sequencer(says)
  const source = { reader: chain.reader, onPublish: memory.onPublish }
  const { lazy } = chain
  const rpc = testRpc({ source, memory, lazy, forward, transactions: service })
  return { rpc, chain, service, heard }
}

describe('a transaction', () => {
  test('is here once the sequencer has said yes', async () => {
    const answer = Promise.withResolvers<Forwarded>()
    const { heard, forward } = sequencer(() => answer.promise)
    const rpc = testRpc({ forward })
    const { submit } = rpc.pool
    let isTaken: boolean | undefined
    Object.assign(rpc.pool, {
      submit(...sent: Parameters<typeof submit>) {
        isTaken = sent[2]
        return submit(...sent)
      },
    })
    const asked = rpc.ask('eth_sendRawTransaction', [RAW], { address: '10.0.0.7' })
    await expect.poll(() => heard.length).toBe(1)
    expect(rpc.pool.transactions).toHaveLength(0)
    answer.resolve(YES)
    expect((await asked).result).toBe(HASH)
    expect(heard).toEqual([['eth_sendRawTransaction', RAW, 'sequencer', '10.0.0.7']])
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
      'cannot be sent',
      { silent: 'connection refused' },
      {
        code: -32_000,
        message:
          'no answer from the sequencer (connection refused): it may have taken the transaction',
      },
    ],
    [
      'is answered without a hash',
      { result: '"yes"' },
      {
        code: -32_603,
        message: 'the sequencer took the transaction, but answered without its hash',
      },
    ],
  ])('that %s is not here', async (_name, says, error) => {
    const rpc = testRpc({ forward: sequencer(() => says).forward })
    for (const method of ['eth_sendRawTransaction', 'eth_sendRawTransactionSync'])
      expect((await rpc.ask(method, [RAW])).error).toEqual(error)
    expect(rpc.pool.transactions).toHaveLength(0)
    expect(rpc.bugs).toEqual([])
  })

  test('that the sequencer is silent about may have been taken', async () => {
    let isTold = false
    const { forward } = sequencer(async (signal) => {
      signal.addEventListener('abort', () => {
        isTold = true
      })
      return new Promise<Forwarded>(() => {})
    })
    const rpc = testRpc({ forward, limits: { sequencerMs: 30 } })
    expect((await rpc.ask('eth_sendRawTransaction', [RAW])).error).toEqual({
      code: -32_000,
      message: 'no answer from the sequencer within 30 ms: it may have taken the transaction',
    })
    expect(isTold).toBe(true)
  })

  test('that is too long goes nowhere', async () => {
    const { heard, forward } = sequencer(() => YES)
    const rpc = testRpc({ forward })
    const { error } = await rpc.ask('eth_sendRawTransaction', [`0x${'02'.repeat(131_073)}`])
    expect(error?.message).toBe('oversized data: transaction size 131073, limit 131072')
    expect(heard).toEqual([])
  })

  test('sent for its receipt waits for its block', async () => {
    const rpc = testRpc({ forward: sequencer(() => YES).forward })
    const asked = rpc.ask('eth_sendRawTransactionSync', [RAW])
    await expect.poll(() => rpc.stats().receiptWaits).toBe(1)
    const { memory } = rpc
    const executed = execute([sent], [[]])
    memory.publish({ canonical: memory.make(memory.genesis, { executed }) })
    expect((await asked).result).toMatchObject({ transactionHash: HASH, blockNumber: '0x1' })
  })
})

describe('where state is fetched', () => {
  test('the account of the sender is, while the sequencer is asked', async () => {
    const answer = Promise.withResolvers<Forwarded>()
    const { rpc, chain, service } = follower(() => answer.promise)
    const asked = rpc.ask('eth_sendRawTransaction', [RAW], { address: '10.0.0.7' })
    const account = `account ${bytesToHex(addressOfSender(0))}`
    await expect.poll(() => chain.fetches.length).toBe(1)
    expect(chain.fetches[0]).toEqual({ keys: [account], for: 'send', client: '10.0.0.7' })
    expect(service.isExpected(sent.hash)).toBe(false)
    answer.resolve(YES)
    expect((await asked).result).toBe(HASH)
    expect(service.isExpected(sent.hash)).toBe(true)
    // What the L1 costs is fetched for the txpool.
    const others = chain.fetches.slice(1).flatMap(({ keys }) => keys)
    expect(others).not.toContain(account)
    expect(others.every((key) => key.startsWith('slot '))).toBe(true)
    expect(rpc.memory.leaks()).toBe(0)
  })

  test('a transaction that the txpool would refuse is taken all the same', async () => {
    const { rpc, service } = follower(() => YES, 0n)
    expect((await rpc.ask('eth_sendRawTransaction', [RAW])).result).toBe(HASH)
    expect(service.isExpected(sent.hash)).toBe(false)
  })

  test('the sequencer judges what is no transaction', async () => {
    const error = { code: -32_602, message: 'failed to decode signed transaction' }
    const { rpc, chain } = follower(() => ({ error }))
    expect((await rpc.ask('eth_sendRawTransaction', ['0x02c0'])).error).toEqual(error)
    expect(chain.fetches).toEqual([])
  })

  test('a transaction of an own account is filled in first, and sent once', async () => {
    const { rpc, chain, heard } = follower(() => YES)
    const call = { from: owner.address, to: owner.address, gasPrice: '0x77359400', gas: '0x5208' }
    const { result, error } = await rpc.ask('eth_sendTransaction', [call])
    expect([result, error]).toEqual([HASH, undefined])
    expect(heard).toHaveLength(1)
    expect(chain.fetches[0]).toMatchObject({
      keys: [`account ${owner.address.toLowerCase()}`],
      for: 'send',
    })
  })
})
