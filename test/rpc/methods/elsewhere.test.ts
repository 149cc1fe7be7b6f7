/**
 * Methods must give the same results over a txpool that responds later and over one that responds
 * at once.
 */
import { expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { dropMethods } from '../../../rpc/methods/development/drop.ts'
import { elsewhere } from '../../fixtures/elsewhere.ts'
import { execute, transfer } from '../../fixtures/executed.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { smallPool } from '../../fixtures/small-pool.ts'

const [waiting, unknown] = [transfer(1n), transfer(0n)]
const CLIENT = { is: 'front' } as never

/** Makes two servers over one txpool: one local, one that responds later. */
async function both(onRequest?: () => void) {
  const pool = smallPool()
  await pool.submit(waiting.raw, CLIENT)
  const dropped: string[] = []
  const extra = new Map(
    dropMethods((hash) => void dropped.push(bytesToHex(hash))).map((one) => [one.name, one]),
  )
  const local = testRpc({ transactions: pool, extra })
  const there = testRpc({
    memory: local.memory,
    transactions: elsewhere(pool, onRequest),
    extra,
  })
  return { local, there, dropped }
}

test.each([
  ['txpool_status', []],
  ['eth_getTransactionByHash', [bytesToHex(waiting.hash)]],
  ['eth_getTransactionByHash', [bytesToHex(unknown.hash)]],
  ['eth_getRawTransactionByHash', [bytesToHex(waiting.hash)]],
  ['eth_getRawTransactionByHash', [bytesToHex(unknown.hash)]],
  ['debug_getRawTransaction', [bytesToHex(waiting.hash)]],
  ['anvil_dropTransaction', [bytesToHex(waiting.hash)]],
  ['anvil_dropTransaction', [bytesToHex(unknown.hash)]],
])('%s %j has the same result over a remote txpool as over a local one', async (method, params) => {
  const { local, there, dropped } = await both()
  const said = await local.request(method, params)
  const droppedLocally = dropped.splice(0)
  expect(said).toHaveProperty('result')
  expect(await there.request(method, params)).toEqual(said)
  expect(dropped).toEqual(droppedLocally)
  expect([local.bugs, there.bugs, local.memory.leaks()]).toEqual([[], [], 0])
})

test.each([
  ['eth_getTransactionByHash', (one: SignedTransaction) => ({ hash: bytesToHex(one.hash) })],
  ['eth_getRawTransactionByHash', (one: SignedTransaction) => bytesToHex(one.raw)],
])(
  '%s finds a transaction that enters a block during the txpool request',
  async (method, expected) => {
    let requested = 0
    const { local, there } = await both(() => {
      requested++
      const { canonical } = local.memory.heads
      const pending = local.memory.make(canonical, { executed: execute([unknown]), index: 0 })
      local.memory.publish({ canonical, complete: canonical, pending })
    })
    const { result } = await there.request(method, [bytesToHex(unknown.hash)])
    expect(requested).toBe(1)
    const wanted = expected(unknown)
    if (typeof wanted === 'string') expect(result).toBe(wanted)
    else expect(result).toMatchObject({ ...wanted, blockNumber: '0x1' })
    expect([there.bugs, local.memory.leaks()]).toEqual([[], 0])
  },
)
