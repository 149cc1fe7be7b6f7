/**
 * The outcomes of transactions are read over a real writer, persistence thread, ledger and txpool:
 * promised, kept, broken.
 */
import { describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import type { Forward } from '../../../rpc/core/ports.ts'
import { openPromises } from '../../../workers/front/promises.ts'
import { createTransactions } from '../../../workers/front/transactions.ts'
import { elsewhere } from '../../fixtures/elsewhere.ts'
import { CHAIN, createProducer, type ProducedBlock, send } from '../../fixtures/producer.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { WriterWorld } from '../../fixtures/writer-world.ts'

const KEY = hexToBytes(DEV_ACCOUNTS[1]!.privateKey)
const refuse = (): never => {
  throw new Error('nobody asks for it')
}
const nobody: Forward = { forward: async () => refuse() }

const [kept, replaced, reordered, dropped] = [send(0, 0), send(1, 0), send(2, 0), send(3, 0)]
const instead = send(1, 0, 8)

/**
 * Makes a node on block 1, which may follow others; the emitted block 2 differs from the final one.
 */
async function node({ isFollower = false, isElsewhere = false } = {}) {
  const producer = createProducer()
  const one = await producer.build(producer.genesis, 1, [[send(5, 0)]])
  const emitted = await producer.build(one, 2, [
    [kept, replaced],
    [reordered, dropped],
  ])
  const sealed = await producer.build(one, 3, [[kept, reordered], [instead]])
  const world = new WriterWorld()
  world.clock.ms = 1_000_000
  const { service, published } = createTransactions({
    reader: world.reader,
    chain: CHAIN,
    limits: DEFAULT_LIMITS,
    journal: { append() {}, rewrite() {} },
    prove: refuse,
    makeDigest: refuse,
    isListed: refuse,
    onFailure: refuse,
    now: () => world.clock.ms,
  })
  const rpc = testRpc({
    source: { reader: world.reader, onPublish: () => () => {} },
    promises: openPromises(world.database, () => world.clock.ms),
    transactions: isElsewhere ? elsewhere(service) : service,
    ...(isFollower ? { forward: nobody } : {}),
  })
  const request = async (method: string, ...params: unknown[]) => {
    const { result, error } = await rpc.request(method, params)
    expect(rpc.bugs).toEqual([])
    return error ?? result
  }
  const status = (one: SignedTransaction) =>
    request('flashblocks_transactionStatus', bytesToHex(one.hash)) as Promise<
      Record<string, unknown>
    >
  const publish = async (block: ProducedBlock, count: number) => {
    for (const message of block.flashblocks.slice(0, count)) {
      world.clock.ms += 200
      await world.packet(message)
      published(message.delta.transactions)
    }
    await world.settle()
  }
  const seal = async (block: ProducedBlock) => {
    world.clock.ms += 300
    await world.apply({ type: 'sealed', block: block.upstreamBlock })
    await world.settle({ ticks: true })
    published([])
  }
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  await publish(one, 2)
  await seal(one)
  return { world, emitted, sealed, service, rpc, request, status, publish, seal }
}

describe.each([false, true])('the status of a transaction (remote txpool: %s)', (isElsewhere) => {
  test('goes from unknown to pooled, preconfirmed and sealed', async () => {
    const { world, emitted, sealed, service, status, publish, seal } = await node({ isElsewhere })
    expect(await status(kept)).toEqual({
      hash: bytesToHex(kept.hash),
      status: 'unknown',
      promises: [],
    })
    const takenAt = world.clock.ms
    expect(await service.submit(kept.raw, refuse as never)).toHaveProperty('hash')
    world.clock.ms += 50
    expect(await status(kept)).toMatchObject({ status: 'pooled', takenAt })
    await publish(emitted, 2)
    const preconfirmedAt = world.clock.ms
    const promise = {
      blockNumber: '0x2',
      payloadId: emitted.payloadId,
      flashblockIndex: 1,
      transactionIndex: '0x1',
      preconfirmedAt,
    }
    expect(await status(kept)).toEqual({
      hash: bytesToHex(kept.hash),
      status: 'preconfirmed',
      blockNumber: '0x2',
      blockHash: bytesToHex(emitted.flashblocks[1]!.delta.blockHash!),
      transactionIndex: '0x1',
      flashblockIndex: 1,
      preconfirmedAt,
      promises: [{ ...promise, fate: 'open' }],
    })
    await seal(sealed)
    expect(await status(kept)).toEqual({
      hash: bytesToHex(kept.hash),
      status: 'sealed',
      blockNumber: '0x2',
      blockHash: bytesToHex(sealed.hash),
      transactionIndex: '0x1',
      flashblockIndex: 1,
      preconfirmedAt,
      sealedAt: world.clock.ms,
      promises: [{ ...promise, fate: 'kept', decidedAt: world.clock.ms }],
    })
  })

  test('is forwarded on a follower', async () => {
    const { service, status } = await node({ isFollower: true, isElsewhere })
    await service.submit(kept.raw, refuse as never)
    expect(await status(kept)).toMatchObject({ status: 'forwarded' })
  })

  test('says why a promise was broken, and the receipt is null again', async () => {
    const { emitted, sealed, request, status, publish, seal } = await node({ isElsewhere })
    await publish(emitted, 3)
    for (const one of [replaced, dropped]) {
      expect(await request('eth_getTransactionReceipt', bytesToHex(one.hash))).toMatchObject({
        status: '0x1',
      })
      expect(await status(one)).toMatchObject({ status: 'preconfirmed' })
    }
    await seal(sealed)
    for (const one of [replaced, dropped])
      expect(await request('eth_getTransactionReceipt', bytesToHex(one.hash))).toBeNull()
    expect(await status(dropped)).toMatchObject({
      status: 'dropped',
      isWaiting: true,
      promises: [{ blockNumber: '0x2', flashblockIndex: 2, fate: 'dropped' }],
    })
    expect(await status(replaced)).toMatchObject({
      status: 'replaced',
      promises: [{ fate: 'dropped' }],
    })
    expect(await status(reordered)).toMatchObject({
      status: 'sealed',
      transactionIndex: '0x2',
      promises: [{ fate: 'reordered', transactionIndex: '0x3' }],
    })
    // The transaction is in its block, but no flashblock had promised it.
    const unpromised = await status(instead)
    expect(unpromised).toMatchObject({ status: 'sealed', promises: [] })
    expect(unpromised).not.toHaveProperty('preconfirmedAt')
  })

  test('is replaced when another transaction has its nonce, pooled or visible', async () => {
    const { emitted, service, status, publish } = await node({ isElsewhere })
    await service.submit(replaced.raw, refuse as never)
    const dearer = signTransaction(
      {
        ...(replaced as Extract<SignedTransaction, { readonly type: 2 }>),
        maxFeePerGas: 10n ** 11n,
        maxPriorityFeePerGas: 10n,
      },
      KEY,
    )
    expect(await service.submit(dearer.raw, refuse as never)).toHaveProperty('hash')
    expect(await status(dearer)).toMatchObject({ status: 'pooled' })
    expect(await status(replaced)).toMatchObject({
      status: 'replaced',
      replacedBy: bytesToHex(dearer.hash),
      promises: [],
    })
    await publish(emitted, 2)
    // The visible transaction replaced both.
    expect(await status(replaced)).toMatchObject({ status: 'preconfirmed' })
    expect(await status(dearer)).toMatchObject({ status: 'replaced' })
  })

  test('is refused without a valid hash', async () => {
    const { request } = await node({ isElsewhere })
    expect(await request('flashblocks_transactionStatus', '0x12')).toMatchObject({ code: -32602 })
    expect(await request('flashblocks_transactionStatus')).toMatchObject({ code: -32602 })
  })
})

test('base_transactionStatus says whether the txpool has a transaction', async () => {
  const { emitted, sealed, service, request, publish, seal } = await node()
  const base = (one: SignedTransaction) => request('base_transactionStatus', bytesToHex(one.hash))
  expect(await base(kept)).toEqual({ status: 'Unknown' })
  await service.submit(kept.raw, refuse as never)
  expect(await base(kept)).toEqual({ status: 'Known' })
  await publish(emitted, 2)
  expect(await base(kept)).toEqual({ status: 'Known' })
  await seal(sealed)
  expect(await base(kept)).toEqual({ status: 'Unknown' })
})

test('on the standard endpoint a preconfirmed transaction has no block until sealed', async () => {
  const { emitted, sealed, service, rpc, publish, seal } = await node()
  expect(await service.submit(kept.raw, refuse as never)).toHaveProperty('hash')
  const blockOn = async (endpoint: 'standard' | 'flashblocks') => {
    const { result } = await rpc.request('eth_getTransactionByHash', [bytesToHex(kept.hash)], {
      endpoint,
    })
    return (result as { blockNumber: unknown } | null)?.blockNumber
  }
  await publish(emitted, 2)
  expect([await blockOn('standard'), await blockOn('flashblocks')]).toEqual([null, '0x2'])
  await seal(sealed)
  expect([await blockOn('standard'), await blockOn('flashblocks')]).toEqual(['0x2', '0x2'])
})

describe('flashblocks_stats', () => {
  test('has the counts of the promise ledger', async () => {
    const { emitted, sealed, request, publish, seal, world } = await node()
    await publish(emitted, 3)
    world.persistence.ledger.taken([40, 120])
    await seal(sealed)
    const stats = (await request('flashblocks_stats')) as Record<string, unknown>
    expect(stats).toMatchObject({
      window: 3_600,
      to: world.clock.ms,
      flashblocks: 3,
      promises: 5,
      fates: { kept: 2, reordered: 1, dropped: 2, unseen: 0 },
      rates: { kept: 0.4, reordered: 0.2, dropped: 0.4 },
      secondPayloads: 0,
      equivocations: 0,
      latency: { count: 2, mean: 80, p50: 50, p99: 150 },
      sealedAfter: { count: 2, p50: 300, p99: 600 },
    })
    expect(await request('flashblocks_stats', { window: 60 })).toMatchObject({ window: 60 })
  })

  test('refuses an invalid window', async () => {
    const { request } = await node()
    const refused = async (given: unknown) => (await request('flashblocks_stats', given)) as object
    for (const [given, message] of [
      [{ window: 0 }, 'params[0].window: must be whole seconds from 1 to 2592000, got 0'],
      [{ window: 1.5 }, 'params[0].window: must be whole seconds from 1 to 2592000, got 1.5'],
      [
        { window: '0x10' },
        'params[0].window: expected whole seconds from 1 to 2592000, got "0x10"',
      ],
      [{ windows: 5 }, 'params[0]: unknown field "windows", expected one of window'],
      [60, 'params[0]: expected an object {window}, got 60'],
      [[], 'params[0]: expected an object {window}, got an array'],
    ] as const)
      expect(await refused(given)).toMatchObject({ code: -32602, message })
  })
})
