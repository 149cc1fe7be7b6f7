/**
 * A node's state starts at block 1, and its upstream has all of it. Older state and proofs come
 * from the upstream.
 */
import { describe, expect, test } from 'vitest'
import type { Block } from '../../../engine/chain/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import type { Forward, Forwarded } from '../../../rpc/core/ports.ts'
import { type UpstreamKnown, upstreamRoute } from '../../../rpc/forwarding/upstream-route.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { lazyChain } from '../../fixtures/lazy-state.ts'
import { owner, PROBE_ADDRESS, probeChain } from '../../fixtures/probe-chain.ts'
import { type Reply, type TestRpc, testRpc } from '../../fixtures/rpc.ts'
import { transfer } from '../../fixtures/txpool.ts'

const { source } = await probeChain()
const full = testRpc({ source })
const OLDEST = 1n

function follower(
  forwarded: (method: string, params: readonly unknown[]) => Promise<Forwarded> = upstream,
) {
  const received: unknown[][] = []
  const forward: Forward = {
    forward(method, params, { to }) {
      received.push([to, method, ...params])
      return forwarded(method, params)
    },
  }
  const { reader, lazy } = lazyChain(source.reader, { oldest: OLDEST })
  const rpc = testRpc({ source: { ...source, reader }, lazy, forward })
  return { rpc, received }
}
async function upstream(method: string, params: readonly unknown[]): Promise<Forwarded> {
  const { result, error } = await full.request(method, params)
  return error === undefined ? { result: JSON.stringify(result) } : { error }
}

const respond = ({ result, error }: Reply) => (error === undefined ? { result } : { error })
async function requestAll(rpc: TestRpc, method: string, params: readonly unknown[]) {
  const single = respond(await rpc.request(method, params))
  const body = [{ jsonrpc: '2.0', id: 7, method, params }]
  const [batched] = JSON.parse((await rpc.send(JSON.stringify(body))).text!) as Reply[]
  expect(respond(batched!)).toEqual(single)
  expect(rpc.bugs).toEqual([])
  return single
}

const lease = source.reader.lease('flashblocks')
const hashOf = (number: bigint) => bytesToHex(lease.view.block({ number })!.hash)
const [GENESIS, FIRST] = [hashOf(0n), hashOf(1n)]
const DEPLOYED = bytesToHex(lease.view.block({ number: 1n })!.transactionHashes().at(-1)!)
lease.release()
const call = { from: owner.address, to: PROBE_ADDRESS, input: '0x01' }
const tracer = { tracer: 'callTracer' }

describe('a request that goes to the upstream', () => {
  test.each<[string, ...unknown[]]>([
    ['eth_getBlockByNumber', '0x0', true],
    ['eth_getBlockByNumber', 'earliest', false],
    ['eth_getBlockByHash', GENESIS, false],
    ['eth_getHeaderByNumber', '0x0'],
    ['eth_getBlockReceipts', '0x0'],
    ['eth_getBlockReceipts', { blockHash: GENESIS }],
    ['eth_getBlockTransactionCountByNumber', '0x0'],
    ['eth_getBalance', owner.address, '0x0'],
    ['eth_getBalance', owner.address, { blockHash: GENESIS }],
    ['eth_getCode', PROBE_ADDRESS, '0x0'],
    ['eth_getStorageAt', PROBE_ADDRESS, '0x0', '0x0'],
    ['eth_getStorageValues', { [PROBE_ADDRESS]: [GENESIS] }, '0x0'],
    ['eth_getTransactionCount', owner.address, '0x0'],
    ['eth_call', { ...call, to: owner.address }, '0x0'],
    ['eth_estimateGas', call, '0x0'],
    ['eth_createAccessList', call, '0x0'],
    ['eth_simulateV1', { blockStateCalls: [{ calls: [call] }] }, '0x0'],
    ['eth_getLogs', { fromBlock: '0x0', toBlock: '0x0' }],
    ['eth_getLogs', { blockHash: GENESIS }],
    ['eth_getTransactionByHash', GENESIS],
    ['eth_getTransactionReceipt', GENESIS],
    ['debug_traceCall', call, '0x0', tracer],
    ['debug_traceBlockByNumber', '0x0', tracer],
    ['debug_traceBlockByNumber', '0x1', tracer],
    ['debug_traceBlockByHash', FIRST, tracer],
    ['debug_traceTransaction', DEPLOYED, tracer],
    ['eth_getProof', owner.address, ['0x0'], '0x1'],
    ['eth_getProof', owner.address, ['0x0'], { blockHash: FIRST }],
    ['eth_getProof', owner.address, ['0x0'], 'latest'],
    ['eth_getProof', owner.address, ['0x0'], 'pending'],
    ['eth_getProof', owner.address, ['0x0']],
  ])('gets the result of the upstream: %s %j %j', async (method, ...params) => {
    const { rpc, received } = follower()
    expect(await requestAll(rpc, method, params)).toEqual(
      respond(await full.request(method, params)),
    )
    const requests = received.map(([to, name]) => [to, name])
    // In a batch the call is forwarded too, unless the upstream lacks it.
    expect(requests.slice(0, 1)).toEqual([['upstream', method]])
    expect(requests.slice(1)).toEqual(received.length === 1 ? [] : [['upstream', method]])
    expect(rpc.stats().upstream).toMatchObject({ calls: received.length, inFlight: 0 })
  })

  test('for logs of both ranges gets joined logs', async () => {
    const { rpc, received } = follower()
    const query = { fromBlock: '0x0', toBlock: 'pending' }
    const reply = await requestAll(rpc, 'eth_getLogs', [query])
    expect(reply).toEqual(respond(await full.request('eth_getLogs', [query])))
    expect((reply.result as unknown[]).length).toBeGreaterThan(2)
    expect(received[0]).toEqual(['upstream', 'eth_getLogs', { fromBlock: '0x0', toBlock: '0x0' }])
  })

  test('for a proof of a block without a root uses the canonical block number', async () => {
    const { rpc, received } = follower()
    await rpc.request('eth_getProof', [owner.address, [], 'pending'])
    await rpc.request('eth_getProof', [owner.address, [], '0x2'])
    expect(received.map((call) => call.at(-1))).toEqual(['0x1', '0x2'])
  })
})

