/**
 * Incidents in a whole node must be in the log and counted by /metrics, in whichever thread they
 * happen.
 */
import { expect, test, vi } from 'vitest'
import { call } from '../kit/node.ts'
import { metric, startOverloaded } from '../outside/overload/overloaded-node.ts'

/** With this edit two methods fail in a worker, each in another way. */
const inWorker = {
  file: 'rpc/dispatch/worker-call.ts',
  find: 'const { view } = leased',
  replace: `const { view } = leased
      if (call.method === 'eth_estimateGas') throw new Error('planted in a worker')
      if (call.method === 'eth_getProof') {
        setImmediate(() => { throw new Error('planted behind a worker') })
        return new Promise(() => {})
      }`,
}

test('a bug in a worker, caught or not, is logged with its error and counted', async () => {
  const node = await startOverloaded(['--log-format', 'json'], [inWorker])
  await expect(call(node.url, 'eth_estimateGas', [{}])).rejects.toThrow('-32603')
  // The worker goes on.
  expect(await call(node.url, 'eth_call', [{}])).toBe('0x')
  const account = `0x${'11'.repeat(20)}`
  await expect(call(node.url, 'eth_getProof', [account, [], 'latest'])).rejects.toThrow('-32603')
  const found = (kind: string) =>
    node
      .output()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line))
      .filter(({ what }) => what === kind)
  expect(found('call_failed')).toMatchObject([
    {
      method: 'eth_estimateGas',
      msg: 'a call failed',
      err: { message: 'planted in a worker' },
    },
  ])
  await vi.waitFor(() => expect(found('worker_failed').length).toBeGreaterThan(0), 120_000)
  expect(found('worker_failed')[0]).toMatchObject({ err: { message: 'planted behind a worker' } })
  const counted = (kind: string) => metric(node, `flashnode_mishaps{what="${kind}"}`)
  expect(await counted('call_failed')).toBe(1)
  expect(await counted('worker_failed')).toBe(found('worker_failed').length)
  expect(await node.stop()).toBe(0)
})
