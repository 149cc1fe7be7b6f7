/** The process is stopped for longer than a call may take: who waited through it has the time that was left before. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, type RunningNode, startNode } from '../outside/node-process.ts'

const CALL_MS = 2_000
const STOP_MS = 3_000
/** JUMPDEST PUSH0 JUMP: it runs until its time is up. */
const LOOP = '0x5b5f56'
const TO = '0x00000000000000000000000000000000000000cc'

let node: RunningNode
beforeAll(async () => {
  const limits = ['--limit-call-ms', String(CALL_MS), '--limit-call-gas', String(2 ** 50)]
  node = await startNode(['--ephemeral', '--pool-threads', '2', '--rate-limit', 'off', ...limits])
})
afterAll(() => node.stop())

async function endless(): Promise<{ readonly said: string; readonly at: number }> {
  const overrides = { [TO]: { code: LOOP } }
  const said = await call(`${node.url}/flashblocks`, 'eth_call', [{ to: TO }, 'latest', overrides])
    .then(String)
    .catch((error: Error) => error.message)
  return { said, at: performance.now() }
}

test('calls that run and calls that wait for a worker', async () => {
  // More than there are workers: some of them wait.
  const asked = performance.now()
  const calls = Array.from({ length: 4 }, endless)
  await call(`${node.url}/`, 'web3_clientVersion')
  const ranMs = performance.now() - asked
  node.child.kill('SIGSTOP')
  await new Promise((resolve) => setTimeout(resolve, STOP_MS))
  const continued = performance.now()
  node.child.kill('SIGCONT')
  for (const { said, at } of await Promise.all(calls)) {
    expect(said).toMatch(/-32002/)
    // What it ran before, and what a busy machine takes to read four requests.
    expect(at - continued).toBeGreaterThan((CALL_MS - ranMs) / 2)
  }
})
