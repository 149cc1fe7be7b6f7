/**
 * The cached text of persisted blocks equals a newly made text, whatever the chain has done since.
 */
import { expect, test } from 'vitest'
import { createLogRowsCache, type LogRowsCache } from '../../../engine/chain/log-rows-cache.ts'
import { openChainReader } from '../../../engine/chain/reader.ts'
import type { ExecutedTransaction } from '../../../engine/execution/transaction/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { Log, Receipt } from '../../../engine/primitives/receipt.ts'
import { bloomOf } from '../../../engine/primitives/receipt-codec.ts'
import type { Transaction } from '../../../engine/primitives/transaction.ts'
import { openStore } from '../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../engine/storage/database/rocksdb.ts'
import { createViews, persistenceWords } from '../../../engine/views/arena.ts'
import { openPublisher } from '../../../engine/views/publisher.ts'
import type { Limits } from '../../../rpc/core/limits.ts'
import { CONTRACT, deposit, filled, transfer } from '../../fixtures/executed.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { EMPTY_WORLD } from '../../fixtures/view-blocks.ts'
import { plainChain } from '../../fixtures/view-chain.ts'
import { Driver } from '../../fixtures/view-driver.ts'
import { persistenceDurable } from '../../fixtures/view-persistence.ts'

const GENESIS = 1000
const NO_CACHE: Partial<Limits> = { resultCacheItems: 0 }
const TYPES = [0, 1, 2, 3, 4, 0x7e] as const

function transactionOf(seed: number, size: number): Transaction {
  const type = TYPES[seed % TYPES.length]!
  const input = filled(size, seed)
  const accessList = [{ address: CONTRACT, storageKeys: [filled(32, 1), filled(32, 2)] }]
  const nonce = BigInt(seed)
  const fees = { maxFeePerGas: 3_000_000_000n, maxPriorityFeePerGas: 7n }
  switch (type) {
    case 0x7e:
      return deposit()
    case 0:
      return transfer(nonce, {
        type,
        gasPrice: 9n,
        input,
        ...(seed % 4 === 0 ? {} : { to: undefined }),
      })
    case 1:
      return transfer(nonce, { type, gasPrice: 9n, accessList })
    case 2:
      return transfer(nonce, { type, ...fees, accessList, input })
    case 3: {
      const blobs = { maxFeePerBlobGas: 5n, blobVersionedHashes: [filled(32, 1)] }
      return transfer(nonce, { type, ...fees, ...blobs })
    }
    case 4: {
      const signed = { chainId: 196n, address: CONTRACT, nonce: 3n, yParity: 1n }
      return transfer(nonce, { type, ...fees, authorizationList: [{ ...signed, r: 8n, s: 9n }] })
    }
  }
}

/** Makes logs with none to four topics, and with short and long data. */
const logsOf = (seed: number, count: number): readonly Log[] =>
  Array.from({ length: count }, (_, at) => ({
    address: filled(20, 1 + ((seed + at) % 3)),
    topics: Array.from({ length: (seed + at) % 5 }, (_none, topic) => filled(32, seed + topic)),
    data: filled([0, 1, 32, 95, 96, 200, 5_000][(seed + at) % 7]!, seed),
  }))

function executedOf(seed: number, size: number, count: number): ExecutedTransaction {
  const transaction = transactionOf(seed, size)
  const logs = logsOf(seed, count)
  const isDeposit = transaction.type === 0x7e
  const receipt: Receipt = {
    type: transaction.type,
    status: seed % 2 === 0 ? 1 : 0,
    ...(transaction.type === 0 && seed % 5 === 0 ? { root: filled(32, seed) } : {}),
    cumulativeGasUsed: BigInt(seed) * 21_000n,
    gasUsed: 21_000n,
    logsBloom: bloomOf(logs),
    logs,
    contractAddress: seed % 6 === 0 ? filled(20, seed) : undefined,
    effectiveGasPrice: isDeposit ? 0n : 7n,
    ...(isDeposit ? { depositNonce: BigInt(seed), depositReceiptVersion: 1n } : {}),
    ...(transaction.type === 3 ? { blobGasUsed: 131_072n, blobGasPrice: 1n } : {}),
    ...(seed % 3 === 0 ? { l1: { l1GasPrice: 1n, l1GasUsed: 2n, l1Fee: 3n } } : {}),
  }
  return { transaction, receipt }
}

