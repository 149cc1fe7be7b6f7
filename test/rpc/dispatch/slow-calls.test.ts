/** What an operator is told of calls that took long. */
import { describe, expect, test } from 'vitest'
import type { SlowCall } from '../../../rpc/dispatch/slow-calls.ts'
import { type TestRpc, testRpc } from '../../fixtures/rpc.ts'

/** Each look at the clock moves it by `clockStepMs`: a read is one step long at least. */
function slowRpc(
  ms: number,
  { hasParams = false, clockStepMs = 30 } = {},
): { readonly rpc: TestRpc; readonly told: SlowCall[] } {
  const told: SlowCall[] = []
  const slowCalls = { ms, hasParams, tell: (call: SlowCall) => void told.push(call) }
  const rpc = testRpc({
    ...{ slowCalls, clockStepMs },
    executor: (local) => ({
      async execute(call) {
        const reply = await local.execute(call)
        call.onRun?.({ queuedMs: 11.4, runMs: 22.6 })
        return reply
      },
    }),
  })
  return { rpc, told }
}
const TO = `0x${'1'.repeat(40)}`

describe('a slow call', () => {
  test('of the front says what it took', async () => {
    const { rpc, told } = slowRpc(20)
    await rpc.ask('eth_chainId')
    expect(told).toEqual([
      { method: 'eth_chainId', cost: 1, ms: expect.any(Number), bytes: '"0xc4"'.length },
    ])
    expect(told[0]!.ms).toBeGreaterThanOrEqual(20)
  })
  test('of a worker says where it was, alone and in a batch', async () => {
    const { rpc, told } = slowRpc(20)
    await rpc.ask('eth_call', [{ to: TO }, 'latest'])
    const one = { jsonrpc: '2.0', id: 1, method: 'eth_estimateGas', params: [{ to: TO }] }
    await rpc.send(JSON.stringify([one]))
    expect(told).toMatchObject([
      { method: 'eth_call', queuedMs: 11, engineMs: 23, bytes: 4 },
      { method: 'eth_estimateGas', queuedMs: 11, engineMs: 23, bytes: '"0x5208"'.length },
    ])
  })
  test('that fails says how', async () => {
    const { rpc, told } = slowRpc(20)
    await rpc.ask('eth_getBalance', ['nobody'])
    expect(told).toMatchObject([{ method: 'eth_getBalance', code: -32602, bytes: 0 }])
  })
  test('says its parameters where that is asked for, and no more than their beginning', async () => {
    const { rpc, told } = slowRpc(20, { hasParams: true })
    await rpc.ask('web3_sha3', [`0x${'ab'.repeat(2_000)}`])
    expect(told[0]!.params).toHaveLength(1_024)
    expect(told[0]!.params).toMatch(/^\["0xabab/)
    const without = slowRpc(20)
    await without.rpc.ask('web3_sha3', ['0x12'])
    expect(without.told[0]).not.toHaveProperty('params')
  })
})

test('nothing is said of what is quick, or of names that are not served', async () => {
  const { rpc, told } = slowRpc(10_000)
  await rpc.ask('eth_chainId')
  await rpc.ask('eth_nothing')
  expect(told).toEqual([])
})

test('twenty in a second are told of, and how many were not', async () => {
  const { rpc, told } = slowRpc(1, { clockStepMs: 1 })
  const one = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
  for (let time = 0; time < 100; time++) await rpc.send(one)
  expect(told).toHaveLength(20)
  rpc.advance(1_000)
  for (let time = 0; time < 2; time++) await rpc.send(one)
  expect(told.slice(20).map(({ unsaid }) => unsaid)).toEqual([80, undefined])
})
