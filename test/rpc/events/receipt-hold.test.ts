import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import type { Departure } from '../../../engine/txpool/departed.ts'
import { createReceiptWaits } from '../../../rpc/events/receipt-waits.ts'
import { elsewhere } from '../../fixtures/elsewhere.ts'
import { execute, transfer } from '../../fixtures/executed.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { type Reply, testRpc } from '../../fixtures/rpc.ts'
import { type SmallPool, smallPool } from '../../fixtures/small-pool.ts'

const LONG = 5_000
type Rpc = ReturnType<typeof testRpc>

/** Adds a flashblock to the pending block, with these transactions or with none. */
function flashblock(
  rpc: Rpc,
  index: number,
  transactions: readonly SignedTransaction[] = [],
): void {
  const { memory } = rpc
  const { canonical } = memory.heads
  const pending = memory.make(canonical, { executed: execute(transactions), index, salt: index })
  memory.publish({ canonical, complete: canonical, pending })
}
async function accepted(rpc: Rpc, nonce = 0n): Promise<SignedTransaction> {
  const transaction = transfer(nonce)
  await rpc.request('eth_sendRawTransaction', [bytesToHex(transaction.raw)])
  return transaction
}
const receiptOf = ({ hash }: SignedTransaction) => bytesToHex(hash)
const request = (method: string, params: unknown[], id = 1) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
})
const held = async (rpc: Rpc, count: number) => {
  while (rpc.stats().receiptWaits < count) await new Promise(setImmediate)
}

describe('the receipt hold', () => {
  test('answers with the flashblock that contains the transaction', async () => {
    const rpc = testRpc({ receiptHoldMs: LONG })
    const transaction = await accepted(rpc)
    const requested = rpc.request('eth_getTransactionReceipt', [receiptOf(transaction)])
    await held(rpc, 1)
    expect(rpc.memory.leaks()).toBe(0)
    flashblock(rpc, 1, [transaction])
    expect((await requested).result).toMatchObject({ blockNumber: '0x1', status: '0x1' })
    expect(rpc.stats().hold).toEqual({
      held: 1,
      seen: 1,
      expired: 0,
      gone: 0,
      departed: 0,
      refused: 0,
    })
  })
  test('delays a batch of four with one receipt, and reads one view for all', async () => {
    const rpc = testRpc({ receiptHoldMs: LONG })
    const transaction = await accepted(rpc)
    const body = JSON.stringify([
      request('eth_chainId', [], 1),
      request('eth_getTransactionReceipt', [receiptOf(transaction)], 2),
      request('eth_blockNumber', ['pending'], 3),
      request('eth_getBlockTransactionCountByNumber', ['pending'], 4),
    ])
    const requested = rpc.send(body)
    await held(rpc, 1)
    flashblock(rpc, 1, [transaction])
    const replies = JSON.parse((await requested).text!) as Reply[]
    expect(replies.map(({ result }) => result)).toEqual([
      '0xc4',
      expect.objectContaining({ blockNumber: '0x1' }),
      '0x1',
      '0x1',
    ])
  })
  test('ends after three flashblocks without the transaction, not counting index 0', async () => {
    const rpc = testRpc({ receiptHoldMs: LONG })
    const transaction = await accepted(rpc)
    const requested = rpc.request('eth_getTransactionReceipt', [receiptOf(transaction)])
    await held(rpc, 1)
    for (const index of [0, 1, 1, 2]) flashblock(rpc, index)
    expect(rpc.stats().receiptWaits).toBe(1)
    flashblock(rpc, 3)
    expect((await requested).result).toBe(null)
    expect(rpc.stats().hold).toMatchObject({ expired: 1 })
  })
  test('ends after its timeout', async () => {
    const rpc = testRpc({ receiptHoldMs: 5 })
    const transaction = await accepted(rpc)
    expect((await rpc.request('eth_getTransactionReceipt', [receiptOf(transaction)])).result).toBe(
      null,
    )
    expect(rpc.stats().hold).toMatchObject({ held: 1, expired: 1 })
  })
  test('ends with null when the transaction leaves the txpool', async () => {
    const rpc = testRpc({ receiptHoldMs: LONG })
    const [gone, other] = [await accepted(rpc), await accepted(rpc, 1n)]
    const requested = rpc.request('eth_getTransactionReceipt', [receiptOf(gone)])
    const stays = rpc.request('eth_getTransactionReceipt', [receiptOf(other)])
    await held(rpc, 2)
    rpc.pool.drop(gone.hash, { why: 'dropped', reason: 'sender is not an EOA' })
    expect((await requested).result).toBe(null)
    expect(rpc.stats()).toMatchObject({ receiptWaits: 1, hold: { departed: 1 } })
    flashblock(rpc, 1, [other])
    expect((await stays).result).toMatchObject({ blockNumber: '0x1' })
  })
  test('ends when its client disconnects', async () => {
    const rpc = testRpc({ receiptHoldMs: LONG })
    const transaction = await accepted(rpc)
    const gone = new AbortController()
    const params = [receiptOf(transaction)]
    const requested = rpc.request('eth_getTransactionReceipt', params, { signal: gone.signal })
    await held(rpc, 1)
    gone.abort()
    await requested
    expect(rpc.stats()).toMatchObject({ receiptWaits: 0, hold: { gone: 1 } })
  })
  test('is limited for each client and in total', async () => {
    const limits = { holdsPerClient: 1, holdsTotal: 2 }
    const rpc = testRpc({ receiptHoldMs: LONG, limits })
    const transaction = await accepted(rpc)
    const sendRequest = (address: string) =>
      rpc.request('eth_getTransactionReceipt', [receiptOf(transaction)], { address })
    const first = sendRequest('10.0.0.1')
    expect((await sendRequest('10.0.0.1')).result).toBe(null)
    const second = sendRequest('10.0.0.2')
    expect((await sendRequest('10.0.0.3')).result).toBe(null)
    expect(rpc.stats().hold).toMatchObject({ held: 2, refused: 2 })
    flashblock(rpc, 1, [transaction])
    expect((await first).result).not.toBe(null)
    expect((await second).result).not.toBe(null)
    const third = accepted(rpc, 1n).then((next) =>
      rpc.request('eth_getTransactionReceipt', [receiptOf(next)], { address: '10.0.0.1' }),
    )
    await held(rpc, 1)
    flashblock(rpc, 2, [transaction, transfer(1n)])
    expect((await third).result).not.toBe(null)
  })

  const answeredAtOnce: [
    name: string,
    request: (rpc: Rpc, hash: string) => Promise<unknown>,
    holdMs?: number,
  ][] = [
    ['unknown hashes', (rpc) => rpc.request('eth_getTransactionReceipt', [`0x${'11'.repeat(32)}`])],
    ['invalid hashes', (rpc) => rpc.request('eth_getTransactionReceipt', ['0x1'])],
    [
      'the standard endpoint',
      (rpc, hash) => rpc.request('eth_getTransactionReceipt', [hash], { endpoint: 'standard' }),
    ],
    ['other methods', (rpc, hash) => rpc.request('eth_getTransactionByHash', [hash])],
    [
      'batches of five',
      (rpc, hash) =>
        rpc.send(
          JSON.stringify([
            ...Array(4).fill(request('eth_chainId', [])),
            request('eth_getTransactionReceipt', [hash]),
          ]),
        ),
    ],
    [
      'two receipts in a batch',
      (rpc, hash) =>
        rpc.send(JSON.stringify(Array(2).fill(request('eth_getTransactionReceipt', [hash])))),
    ],
    [
      'any request when the hold is off',
      (rpc, hash) => rpc.request('eth_getTransactionReceipt', [hash]),
      0,
    ],
  ]
  test.each(answeredAtOnce)('does not apply to %s', async (_name, sendRequest, holdMs = LONG) => {
    const rpc = testRpc({ receiptHoldMs: holdMs })
    await sendRequest(rpc, receiptOf(await accepted(rpc)))
    expect(rpc.stats().hold).toMatchObject({ held: 0, refused: 0 })
  })
})

