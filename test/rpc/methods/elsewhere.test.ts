/** Methods over a txpool that answers later: what they say is what they say over one that answers at once. */
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

/** Two over one txpool: it is here, and elsewhere. */
async function both(onAsked?: () => void) {
  const pool = smallPool()
  await pool.submit(waiting.raw, CLIENT)
  const dropped: string[] = []
  const extra = new Map(
    dropMethods((hash) => void dropped.push(bytesToHex(hash))).map((one) => [one.name, one]),
  )
  const here = testRpc({ transactions: pool, extra })
  const there = testRpc({
    memory: here.memory,
    transactions: elsewhere(pool, onAsked),
    extra,
  })
  return { here, there, dropped }
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
])('%s %j', async (method, params) => {
  const { here, there, dropped } = await both()
  const said = await here.ask(method, params)
  const droppedHere = dropped.splice(0)
  expect(said).toHaveProperty('result')
  expect(await there.ask(method, params)).toEqual(said)
  expect(dropped).toEqual(droppedHere)
  expect([here.bugs, there.bugs, here.memory.leaks()]).toEqual([[], [], 0])
})

test.each([
  ['eth_getTransactionByHash', (one: SignedTransaction) => ({ hash: bytesToHex(one.hash) })],
  ['eth_getRawTransactionByHash', (one: SignedTransaction) => bytesToHex(one.raw)],
])('%s: what comes into a block while it is asked for is found there', async (method, shown) => {
  let asked = 0
  const { here, there } = await both(() => {
    asked++
    const { canonical } = here.memory.heads
    const pending = here.memory.make(canonical, { executed: execute([unknown]), index: 0 })
    here.memory.publish({ canonical, complete: canonical, pending })
  })
  const { result } = await there.ask(method, [bytesToHex(unknown.hash)])
  expect(asked).toBe(1)
  const wanted = shown(unknown)
  if (typeof wanted === 'string') expect(result).toBe(wanted)
  else expect(result).toMatchObject({ ...wanted, blockNumber: '0x1' })
  expect([there.bugs, here.memory.leaks()]).toEqual([[], 0])
})
