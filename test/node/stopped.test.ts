/** The process is stopped for longer than its callers may wait: who waited through it has the time that was left before. */
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, KEYS, type RunningNode, startNode } from '../kit/node.ts'

/** Of calls, of those that wait for a flashblock, and of synchronous sends. */
const WAIT_MS = 2_000
const STOP_MS = 3_000
/** JUMPDEST PUSH0 JUMP: it runs until its time is up. */
const LOOP = '0x5b5f56'
const TO = '0x00000000000000000000000000000000000000cc'

let node: RunningNode
beforeAll(async () => {
  const limits = ['call', 'place-wait'].flatMap((name) => [`--limit-${name}-ms`, String(WAIT_MS)])
  const gas = ['--limit-call-gas', String(2 ** 50)]
  const flags = ['--ephemeral', '--pool-threads', '2', '--rate-limit', 'off']
  node = await startNode([...flags, ...limits, ...gas])
})
afterAll(() => node.stop())

/** The code of the error that it ends with. */
async function ask(method: string, params: unknown[], headers: Record<string, string> = {}) {
  const response = await fetch(`${node.url}/flashblocks`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const { error } = (await response.json()) as { readonly error?: { readonly code: number } }
  return { code: error?.code, at: performance.now() }
}
const endlessCall = () => ask('eth_call', [{ to: TO }, 'latest', { [TO]: { code: LOOP } }])
const waitForPlace = () => ask('eth_blockNumber', [], { 'x-min-flashblock': '1000000:0' })
/** Nothing has the nonce before it. */
async function sendTooEarly() {
  const account = privateKeyToAccount(KEYS[0] as Hex)
  const raw = await account.signTransaction({
    ...{ chainId: 196, type: 'eip1559', nonce: 7, gas: 21_000n, to: TO },
    ...{ maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 1_000_000n },
  })
  return ask('eth_sendRawTransactionSync', [raw, WAIT_MS])
}

test('calls that run or wait for a worker, and requests that wait for the chain', async () => {
  const asked = performance.now()
  const waits = [
    // More than there are workers: some of them wait.
    ...Array.from({ length: 4 }, () => ({ answer: endlessCall(), code: -32002 })),
    { answer: waitForPlace(), code: -32001 },
    { answer: sendTooEarly(), code: 4 },
  ]
  await call(`${node.url}/`, 'web3_clientVersion')
  const ranMs = performance.now() - asked
  node.child.kill('SIGSTOP')
  await new Promise((resolve) => setTimeout(resolve, STOP_MS))
  const continued = performance.now()
  node.child.kill('SIGCONT')
  for (const { answer, code } of waits) {
    const { at, ...said } = await answer
    expect(said).toEqual({ code })
    // What it ran before, and what a busy machine takes to read six requests.
    expect(at - continued).toBeGreaterThan((WAIT_MS - ranMs) / 2)
  }
})