describe('eth_sendRawTransactionSync', () => {
  const raw = (transaction: SignedTransaction) => bytesToHex(transaction.raw)
  test.each([undefined, null, 0, 3_000, '0xbb8'])(
    'answers with the receipt (timeout %j)',
    async (timeout) => {
      const rpc = testRpc()
      const transaction = transfer(0n)
      const requested = rpc.request('eth_sendRawTransactionSync', [raw(transaction), timeout])
      await held(rpc, 1)
      expect(rpc.memory.leaks()).toBe(0)
      flashblock(rpc, 1, [transaction])
      expect((await requested).result).toMatchObject({
        transactionHash: bytesToHex(transaction.hash),
      })
    },
  )
  test('waits for the canonical block on the standard endpoint', async () => {
    const rpc = testRpc()
    const transaction = transfer(0n)
    const requested = rpc.request('eth_sendRawTransactionSync', [raw(transaction)], {
      endpoint: 'standard',
    })
    await held(rpc, 1)
    flashblock(rpc, 1, [transaction])
    expect(rpc.stats().receiptWaits).toBe(1)
    rpc.memory.publish({ canonical: rpc.memory.heads.pending })
    expect((await requested).result).toMatchObject({ blockNumber: '0x1' })
  })
  test('returns an error with the hash after its timeout', async () => {
    const rpc = testRpc({ limits: { syncSendMs: 50 } })
    const transaction = transfer(0n)
    const late = await rpc.request('eth_sendRawTransactionSync', [raw(transaction), 5])
    expect(late.error).toMatchObject({ code: 4, data: bytesToHex(transaction.hash) })
    expect(late.error?.message).toMatch(/within 5ms/)
    const longest = await rpc.request('eth_sendRawTransactionSync', [raw(transfer(1n)), 1e9])
    expect(longest.error?.message).toMatch(/within 50ms/)
  })
  const departures: [name: string, departure: Departure, reason: string][] = [
    ['dropped', { why: 'dropped', reason: 'sender is not an EOA' }, 'sender is not an EOA'],
    [
      'replaced',
      { why: 'replaced', by: new Uint8Array(32).fill(7) },
      `it was replaced by 0x${'07'.repeat(32)}`,
    ],
  ]
  test.each(departures)(
    'ends with the reason when its transaction is %s',
    async (_name, departure, reason) => {
      const rpc = testRpc()
      const transaction = transfer(0n)
      const requested = rpc.request('eth_sendRawTransactionSync', [raw(transaction)])
      await held(rpc, 1)
      rpc.pool.drop(transaction.hash, departure)
      const message = `transaction was dropped: ${reason}`
      const data = bytesToHex(transaction.hash)
      expect((await requested).error).toEqual({ code: -32003, message, data })
      expect(rpc.stats().receiptWaits).toBe(0)
    },
  )
  test('ends with the reason when its transaction leaves before the wait starts', async () => {
    const pool = smallPool()
    const submit: SmallPool['submit'] = (raw, client) => {
      const submitted = pool.submit(raw, client)
      if (!(submitted instanceof Promise) && 'hash' in submitted)
        pool.drop(submitted.hash, { why: 'dropped', reason: 'it was dropped' })
      return submitted
    }
    const rpc = testRpc({ transactions: elsewhere({ ...pool, submit }) })
    const said = await rpc.request('eth_sendRawTransactionSync', [raw(transfer(0n))])
    expect(said.error?.message).toBe('transaction was dropped: it was dropped')
  })
  test('reports a used nonce only after the view of the client includes it', async () => {
    const rpc = testRpc()
    const transaction = transfer(0n)
    const requested = rpc.request('eth_sendRawTransactionSync', [raw(transaction)])
    await held(rpc, 1)
    rpc.pool.drop(transaction.hash, { why: 'replaced', by: undefined })
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
    expect(rpc.stats().receiptWaits).toBe(1)
    const { memory } = rpc
    const { canonical } = memory.heads
    const after = { nonce: 1n, balance: 1n, codeHash: EMPTY_HASH }
    const diff = [
      { address: transaction.from, before: undefined, after, slots: [], code: undefined },
    ]
    const executed = execute([transfer(0n, { value: 6n })])
    const pending = memory.make(canonical, { executed, index: 1, diff })
    memory.publish({ canonical, complete: canonical, pending })
    expect((await requested).error?.message).toBe(
      'transaction was dropped: another transaction has used its nonce',
    )
  })
  test('returns the receipt when a newer view includes a replaced transaction', async () => {
    const rpc = testRpc()
    const transaction = transfer(0n)
    const requested = rpc.request('eth_sendRawTransactionSync', [raw(transaction)])
    await held(rpc, 1)
    rpc.pool.drop(transaction.hash, { why: 'replaced', by: undefined })
    flashblock(rpc, 1, [transaction])
    expect((await requested).result).toMatchObject({ blockNumber: '0x1' })
  })
  const refused: [name: string, params: unknown[], code: number][] = [
    ['no transaction', [], -32602],
    ['garbage', ['0x1234'], -32000],
    ['a negative timeout', [raw(transfer(0n)), -1], -32602],
    ['a timeout that is a text', [raw(transfer(0n)), 'soon'], -32602],
  ]
  test.each(refused)('refuses %s', async (_name, params, code) => {
    expect((await testRpc().request('eth_sendRawTransactionSync', params)).error?.code).toBe(code)
  })
  test('is refused above the limit of its client', async () => {
    const rpc = testRpc({ limits: { syncSendsPerClient: 1 } })
    const transaction = transfer(0n)
    const first = rpc.request('eth_sendRawTransactionSync', [raw(transaction)])
    await held(rpc, 1)
    const second = await rpc.request('eth_sendRawTransactionSync', [raw(transfer(1n))])
    expect(second.error).toMatchObject({ code: -32005, data: { reason: 'overloaded' } })
    flashblock(rpc, 1, [transaction])
    await first
    expect(rpc.stats().syncSends).toBe(0)
  })
  test('in a batch does not delay the other items, and has no lease', async () => {
    const rpc = testRpc()
    const transaction = transfer(0n)
    const body = [
      request('eth_sendRawTransactionSync', [raw(transaction)]),
      request('eth_blockNumber', []),
    ]
    const requested = rpc.send(JSON.stringify(body))
    await held(rpc, 1)
    expect(rpc.memory.leaks()).toBe(0)
    flashblock(rpc, 1, [transaction])
    const replies = JSON.parse((await requested).text!) as Reply[]
    expect(replies.map(({ result }) => result)).toEqual([
      expect.objectContaining({ blockNumber: '0x1' }),
      '0x0',
    ])
  })
})

test('a receipt wait ends at once when its client has already disconnected', async () => {
  const memory = memoryChain()
  const waits = createReceiptWaits({
    reader: memory,
    onPublish: memory.onPublish,
    onDeparted: () => {},
    now: () => performance.now(),
  })
  const { hash } = transfer(0n)
  const end = await waits.wait({
    hash,
    endpoint: 'flashblocks',
    ms: LONG,
    signal: AbortSignal.abort(),
  })
  expect(end).toBe('gone')
  expect(waits.size).toBe(0)
})
