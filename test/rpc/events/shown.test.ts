import { describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { EMPTY_HASH } from '../../../engine/primitives/keccak.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { execute, transfer } from '../../fixtures/executed.ts'
import { testRpc } from '../../fixtures/rpc.ts'

type Rpc = ReturnType<typeof testRpc>

/** A pending block with one transfer; `complete` makes it the newest complete one, `seal` canonical too. */
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
const show = ({ hash }: SignedTransaction, rpc: Rpc, client = {}) =>
  rpc.ask('eth_getTransactionReceipt', [bytesToHex(hash)], client)
const held = async (rpc: Rpc, count: number) => {
  while (rpc.stats().shown.held < count) await new Promise(setImmediate)
}
const nonce = (rpc: Rpc, { from }: SignedTransaction, block: unknown[] = ['latest'], client = {}) =>
  rpc.ask('eth_getTransactionCount', [bytesToHex(from), ...block], client)

describe('a read of latest after a preconfirmed receipt', () => {
  test('waits until that block is complete', async () => {
    const rpc = testRpc()
    const chain = chainWith(rpc)
    expect((await show(chain.transaction, rpc)).result).toMatchObject({ blockNumber: '0x1' })
    const asked = nonce(rpc, chain.transaction)
    await held(rpc, 1)
    expect(rpc.memory.leaks()).toBe(0)
    chain.complete()
    expect((await asked).result).toBe('0x1')
    expect(rpc.stats().shown).toEqual({ held: 1, expired: 0, refused: 0 })
  })
  test('waits when the block parameter is left out, and inside a batch', async () => {
    const rpc = testRpc()
    const chain = chainWith(rpc)
    await show(chain.transaction, rpc)
    const asked = nonce(rpc, chain.transaction, [])
    const params = [{ to: bytesToHex(chain.transaction.to!), data: '0x' }]
    const batch = rpc.send(JSON.stringify([{ jsonrpc: '2.0', id: 1, method: 'eth_call', params }]))
    await held(rpc, 2)
    chain.complete()
    expect((await asked).result).toBe('0x1')
    expect((await batch).text).toContain('"result":"0x"')
  })
  test('waits whatever it reads of the state, or of logs', async () => {
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
      await show(chain.transaction, rpc)
      const asked = rpc.ask(method, params(bytesToHex(chain.transaction.from)))
      await held(rpc, 1)
      chain.complete()
      await asked
    }
  })
  test.each<[string, (rpc: Rpc, transaction: SignedTransaction) => Promise<unknown>]>([
    ['of pending', (rpc, transaction) => nonce(rpc, transaction, ['pending'])],
    [
      'to estimate the next transaction, which names no block',
      (rpc, { from }) => rpc.ask('eth_estimateGas', [{ to: bytesToHex(from) }, null]),
    ],
    [
      'for the access list of the next transaction, which names no block',
      (rpc, { from }) => rpc.ask('eth_createAccessList', [{ to: bytesToHex(from) }]),
    ],
    ['of a number', (rpc, transaction) => nonce(rpc, transaction, ['0x0'])],
    ['of another account', (rpc) => rpc.ask('eth_getBalance', [`0x${'77'.repeat(20)}`, 'latest'])],
    [
      'that is answered as it stands',
      (rpc, { from }) => rpc.ask('eth_getProof', [bytesToHex(from), [], 'latest']),
    ],
    ['of the height', (rpc) => rpc.ask('eth_blockNumber', [])],
    [
      'by another client',
      (rpc, transaction) => nonce(rpc, transaction, ['latest'], { address: '10.0.0.9' }),
    ],
    [
      'on the standard endpoint',
      (rpc, transaction) => nonce(rpc, transaction, ['latest'], { endpoint: 'standard' }),
    ],
  ])('a read %s does not wait', async (_what, ask) => {
    const rpc = testRpc()
    const chain = chainWith(rpc)
    await show(chain.transaction, rpc)
    await ask(rpc, chain.transaction)
    expect(rpc.stats().shown.held).toBe(0)
  })
  test('a filter poll waits until the block is canonical', async () => {
    const rpc = testRpc()
    const chain = chainWith(rpc)
    const { result: id } = await rpc.ask('eth_newBlockFilter', [])
    await show(chain.transaction, rpc)
    const asked = rpc.ask('eth_getFilterChanges', [id])
    await held(rpc, 1)
    chain.complete()
    chain.seal()
    expect((await asked).result).toHaveLength(1)
    // Nothing is left to wait for.
    expect((await rpc.ask('eth_getFilterChanges', [id])).result).toEqual([])
    expect(rpc.stats().shown.held).toBe(1)
  })
  test('a filter poll waits for the height that is announced', async () => {
    const rpc = testRpc()
    const chain = chainWith(rpc)
    const { result: id } = await rpc.ask('eth_newBlockFilter', [])
    chain.complete()
    const asked = rpc.ask('eth_getFilterChanges', [id])
    await held(rpc, 1)
    chain.seal()
    expect((await asked).result).toHaveLength(1)
  })
  test('ends after its time, with the client, and can be switched off', async () => {
    const rpc = testRpc({ limits: { shownHoldMs: 5 } })
    const chain = chainWith(rpc)
    await show(chain.transaction, rpc)
    expect((await nonce(rpc, chain.transaction)).result).toBe('0x0')
    expect(rpc.stats().shown).toMatchObject({ held: 1, expired: 1 })

    const long = testRpc()
    const other = chainWith(long)
    await show(other.transaction, long)
    const gone = new AbortController()
    const asked = nonce(long, other.transaction, [], { signal: gone.signal })
    await held(long, 1)
    gone.abort()
    await asked

    const off = testRpc({ limits: { shownHoldMs: 0 } })
    const last = chainWith(off)
    await show(last.transaction, off)
    expect((await nonce(off, last.transaction)).result).toBe('0x0')
    expect(off.stats().shown.held).toBe(0)
  })
  test('a poll of nobody who was shown anything has a time of its own, which can be nothing', async () => {
    const off = testRpc({ limits: { announcedHoldMs: 0 } })
    const chain = chainWith(off)
    const { result: id } = await off.ask('eth_newBlockFilter', [])
    chain.complete()
    expect((await off.ask('eth_getFilterChanges', [id])).result).toEqual([])
    expect(off.stats().shown.held).toBe(0)
  })
  test('no more than the cap of one client wait', async () => {
    const rpc = testRpc({ limits: { holdsPerClient: 1 } })
    const chain = chainWith(rpc)
    await show(chain.transaction, rpc)
    const first = nonce(rpc, chain.transaction)
    await held(rpc, 1)
    expect((await nonce(rpc, chain.transaction, [])).result).toBe('0x0')
    expect(rpc.stats().shown.refused).toBe(1)
    chain.complete()
    expect((await first).result).toBe('0x1')
  })
})
