/** An operator gets reports of slow calls. */
import { describe, expect, test } from 'vitest'
import type { SlowCall } from '../../../rpc/dispatch/slow-calls.ts'
import { type TestRpc, testRpc } from '../../fixtures/rpc.ts'

/**
 * Makes a server whose clock moves by `clockStepMs` at each read, so that a read takes at least one
 * step.
 */
function slowRpc(
  ms: number,
  { hasParams = false, clockStepMs = 30 } = {},
): { readonly rpc: TestRpc; readonly reported: SlowCall[] } {
  const reported: SlowCall[] = []
  const slowCalls = { ms, hasParams, report: (call: SlowCall) => void reported.push(call) }
  const rpc = testRpc({
    slowCalls,
    clockStepMs,
    executor: (local) => ({
      async execute(call) {
        const reply = await local.execute(call)
        call.onRun?.({ queuedMs: 11.4, runMs: 22.6 })
        return reply
      },
    }),
  })
  return { rpc, reported }
}
const TO = `0x${'1'.repeat(40)}`

describe('the report of a slow call', () => {
  test('has its method, cost, time and bytes', async () => {
    const { rpc, reported } = slowRpc(20)
    await rpc.request('eth_chainId')
    expect(reported).toEqual([
      { method: 'eth_chainId', cost: 1, ms: expect.any(Number), bytes: '"0xc4"'.length },
    ])
    expect(reported[0]!.ms).toBeGreaterThanOrEqual(20)
  })
  test('has its time in the queue and in the engine, alone and in a batch', async () => {
    const { rpc, reported } = slowRpc(20)
    await rpc.request('eth_call', [{ to: TO }, 'latest'])
    const one = { jsonrpc: '2.0', id: 1, method: 'eth_estimateGas', params: [{ to: TO }] }
    await rpc.send(JSON.stringify([one]))
    expect(reported).toMatchObject([
      { method: 'eth_call', queuedMs: 11, engineMs: 23, bytes: 4 },
      { method: 'eth_estimateGas', queuedMs: 11, engineMs: 23, bytes: '"0x5208"'.length },
    ])
  })
  test('has the code of its error', async () => {
    const { rpc, reported } = slowRpc(20)
    await rpc.request('eth_getBalance', ['nobody'])
    expect(reported).toMatchObject([{ method: 'eth_getBalance', code: -32602, bytes: 0 }])
  })
  test('has the start of its parameters only if configured', async () => {
    const { rpc, reported } = slowRpc(20, { hasParams: true })
    await rpc.request('web3_sha3', [`0x${'ab'.repeat(2_000)}`])
    expect(reported[0]!.params).toHaveLength(1_024)
    expect(reported[0]!.params).toMatch(/^\["0xabab/)
    const without = slowRpc(20)
    await without.rpc.request('web3_sha3', ['0x12'])
    expect(without.reported[0]).not.toHaveProperty('params')
  })
})

test('fast calls and unknown methods are not reported', async () => {
  const { rpc, reported } = slowRpc(10_000)
  await rpc.request('eth_chainId')
  await rpc.request('eth_nothing')
  expect(reported).toEqual([])
})

test('at most twenty slow calls per second are reported, then the number of others', async () => {
  const { rpc, reported } = slowRpc(1, { clockStepMs: 1 })
  const one = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
  for (let time = 0; time < 100; time++) await rpc.send(one)
  expect(reported).toHaveLength(20)
  rpc.advance(1_000)
  for (let time = 0; time < 2; time++) await rpc.send(one)
  expect(reported.slice(20).map(({ unsaid }) => unsaid)).toEqual([80, undefined])
})