describe('a request that stays here', () => {
  test.each<[string, ...unknown[]]>([
    ['eth_getBlockByNumber', '0x1', true],
    ['eth_getBlockByNumber', '0x2', true],
    ['eth_getBlockByNumber', 'latest', true],
    ['eth_getBlockByNumber', 'finalized', false],
    ['eth_getBalance', owner.address, 'safe'],
    ['eth_getBlockByNumber', 'nonsense', true],
    ['eth_getBlockByNumber', '0x63', true],
    ['eth_getBlockByHash', FIRST, false],
    ['eth_getBalance', owner.address, '0x1'],
    ['eth_getBalance', owner.address],
    ['eth_call', call, 'pending'],
    ['eth_getLogs', { fromBlock: '0x1' }],
    ['eth_getLogs', { fromBlock: 'latest', toBlock: '0x0' }],
    ['eth_getTransactionReceipt', DEPLOYED],
    ['debug_traceBlockByNumber', '0x2', tracer],
    ['eth_chainId'],
  ])('gets the local result: %s %j %j', async (method, ...params) => {
    const { rpc, received } = follower()
    const [ours, theirs] = [await rpc.request(method, params), await full.request(method, params)]
    expect(respond(ours)).toEqual(respond(theirs))
    expect(received).toEqual([])
  })

  test('may be about a pooled transaction', async () => {
    const { rpc, received } = follower()
    const sent = transfer(0, 0)
    await rpc.pool.submit(sent.raw, { address: '', isGone: false })
    const { result } = await rpc.request('eth_getTransactionReceipt', [bytesToHex(sent.hash)])
    expect([result, received]).toEqual([null, []])
  })
})