function open() {
  const views = createViews({ bytes: 512 * 4096, threads: 2, seed: 5, pageBytes: 4096 })
  const database = memoryDatabase()
  const words = persistenceWords(views)
  const durable = persistenceDurable({ database, words, genesisNumber: GENESIS, pieces: 8 })
  const chain = plainChain(GENESIS)
  const publisher = openPublisher(views, { number: GENESIS, hash: chain.genesisHash })
  const driver = new Driver(publisher, durable, EMPTY_WORLD)
  driver.make = executedOf
  const listeners = new Set<() => void>()
  const rpc = (thread: number, logRows: LogRowsCache, limits: Partial<Limits>) => {
    const reader = openChainReader({ views, store: openStore(database), chain, thread, logRows })
    const onPublish = (listener: () => void) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    }
    return testRpc({ source: { reader, onPublish }, chain, limits: { ...NO_CACHE, ...limits } })
  }
  const notify = () => {
    for (const listener of [...listeners]) listener()
  }
  return { driver, rpc, words, notify }
}

type Rpc = ReturnType<typeof testRpc>
const OPS = ['payload', 'flashblock', 'flashblock', 'seal', 'advance', 'slice', 'slice'] as const

function move(driver: Driver, op: (typeof OPS)[number], seed: number): void {
  if (op === 'slice') driver.slice(seed % 3)
  else if (op === 'payload' || op === 'flashblock') driver[op](seed)
  else driver[op]()
}

/**
 * Lists all requests with a cacheable result, for every block and transaction that ever existed.
 */
function questions(driver: Driver, hashes: ReadonlySet<string>, blocks: ReadonlySet<string>) {
  const requested: (readonly [string, readonly unknown[]])[] = []
  const hex = (number: number) => `0x${number.toString(16)}`
  for (let number = GENESIS; number <= driver.pending.number; number++) {
    const at = hex(number)
    for (const isFull of [true, false]) requested.push(['eth_getBlockByNumber', [at, isFull]])
    requested.push(['eth_getBlockReceipts', [at]])
    requested.push(['eth_getTransactionByBlockNumberAndIndex', [at, '0x1']])
  }
  for (const hash of blocks) {
    requested.push(['eth_getBlockByHash', [hash, true]])
    requested.push(['eth_getTransactionByBlockHashAndIndex', [hash, '0x0']])
    requested.push(['eth_getLogs', [{ blockHash: hash }]])
  }
  for (const hash of hashes) {
    requested.push(['eth_getTransactionReceipt', [hash]])
    requested.push(['eth_getTransactionByHash', [hash]])
  }
  const all = { fromBlock: hex(GENESIS), toBlock: 'latest' }
  const topics = [bytesToHex(filled(32, 7)), null]
  for (const more of [{}, { address: bytesToHex(filled(20, 2)) }, { topics }, { topics: [topics] }])
    requested.push(['eth_getLogs', [{ ...all, ...more }]])
  requested.push(['eth_getLogs', [{ ...all, fromBlock: hex(driver.canonical.number - 1) }]])
  return requested
}

async function same(
  cached: Rpc,
  fresh: Rpc,
  requested: ReturnType<typeof questions>,
): Promise<void> {
  for (const [method, params] of requested)
    for (const endpoint of ['standard', 'flashblocks'] as const) {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
      const [one, other] = [
        await cached.send(body, { endpoint }),
        await fresh.send(body, { endpoint }),
      ]
      expect(one.text, body).toBe(other.text)
    }
}

test('cached texts equal new ones for all transaction types and over reorgs', async () => {
  const { driver, rpc, words, notify } = open()
  // The cache holds a few blocks, so that the oldest are evicted.
  const logRows = createLogRowsCache(60_000)
  const cached = rpc(0, logRows, { keptTextBytes: 400_000 })
  const fresh = rpc(1, createLogRowsCache(0), { keptTextBytes: 0 })
  const hashes = new Set<string>()
  const blocks = new Set<string>()
  let seed = 1
  const next = () => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed
  }
  for (let step = 1; step <= 150; step++) {
    const at = next()
    if (step % 40 === 0 && driver.persisted.length > 3) driver.branch(driver.persisted.at(-3)!, at)
    else move(driver, OPS[at % OPS.length]!, next())
    notify()
    for (const { executed } of driver.pending.steps)
      for (const { transaction } of executed) hashes.add(bytesToHex(transaction.hash))
    const { final } = driver.complete
    if (final !== undefined) blocks.add(bytesToHex(final.hash))
    if (step % 12 === 0) await same(cached, fresh, questions(driver, hashes, blocks))
  }
  expect(words.unwinds()).toBeGreaterThan(1)
  expect(driver.persisted.length).toBeGreaterThan(3)
  expect([...cached.bugs, ...fresh.bugs]).toEqual([])
  const { texts } = cached.stats()
  expect(texts.hits).toBeGreaterThan(100)
  expect(texts.bytes).toBeLessThanOrEqual(400_000)
  expect(fresh.stats().texts).toEqual({ hits: 0, misses: 0, items: 0, bytes: 0 })
  expect(logRows.stats.hits).toBeGreaterThan(100)
  expect(logRows.stats.bytes).toBeLessThanOrEqual(60_000)
})
