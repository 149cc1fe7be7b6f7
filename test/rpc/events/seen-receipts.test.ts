import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { execute, transfer } from '../../fixtures/executed.ts'
import { testRpc } from '../../fixtures/rpc.ts'

type Rpc = ReturnType<typeof testRpc>

/**
 * Makes a pending block with one transfer; `complete` makes it the newest complete one, `seal`
 * canonical too.
 */
function chainWith(rpc: Rpc) {
  const { memory } = rpc
  const { canonical } = memory.heads
  const transaction = transfer(0n)
  const after = { nonce: 1n, balance: 1n, codeHash: EMPTY_HASH }
  const diff = [{ address: transaction.from, before: undefined, after, slots: [], code: undefined }]
  const executed = execute([transaction])
  const block = memory.make(canonical, { executed, diff, index: 1, salt: 1 })
  memory.publish({ canonical, complete: canonical, pending: block })
  return {
    transaction,
    complete: () => memory.publish({ canonical, complete: block, pending: block }),
    seal: () => memory.publish({ canonical: block, complete: block, pending: block }),
  }
}
const readReceipt = ({ hash }: SignedTransaction, rpc: Rpc, client = {}) =>
  rpc.request('eth_getTransactionReceipt', [bytesToHex(hash)], client)
const held = async (rpc: Rpc, count: number) => {
  while (rpc.stats().seen.held < count) await new Promise(setImmediate)
}
const nonce = (rpc: Rpc, { from }: SignedTransaction, block: unknown[] = ['latest'], client = {}) =>
  rpc.request('eth_getTransactionCount', [bytesToHex(from), ...block], client)

