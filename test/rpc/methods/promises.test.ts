/** What became of transactions, asked over a real writer, keeper, ledger and txpool: promised, kept, broken. */
import { describe, expect, test } from 'vitest'
import { DEV_ACCOUNTS } from '../../../engine/chainspec/dev-accounts.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { signTransaction } from '../../../engine/primitives/transaction-codec.ts'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'
import type { Forward } from '../../../rpc/seam/ports.ts'
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

/** A node on block 1, which may follow others; what it is told of block 2 is not what becomes of it. */
async function node({ isFollower = false, isElsewhere = false } = {}) {
  const producer = createProducer()
  const one = await producer.build(producer.genesis, 1, [[send(5, 0)]])
  const told = await producer.build(one, 2, [
    [kept, replaced],
    [reordered, dropped],
  ])
  const sealed = await producer.build(one, 3, [[kept, reordered], [instead]])
  const world = new WriterWorld()
  world.clock.ms = 1_000_000
  const { service, published } = createTransactions({
    ...{ reader: world.reader, chain: CHAIN, limits: DEFAULT_LIMITS },
    journal: { append() {}, rewrite() {} },
    ...{ prove: refuse, makeDigest: refuse, isListed: refuse, onFailure: refuse },
    now: () => world.clock.ms,
  })
  const rpc = testRpc({
    source: { reader: world.reader, onPublish: () => () => {} },
    promises: openPromises(world.database, () => world.clock.ms),
    transactions: isElsewhere ? elsewhere(service) : service,
    ...(isFollower ? { forward: nobody } : {}),
  })
  const ask = async (method: string, ...params: unknown[]) => {
    const { result, error } = await rpc.ask(method, params)
    expect(rpc.bugs).toEqual([])
    return error ?? result
  }
  const status = (one: SignedTransaction) =>
    ask('flashblocks_transactionStatus', bytesToHex(one.hash)) as Promise<Record<string, unknown>>
  const show = async (block: ProducedBlock, count: number) => {
    for (const message of block.flashblocks.slice(0, count)) {
      world.clock.ms += 200
      await world.packet(message)
      published(message.delta.transactions)
    }
    await world.settle()
  }
  const seal = async (block: ProducedBlock) => {
    world.clock.ms += 300
    await world.apply({ type: 'sealed', block: block.sealed })
    await world.settle({ ticks: true })
    published([])
  }
  await world.apply({ type: 'feed', feed: 0, isConnected: true })
  await show(one, 2)
  await seal(one)
  return { world, told, sealed, service, rpc, ask, status, show, seal }
}

