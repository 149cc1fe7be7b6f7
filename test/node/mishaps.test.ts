/** What should not happen, in a whole node: the log has it, whichever thread it happens in. */
import { expect, test } from 'vitest'
import { call, startNode } from '../outside/node-process.ts'

test('a call that fails by a bug in a worker is in the log with its error', async () => {
  const find = 'const { view, record } = leased'
  const inWorker = {
    file: 'rpc/dispatch/worker-call.ts',
    find,
    replace: `${find}\n      if (call.method === 'eth_estimateGas') throw new Error('planted in a worker')`,
  }
  const node = await startNode(['--ephemeral', '--log-format', 'json'], 'dev', [inWorker])
  await expect(call(node.url, 'eth_estimateGas', [{}])).rejects.toThrow('-32603')
  // The worker goes on.
  expect(await call(node.url, 'eth_call', [{}])).toBe('0x')
  const lines = node
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'))
  const found = lines.map((line) => JSON.parse(line)).find(({ what }) => what === 'call_failed')
  expect(found).toMatchObject({
    method: 'eth_estimateGas',
    msg: 'a call failed',
    err: { message: 'planted in a worker' },
  })
  expect(await node.stop()).toBe(0)
}, 60_000)
