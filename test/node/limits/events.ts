/** These are limits for waiting clients and for subscriptions. */
import { expect } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import type { Client } from '../../../rpc/core/client.ts'
import type { Limits } from '../../../rpc/core/limits.ts'
import { execute, log, transfer } from '../../fixtures/executed.ts'
import { FlashblockChain } from '../../fixtures/flashblock-chain.ts'
import { type TestRpc, testRpc } from '../../fixtures/rpc.ts'
import { subscribed, testSubscriber } from '../../fixtures/subscriber.ts'
import { row, type Some } from './row.ts'

type Changed = Partial<Limits>

/** Gives the error codes when each of these addresses creates a filter. */
async function filtersOf(limits: Changed, ...clients: readonly string[]) {
  const rpc = testRpc({ limits })
  const codes: (number | undefined)[] = []
  for (const address of clients)
    codes.push((await rpc.request('eth_newBlockFilter', [], { address })).error?.code)
  return codes
}
/** Counts the filters that are left after three blocks without a poll. */
async function unread(limits: Changed): Promise<number> {
  const rpc = testRpc({ limits })
  await rpc.request('eth_newBlockFilter')
  for (let at = 0; at < 3; at++)
    rpc.memory.publish({ canonical: rpc.memory.make(rpc.memory.heads.canonical) })
  return rpc.stats().filters
}

/**
 * Makes a transaction in a pending block visible to these clients by its receipt; then they read
 * the account at latest.
 */
async function readAfterReceipt(limits: Changed, clients: readonly string[]) {
  const rpc = testRpc({ limits })
  const { canonical } = rpc.memory.heads
  const transaction = transfer(0n)
  const after = { nonce: 1n, balance: 1n, codeHash: EMPTY_HASH }
  const diff = [{ address: transaction.from, before: undefined, after, slots: [], code: undefined }]
  const executed = execute([transaction], [[log()]])
  const pending = rpc.memory.make(canonical, { executed, diff, index: 1, salt: 1 })
  rpc.memory.publish({ canonical, complete: canonical, pending })
  const requested: Promise<unknown>[] = []
  for (const address of clients)
    await rpc.request('eth_getTransactionReceipt', [bytesToHex(transaction.hash)], { address })
  for (const address of clients)
    requested.push(
      rpc.request('eth_getBalance', [bytesToHex(transaction.from), 'latest'], { address }),
    )
  await new Promise(setImmediate)
  const { held, refused } = rpc.stats().seen
  rpc.memory.publish({ canonical: pending })
  await Promise.all(requested)
  return { held, refused }
}

/** Counts the requests by these addresses that wait for a view which does not come. */
async function flashblockWaits(limits: Changed, ...clients: readonly string[]): Promise<number> {
  const rpc = testRpc({ limits })
  const gone = new AbortController()
  const { signal } = gone
  const requested = clients.map((address) =>
    rpc.request('eth_blockNumber', [], { address, signal, minFlashblock: '9:0' }),
  )
  await new Promise(setImmediate)
  const { waiting } = rpc.stats().flashblockWaits
  gone.abort()
  await Promise.all(requested)
  return waiting
}

/**
 * Counts the receipt holds when each of these addresses requests the receipt of an accepted
 * transaction at once.
 */
async function holds(limits: Changed, ...clients: readonly string[]) {
  const rpc = testRpc({ limits, receiptHoldMs: 5_000 })
  const hash = await accepted(rpc)
  const gone = new AbortController()
  const { signal } = gone
  const requested = clients.map((address) =>
    rpc.request('eth_getTransactionReceipt', [hash], { address, signal }),
  )
  await new Promise(setImmediate)
  const { held } = rpc.stats().hold
  gone.abort()
  await Promise.all(requested)
  return held
}
async function accepted(rpc: TestRpc): Promise<string> {
  const transaction = transfer(0n)
  await rpc.request('eth_sendRawTransaction', [bytesToHex(transaction.raw)])
  return bytesToHex(transaction.hash)
}

/** Gives the responses when each of these addresses sends a transaction and waits for it. */
async function syncSends(limits: Changed, ...clients: readonly string[]) {
  const rpc = testRpc({ limits })
  const requested = clients.map((address, at) =>
    rpc.request('eth_sendRawTransactionSync', [bytesToHex(transfer(BigInt(at)).raw), 60], {
      address,
    }),
  )
  return (await Promise.all(requested)).map(({ error }) => error?.message.replace(/0x\w+/, 'HASH'))
}