describe('an upstream', () => {
  const pruned = (why: string) => ({
    error: {
      code: -32_001,
      message: `history not available: only the upstream can answer eth_getProof: ${why}; the oldest available block is 1`,
      data: { oldest: '0x1', newest: '0x2' },
    },
  })
  const proof = [owner.address, [], 'latest']

  test.each<[string, Forwarded, string]>([
    ['cannot be reached', { silent: 'connection refused' }, 'connection refused'],
    [
      'has no proofs',
      { error: { code: -32_601, message: 'the method eth_getProof does not exist' } },
      'the method eth_getProof does not exist',
    ],
    [
      'has pruned the state',
      { error: { code: -32_000, message: 'missing trie node 0x12' } },
      'missing trie node 0x12',
    ],
    [
      'has no proofs for so old a block',
      {
        error: { code: -32_000, message: 'distance to target block exceeds maximum proof window' },
      },
      'distance to target block exceeds maximum proof window',
    ],
  ])(
    'that %s gives the error of pruned history, with the oldest block',
    async (_name, forwarded, why) => {
      const { rpc } = follower(async () => forwarded)
      expect(await requestAll(rpc, 'eth_getProof', proof)).toEqual(pruned(why))
    },
  )

  test.each([3, -32_000])('gives its execution errors unchanged: %d', async (code) => {
    const error = { code, message: 'execution reverted: block not found', data: '0x01' }
    const { rpc } = follower(async () => ({ error }))
    expect(await requestAll(rpc, 'eth_call', [call, '0x0'])).toEqual({ error })
  })

  test('gets no invalid requests', async () => {
    const { rpc, received } = follower()
    const { error } = await rpc.request('eth_getProof', ['0x12', [], '0x0'])
    expect([error?.code, received]).toEqual([-32_602, []])
  })

  test('that is ahead gives no block that is not available here', async () => {
    const newer = { blockNumber: '0x9', blockHash: GENESIS }
    const { rpc } = follower(async () => ({ result: JSON.stringify(newer) }))
    for (const method of ['eth_getTransactionReceipt', 'eth_getTransactionByHash'])
      expect(await requestAll(rpc, method, [GENESIS])).toEqual({ result: null })
    const block = { number: '0x9', hash: GENESIS }
    const { rpc: other } = follower(async () => ({ result: JSON.stringify(block) }))
    expect(await requestAll(other, 'eth_getBlockByHash', [GENESIS, false])).toEqual({
      result: null,
    })
    const logs = [{ ...newer, logIndex: '0x0' }]
    const { rpc: third } = follower(async () => ({ result: JSON.stringify(logs) }))
    expect(await requestAll(third, 'eth_getLogs', [{ blockHash: GENESIS }])).toEqual({
      error: { code: -32_000, message: 'unknown block' },
    })
  })

  test('is asked at most once a second for something that it does not have', async () => {
    const { rpc, received } = follower(async () => ({ result: 'null' }))
    const request = async () => (await rpc.request('eth_getTransactionReceipt', [GENESIS])).result
    expect([await request(), await request(), received.length]).toEqual([null, null, 1])
    rpc.advance(1_000)
    expect([await request(), await request(), received.length]).toEqual([null, null, 2])
    expect((await rpc.request('eth_getTransactionByHash', [GENESIS])).result).toBe(null)
    expect(received.length).toBe(3)
  })

  test('gives responses that are sent in ASCII', async () => {
    const { rpc } = follower(async () => ({ result: '{"extra":"über"}' }))
    const { text } = await rpc.send(
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getProof', params: proof }),
    )
    expect(text).toContain('\\u00fcber')
  })
})

describe('a block tag older than the state', () => {
  const view = (finalized: bigint | undefined): UpstreamKnown['view'] => ({
    oldestState: 5n,
    earliest: 0n,
    canonical: { number: 9n, hash: new Uint8Array(32) },
    findTransaction: () => undefined,
    block: (selector) =>
      'tag' in selector && selector.tag === 'finalized' && finalized !== undefined
        ? ({ number: finalized } as Block)
        : undefined,
  })
  test.each<[string, bigint | undefined, string, readonly unknown[], readonly [string, boolean]]>([
    [
      'finalized, sent as its number',
      3n,
      'eth_getBalance',
      [owner.address, 'finalized'],
      ['0x3', false],
    ],
    [
      'finalized, looked up locally first',
      3n,
      'eth_getBlockByNumber',
      ['finalized', true],
      ['0x3', true],
    ],
    [
      'finalized, the oldest local block',
      5n,
      'eth_getBlockByNumber',
      ['finalized', true],
      ['0x5', true],
    ],
    [
      'finalized, not known',
      undefined,
      'eth_getBalance',
      [owner.address, 'finalized'],
      ['finalized', false],
    ],
    ['a proof at finalized', 3n, 'eth_getProof', [owner.address, [], 'finalized'], ['0x3', false]],
    [
      'a proof at a finalized block above the head',
      12n,
      'eth_getProof',
      [owner.address, [], 'finalized'],
      ['0x9', false],
    ],
  ])(
    'is forwarded as the expected block: %s',
    (_name, finalized, method, params, [wire, isLocalFirst]) => {
      const found = methods.get(method)!
      const known = { view: view(finalized), isExpected: () => false }
      expect(upstreamRoute({ found, params }, DEFAULT_LIMITS, known)).toEqual({
        to: 'upstream',
        params: params.with(found.about!.at, wire),
        isLocalFirst,
      })
    },
  )
  test('is not forwarded if its block is new enough', () => {
    const found = methods.get('eth_getBalance')!
    const known = { view: view(5n), isExpected: () => false }
    const call = { found, params: [owner.address, 'finalized'] }
    expect(upstreamRoute(call, DEFAULT_LIMITS, known)).toEqual({ to: 'here' })
  })
})