describe('a read of latest after a preconfirmed receipt', () => {
  test('waits until the block of the receipt is complete', async () => {
    const rpc = testRpc()
    const chain = chainWith(rpc)
    expect((await readReceipt(chain.transaction, rpc)).result).toMatchObject({ blockNumber: '0x1' })
    const request = nonce(rpc, chain.transaction)
    await held(rpc, 1)
    expect(rpc.memory.leaks()).toBe(0)
    chain.complete()
    expect((await request).result).toBe('0x1')
    expect(rpc.stats().seen).toEqual({ held: 1, expired: 0, refused: 0 })
  })
  test('waits without a block parameter, and inside a batch', async () => {
    const rpc = testRpc()
    const chain = chainWith(rpc)
    await readReceipt(chain.transaction, rpc)
    const request = nonce(rpc, chain.transaction, [])
    const params = [{ to: bytesToHex(chain.transaction.to!), data: '0x' }]
    const batch = rpc.send(JSON.stringify([{ jsonrpc: '2.0', id: 1, method: 'eth_call', params }]))
    await held(rpc, 2)
    chain.complete()
    expect((await request).result).toBe('0x1')
    expect((await batch).text).toContain('"result":"0x"')
  })
  test('waits in each method that reads the state or logs', async () => {
    const reads: [method: string, params: (account: string) => unknown[]][] = [
      ['eth_getBalance', (account) => [account, 'latest']],
      ['eth_getCode', (account) => [account]],
      ['eth_getStorageAt', (account) => [account, '0x0', 'latest']],
      ['eth_estimateGas', (to) => [{ to }, 'latest']],
      ['eth_createAccessList', (to) => [{ to }, 'latest']],
      ['eth_getLogs', (address) => [{ address, toBlock: 'latest' }]],
    ]
    for (const [method, params] of reads) {
      const rpc = testRpc()
      const chain = chainWith(rpc)
      await readReceipt(chain.transaction, rpc)
      const request = rpc.request(method, params(bytesToHex(chain.transaction.from)))
      await held(rpc, 1)
      chain.complete()
      await request
    }
  })
  test.each<[string, (rpc: Rpc, transaction: SignedTransaction) => Promise<unknown>]>([
    ['of the pending nonce', (rpc, transaction) => nonce(rpc, transaction, ['pending'])],
    [
      'to estimate the next transaction, which names no block',
      (rpc, { from }) => rpc.request('eth_estimateGas', [{ to: bytesToHex(from) }, null]),
    ],
    [
      'for the access list of the next transaction, which names no block',
      (rpc, { from }) => rpc.request('eth_createAccessList', [{ to: bytesToHex(from) }]),
    ],
    ['of a block number', (rpc, transaction) => nonce(rpc, transaction, ['0x0'])],
    [
      'of another account',
      (rpc) => rpc.request('eth_getBalance', [`0x${'77'.repeat(20)}`, 'latest']),
    ],
    [
      'of a proof',
      (rpc, { from }) => rpc.request('eth_getProof', [bytesToHex(from), [], 'latest']),
    ],
    ['of the head number', (rpc) => rpc.request('eth_blockNumber', [])],
    [
      'by another client',
      (rpc, transaction) => nonce(rpc, transaction, ['latest'], { address: '10.0.0.9' }),
    ],
    [
      'on the standard endpoint',
      (rpc, transaction) => nonce(rpc, transaction, ['latest'], { endpoint: 'standard' }),
    ],
  ])('does not wait when it is a read %s', async (_what, request) => {
    const rpc = testRpc()
    const chain = chainWith(rpc)
    await readReceipt(chain.transaction, rpc)
    await request(rpc, chain.transaction)
    expect(rpc.stats().seen.held).toBe(0)
  })
  test('waits in a filter poll until the block is canonical', async () => {
    const rpc = testRpc()
    const chain = chainWith(rpc)
    const { result: id } = await rpc.request('eth_newBlockFilter', [])
    await readReceipt(chain.transaction, rpc)
    const request = rpc.request('eth_getFilterChanges', [id])
    await held(rpc, 1)
    chain.complete()
    chain.seal()
    expect((await request).result).toHaveLength(1)
    // No event is left to wait for.
    expect((await rpc.request('eth_getFilterChanges', [id])).result).toEqual([])
    expect(rpc.stats().seen.held).toBe(1)
  })
  test('waits in a filter poll until a complete block is canonical, without receipts', async () => {
    const rpc = testRpc()
    const chain = chainWith(rpc)
    const { result: id } = await rpc.request('eth_newBlockFilter', [])
    chain.complete()
    const request = rpc.request('eth_getFilterChanges', [id])
    await held(rpc, 1)
    chain.seal()
    expect((await request).result).toHaveLength(1)
  })
  test('ends after its timeout or with its client, and can be switched off', async () => {
    const rpc = testRpc({ limits: { shownHoldMs: 5 } })
    const chain = chainWith(rpc)
    await readReceipt(chain.transaction, rpc)
    expect((await nonce(rpc, chain.transaction)).result).toBe('0x0')
    expect(rpc.stats().seen).toMatchObject({ held: 1, expired: 1 })

    const long = testRpc()
    const other = chainWith(long)
    await readReceipt(other.transaction, long)
    const gone = new AbortController()
    const request = nonce(long, other.transaction, [], { signal: gone.signal })
    await held(long, 1)
    gone.abort()
    await request

    const off = testRpc({ limits: { shownHoldMs: 0 } })
    const last = chainWith(off)
    await readReceipt(last.transaction, off)
    expect((await nonce(off, last.transaction)).result).toBe('0x0')
    expect(off.stats().seen.held).toBe(0)
  })
  test('has a separate timeout for polls without a receipt, which can be 0', async () => {
    const off = testRpc({ limits: { announcedHoldMs: 0 } })
    const chain = chainWith(off)
    const { result: id } = await off.request('eth_newBlockFilter', [])
    chain.complete()
    expect((await off.request('eth_getFilterChanges', [id])).result).toEqual([])
    expect(off.stats().seen.held).toBe(0)
  })
  test('is answered at once above the limit of its client', async () => {
    const rpc = testRpc({ limits: { holdsPerClient: 1 } })
    const chain = chainWith(rpc)
    await readReceipt(chain.transaction, rpc)
    const first = nonce(rpc, chain.transaction)
    await held(rpc, 1)
    expect((await nonce(rpc, chain.transaction, [])).result).toBe('0x0')
    expect(rpc.stats().seen.refused).toBe(1)
    chain.complete()
    expect((await first).result).toBe('0x1')
  })
})