const A_TWENTY = `0x${'11'.repeat(20)}`
const subscribing = (limits: Changed, ...params: unknown[]) =>
  testRpc({ limits }).request('eth_subscribe', params, testSubscriber().client)

/**
 * Counts the flashblocks out of three that a subscriber receives who subscribed before the second.
 */
async function replayed(limits: Changed): Promise<number> {
  const rpc = testRpc({ limits })
  const chain = new FlashblockChain(rpc.memory)
  await subscribed(rpc, testSubscriber(), 'newFlashblockTransactions')
  for (const transaction of chain.transactions(3)) {
    chain.flashblock([transaction])
    chain.publish()
  }
  const one = testSubscriber()
  const id = await subscribed(rpc, one, 'newFlashblockTransactions', { since: '1:0' })
  return one.of(id).filter((result) => typeof result === 'string').length
}

const BUSY = [expect.anything(), 'server busy: too many sends wait for a receipt']
const A = '10.0.0.1'
const B = '10.0.0.2'

export const EVENTS = {
  filtersPerClient: row(1, [undefined, -32005], (limits) => filtersOf(limits, A, A)),
  filtersTotal: row(1, [undefined, -32005], (limits) => filtersOf(limits, A, B)),
  filterItems: row(2, 0, unread),
  filterBytes: row(140, 0, unread),
  filterIdleMs: row(1_000, 'filter not found', async (limits) => {
    const rpc = testRpc({ limits })
    const { result: id } = await rpc.request('eth_newBlockFilter')
    rpc.advance(1_001)
    return (await rpc.request('eth_getFilterChanges', [id])).error?.message
  }),
  subscriptionsPerConnection: row(1, [undefined, -32005], async (limits) => {
    const rpc = testRpc({ limits })
    const { signal } = new AbortController()
    const notify = () => true
    const client: Client = {
      address: A,
      endpoint: 'flashblocks',
      notify,
      signal,
      isGone: false,
    }
    const codes: (number | undefined)[] = []
    for (let at = 0; at < 2; at++)
      codes.push((await rpc.request('eth_subscribe', ['newHeads'], client)).error?.code)
    return codes
  }),
  subscribeAddresses: row(1, -32602, async (limits) => {
    const subscribeAddresses = [A_TWENTY, A_TWENTY]
    const { error } = await subscribing(limits, 'flashblocks', {
      subTxFilter: { subscribeAddresses },
    })
    return error?.code
  }),
  subscribeHashes: row(1, -32602, async (limits) => {
    const transactionHashes = [`0x${'11'.repeat(32)}`, `0x${'22'.repeat(32)}`]
    const { error } = await subscribing(limits, 'transactionReceipts', { transactionHashes })
    return error?.code
  }),
  replayFlashblocks: row(1, 1, replayed),
  replayBytes: row(6_000, 1, replayed),
  holdsPerClient: row(1, 1, (limits) => holds(limits, A, A)),
  holdsTotal: row(1, 1, (limits) => holds(limits, A, B)),
  placeWaitMs: row(0, 0, (limits) => flashblockWaits(limits, A)),
  placeWaitsPerClient: row(1, 1, (limits) => flashblockWaits(limits, A, A)),
  placeWaitsTotal: row(1, 1, (limits) => flashblockWaits(limits, A, B)),
  shownHoldMs: row(0, { held: 0, refused: 0 }, (limits) => readAfterReceipt(limits, [A])),
  announcedHoldMs: row(0, 0, async (limits) => {
    const rpc = testRpc({ limits })
    const { canonical } = rpc.memory.heads
    const { result: id } = await rpc.request('eth_newBlockFilter')
    const block = rpc.memory.make(canonical)
    rpc.memory.publish({ canonical, complete: block })
    const polled = rpc.request('eth_getFilterChanges', [id])
    await new Promise(setImmediate)
    rpc.memory.publish({ canonical: block })
    await polled
    return rpc.stats().seen.held
  }),
  shownClients: row(1, { held: 1, refused: 0 }, (limits) => readAfterReceipt(limits, [A, B])),
  // The last address of a receipt is that of its log.
  shownAddresses: row(1, { held: 0, refused: 0 }, (limits) => readAfterReceipt(limits, [A])),
  syncSendMs: row(40, [expect.stringContaining('within 40ms')], (limits) => syncSends(limits, A)),
  syncSendsPerClient: row(1, BUSY, (limits) => syncSends(limits, A, A)),
  syncSendsTotal: row(1, BUSY, (limits) => syncSends(limits, A, B)),
} satisfies Some