describe.each([false, true])(
  'the status of a transaction, its txpool elsewhere: %s',
  (isElsewhere) => {
    test('from the txpool to the canonical block that keeps it', async () => {
      const { world, told, sealed, service, status, show, seal } = await node({ isElsewhere })
      expect(await status(kept)).toEqual({
        hash: bytesToHex(kept.hash),
        ...{ status: 'unknown', promises: [] },
      })
      const takenAt = world.clock.ms
      expect(await service.submit(kept.raw, refuse as never)).toHaveProperty('hash')
      world.clock.ms += 50
      expect(await status(kept)).toMatchObject({ status: 'pooled', takenAt })
      await show(told, 2)
      const preconfirmedAt = world.clock.ms
      const promise = {
        ...{ blockNumber: '0x2', payloadId: told.payloadId, flashblockIndex: 1 },
        ...{ transactionIndex: '0x1', preconfirmedAt },
      }
      expect(await status(kept)).toEqual({
        hash: bytesToHex(kept.hash),
        status: 'preconfirmed',
        blockNumber: '0x2',
        blockHash: bytesToHex(told.flashblocks[1]!.delta.blockHash!),
        transactionIndex: '0x1',
        ...{ flashblockIndex: 1, preconfirmedAt },
        promises: [{ ...promise, fate: 'open' }],
      })
      await seal(sealed)
      expect(await status(kept)).toEqual({
        hash: bytesToHex(kept.hash),
        status: 'sealed',
        blockNumber: '0x2',
        blockHash: bytesToHex(sealed.hash),
        transactionIndex: '0x1',
        ...{ flashblockIndex: 1, preconfirmedAt, sealedAt: world.clock.ms },
        promises: [{ ...promise, fate: 'kept', decidedAt: world.clock.ms }],
      })
    })

    test('that was forwarded, where the node follows others', async () => {
      const { service, status } = await node({ isFollower: true, isElsewhere })
      await service.submit(kept.raw, refuse as never)
      expect(await status(kept)).toMatchObject({ status: 'forwarded' })
    })

    test('whose promise was broken: its receipt is null again, and the status says why', async () => {
      const { told, sealed, ask, status, show, seal } = await node({ isElsewhere })
      await show(told, 3)
      for (const one of [replaced, dropped]) {
        expect(await ask('eth_getTransactionReceipt', bytesToHex(one.hash))).toMatchObject({
          status: '0x1',
        })
        expect(await status(one)).toMatchObject({ status: 'preconfirmed' })
      }
      await seal(sealed)
      for (const one of [replaced, dropped])
        expect(await ask('eth_getTransactionReceipt', bytesToHex(one.hash))).toBeNull()
      expect(await status(dropped)).toMatchObject({
        ...{ status: 'dropped', isWaiting: true },
        promises: [{ blockNumber: '0x2', flashblockIndex: 2, fate: 'dropped' }],
      })
      expect(await status(replaced)).toMatchObject({
        status: 'replaced',
        promises: [{ fate: 'dropped' }],
      })
      expect(await status(reordered)).toMatchObject({
        ...{ status: 'sealed', transactionIndex: '0x2' },
        promises: [{ fate: 'reordered', transactionIndex: '0x3' }],
      })
      // It is in its place, but nobody had promised it.
      const unpromised = await status(instead)
      expect(unpromised).toMatchObject({ status: 'sealed', promises: [] })
      expect(unpromised).not.toHaveProperty('preconfirmedAt')
    })

    test('that another one of its nonce has replaced, in the txpool or in a flashblock', async () => {
      const { told, service, status, show } = await node({ isElsewhere })
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
        ...{ status: 'replaced', replacedBy: bytesToHex(dearer.hash), promises: [] },
      })
      await show(told, 2)
      // What was shown took the place of both.
      expect(await status(replaced)).toMatchObject({ status: 'preconfirmed' })
      expect(await status(dearer)).toMatchObject({ status: 'replaced' })
    })

    test('asks for a hash', async () => {
      const { ask } = await node({ isElsewhere })
      expect(await ask('flashblocks_transactionStatus', '0x12')).toMatchObject({ code: -32602 })
      expect(await ask('flashblocks_transactionStatus')).toMatchObject({ code: -32602 })
    })
  },
)

test("Base's status says whether the txpool has it, until it is canonical", async () => {
  const { told, sealed, service, ask, show, seal } = await node()
  const base = (one: SignedTransaction) => ask('base_transactionStatus', bytesToHex(one.hash))
  expect(await base(kept)).toEqual({ status: 'Unknown' })
  await service.submit(kept.raw, refuse as never)
  expect(await base(kept)).toEqual({ status: 'Known' })
  await show(told, 2)
  expect(await base(kept)).toEqual({ status: 'Known' })
  await seal(sealed)
  expect(await base(kept)).toEqual({ status: 'Unknown' })
})

test('where flashblocks are not shown, a transaction of one waits until its block is sealed', async () => {
  const { told, sealed, service, rpc, show, seal } = await node()
  expect(await service.submit(kept.raw, refuse as never)).toHaveProperty('hash')
  const blockOn = async (endpoint: 'standard' | 'flashblocks') => {
    const { result } = await rpc.ask('eth_getTransactionByHash', [bytesToHex(kept.hash)], {
      endpoint,
    })
    return (result as { blockNumber: unknown } | null)?.blockNumber
  }
  await show(told, 2)
  expect([await blockOn('standard'), await blockOn('flashblocks')]).toEqual([null, '0x2'])
  await seal(sealed)
  expect([await blockOn('standard'), await blockOn('flashblocks')]).toEqual(['0x2', '0x2'])
})

describe('statistics', () => {
  test('are what the ledger counts', async () => {
    const { told, sealed, ask, show, seal, world } = await node()
    await show(told, 3)
    world.keeper.ledger.taken([40, 120])
    await seal(sealed)
    const stats = (await ask('flashblocks_stats')) as Record<string, unknown>
    expect(stats).toMatchObject({
      window: 3_600,
      to: world.clock.ms,
      ...{ flashblocks: 3, promises: 5 },
      fates: { kept: 2, reordered: 1, dropped: 2, unseen: 0 },
      rates: { kept: 0.4, reordered: 0.2, dropped: 0.4 },
      ...{ secondPayloads: 0, equivocations: 0 },
      latency: { count: 2, mean: 80, p50: 50, p99: 150 },
      sealedAfter: { count: 2, p50: 300, p99: 600 },
    })
    expect(await ask('flashblocks_stats', { window: 60 })).toMatchObject({ window: 60 })
  })

  test('refuse what is no window', async () => {
    const { ask } = await node()
    const refused = async (given: unknown) => (await ask('flashblocks_stats', given)) as object
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
