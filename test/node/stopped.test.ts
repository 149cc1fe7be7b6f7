/**
 * The process is stopped for longer than its callers may wait. A caller that waited through the
 * stop must keep its remaining time.
 */
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, KEYS, type RunningNode, startNode } from '../kit/node.ts'

/** The limit of calls, of waits for a flashblock, and of synchronous sends. */
const WAIT_MS = 2_000
const STOP_MS = 3_000
/** JUMPDEST PUSH0 JUMP runs until its time is over. */
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

/** Gives the code of the error that ends the request. */
async function request(method: string, params: unknown[], headers: Record<string, string> = {}) {
  const response = await fetch(`${node.url}/flashblocks`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const { error } = (await response.json()) as { readonly error?: { readonly code: number } }
  return { code: error?.code, at: performance.now() }
}
const endlessCall = () => request('eth_call', [{ to: TO }, 'latest', { [TO]: { code: LOOP } }])
const waitForFlashblock = () => request('eth_blockNumber', [], { 'x-min-flashblock': '1000000:0' })
/** Sends a transaction whose earlier nonces are missing. */
async function sendTooEarly() {
  const account = privateKeyToAccount(KEYS[0] as Hex)
  const raw = await account.signTransaction({
    chainId: 196,
    type: 'eip1559',
    nonce: 7,
    gas: 21_000n,
    to: TO,
    maxFeePerGas: 10n ** 11n,
    maxPriorityFeePerGas: 1_000_000n,
  })
  return request('eth_sendRawTransactionSync', [raw, WAIT_MS])
}

test('calls and waits keep their remaining time while the process is stopped', async () => {
  const requested = performance.now()
  const waits = [
    // The calls exceed the number of workers, so that some wait.
    ...Array.from({ length: 4 }, () => ({ response: endlessCall(), code: -32002 })),
    { response: waitForFlashblock(), code: -32001 },
    { response: sendTooEarly(), code: 4 },
  ]
  await call(`${node.url}/`, 'web3_clientVersion')
  const ranMs = performance.now() - requested
  node.child.kill('SIGSTOP')
  await new Promise((resolve) => setTimeout(resolve, STOP_MS))
  const continued = performance.now()
  node.child.kill('SIGCONT')
  for (const { response, code } of waits) {
    const { at, ...said } = await response
    expect(said).toEqual({ code })
    // The limit allows for the time before the stop, and for a busy machine that reads six
    // requests.
    expect(at - continued).toBeGreaterThan((WAIT_MS - ranMs) / 2)
  }
})
