/** A node whose state begins at block 1, and its upstream, which has all of it: what is older, and proofs, are the upstream's to answer. */
import { describe, expect, test } from 'vitest'
import type { Block } from '../../../engine/chain/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { type UpstreamKnown, upstreamRoute } from '../../../rpc/legacy/upstream-route.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { DEFAULT_LIMITS } from '../../../rpc/seam/limits.ts'
import type { Forward, Forwarded } from '../../../rpc/seam/ports.ts'
import { lazyChain } from '../../fixtures/lazy-state.ts'
import { owner, PROBE_ADDRESS, probeChain } from '../../fixtures/probe-chain.ts'
import { type Reply, type TestRpc, testRpc } from '../../fixtures/rpc.ts'
import { transfer } from '../../fixtures/txpool.ts'

const { source } = await probeChain()
const whole = testRpc({ source })
const OLDEST = 1n

function follower(
  says: (method: string, params: readonly unknown[]) => Promise<Forwarded> = upstream,
) {
  const heard: unknown[][] = []
  const forward: Forward = {
    forward(method, params, { to }) {
      heard.push([to, method, ...params])
      return says(method, params)
    },
  }
  const { reader, lazy } = lazyChain(source.reader, { oldest: OLDEST })
  const rpc = testRpc({ source: { ...source, reader }, lazy, forward })
  return { rpc, heard }
}
async function upstream(method: string, params: readonly unknown[]): Promise<Forwarded> {
  const { result, error } = await whole.ask(method, params)
  return error === undefined ? { result: JSON.stringify(result) } : { error }
}

const answer = ({ result, error }: Reply) => (error === undefined ? { result } : { error })
async function asked(rpc: TestRpc, method: string, params: readonly unknown[]) {
  const single = answer(await rpc.ask(method, params))
  const body = [{ jsonrpc: '2.0', id: 7, method, params }]
  const [batched] = JSON.parse((await rpc.send(JSON.stringify(body))).text!) as Reply[]
  expect(answer(batched!)).toEqual(single)
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

describe('goes to the upstream', () => {
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
  ])('%s %j %j', async (method, ...params) => {
    const { rpc, heard } = follower()
    expect(await asked(rpc, method, params)).toEqual(answer(await whole.ask(method, params)))
    const asks = heard.map(([to, name]) => [to, name])
    // In a batch as well, but for what it has not got.
    expect(asks.slice(0, 1)).toEqual([['upstream', method]])
    expect(asks.slice(1)).toEqual(heard.length === 1 ? [] : [['upstream', method]])
    expect(rpc.stats().upstream).toMatchObject({ calls: heard.length, inFlight: 0 })
  })

  test('in parts: logs of both sides', async () => {
    const { rpc, heard } = follower()
    const query = { fromBlock: '0x0', toBlock: 'pending' }
    const reply = await asked(rpc, 'eth_getLogs', [query])
    expect(reply).toEqual(answer(await whole.ask('eth_getLogs', [query])))
    expect((reply.result as unknown[]).length).toBeGreaterThan(2)
    expect(heard[0]).toEqual(['upstream', 'eth_getLogs', { fromBlock: '0x0', toBlock: '0x0' }])
  })

  test('by the number of the canonical head: a proof of what has no root yet', async () => {
    const { rpc, heard } = follower()
    await rpc.ask('eth_getProof', [owner.address, [], 'pending'])
    await rpc.ask('eth_getProof', [owner.address, [], '0x2'])
    expect(heard.map((call) => call.at(-1))).toEqual(['0x1', '0x2'])
  })
})

describe('stays here', () => {
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
  ])('%s %j %j', async (method, ...params) => {
    const { rpc, heard } = follower()
    const [ours, theirs] = [await rpc.ask(method, params), await whole.ask(method, params)]
    expect(answer(ours)).toEqual(answer(theirs))
    expect(heard).toEqual([])
  })

  test('a transaction that waits here for its block', async () => {
    const { rpc, heard } = follower()
    const sent = transfer(0, 0)
    await rpc.pool.submit(sent.raw, { address: '', isGone: false })
    const { result } = await rpc.ask('eth_getTransactionReceipt', [bytesToHex(sent.hash)])
    expect([result, heard]).toEqual([null, []])
  })
})

describe('the upstream', () => {
  const pruned = (why: string) => ({
    error: {
      code: -32_001,
      message: `history not available: eth_getProof is the upstream's to answer: ${why}; the oldest kept is block 1`,
      data: { oldest: '0x1', newest: '0x2' },
    },
  })
  const proof = [owner.address, [], 'latest']

  test.each<[string, Forwarded, string]>([
    ['is away', { silent: 'connection refused' }, 'connection refused'],
    [
      'has no proofs',
      { error: { code: -32_601, message: 'the method eth_getProof does not exist' } },
      'the method eth_getProof does not exist',
    ],
    [
      'has pruned',
      { error: { code: -32_000, message: 'missing trie node 0x12' } },
      'missing trie node 0x12',
    ],
    [
      'has none so far back',
      {
        error: { code: -32_000, message: 'distance to target block exceeds maximum proof window' },
      },
      'distance to target block exceeds maximum proof window',
    ],
  ])('that %s: as pruned as here, and the oldest block', async (_name, says, why) => {
    const { rpc } = follower(async () => says)
    expect(await asked(rpc, 'eth_getProof', proof)).toEqual(pruned(why))
  })

  test.each([3, -32_000])('says what it says of calls: %d', async (code) => {
    const error = { code, message: 'execution reverted: block not found', data: '0x01' }
    const { rpc } = follower(async () => ({ error }))
    expect(await asked(rpc, 'eth_call', [call, '0x0'])).toEqual({ error })
  })

  test('may not be asked what is wrong', async () => {
    const { rpc, heard } = follower()
    const { error } = await rpc.ask('eth_getProof', ['0x12', [], '0x0'])
    expect([error?.code, heard]).toEqual([-32_602, []])
  })

  test('that is ahead shows no block that is not here', async () => {
    const ahead = { blockNumber: '0x9', blockHash: GENESIS }
    const { rpc } = follower(async () => ({ result: JSON.stringify(ahead) }))
    for (const method of ['eth_getTransactionReceipt', 'eth_getTransactionByHash'])
      expect(await asked(rpc, method, [GENESIS])).toEqual({ result: null })
    const block = { number: '0x9', hash: GENESIS }
    const { rpc: other } = follower(async () => ({ result: JSON.stringify(block) }))
    expect(await asked(other, 'eth_getBlockByHash', [GENESIS, false])).toEqual({ result: null })
    const logs = [{ ...ahead, logIndex: '0x0' }]
    const { rpc: third } = follower(async () => ({ result: JSON.stringify(logs) }))
    expect(await asked(third, 'eth_getLogs', [{ blockHash: GENESIS }])).toEqual({
      error: { code: -32_000, message: 'unknown block' },
    })
  })

  test('is asked once in a second for what it has not got', async () => {
    const { rpc, heard } = follower(async () => ({ result: 'null' }))
    const ask = async () => (await rpc.ask('eth_getTransactionReceipt', [GENESIS])).result
    expect([await ask(), await ask(), heard.length]).toEqual([null, null, 1])
    rpc.advance(1_000)
    expect([await ask(), await ask(), heard.length]).toEqual([null, null, 2])
    expect((await rpc.ask('eth_getTransactionByHash', [GENESIS])).result).toBe(null)
    expect(heard.length).toBe(3)
  })

  test('answers in ASCII', async () => {
    const { rpc } = follower(async () => ({ result: '{"extra":"über"}' }))
    const { text } = await rpc.send(
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getProof', params: proof }),
    )
    expect(text).toContain('\\u00fcber')
  })
})

describe('a tag that names a block older than the state', () => {
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
    ['known by its number', 3n, 'eth_getBalance', [owner.address, 'finalized'], ['0x3', false]],
    ['that may be kept', 3n, 'eth_getBlockByNumber', ['finalized', true], ['0x3', true]],
    ['of the oldest block', 5n, 'eth_getBlockByNumber', ['finalized', true], ['0x5', true]],
    ['not known', undefined, 'eth_getBalance', [owner.address, 'finalized'], ['finalized', false]],
    ['proven', 3n, 'eth_getProof', [owner.address, [], 'finalized'], ['0x3', false]],
    ['proven, ahead', 12n, 'eth_getProof', [owner.address, [], 'finalized'], ['0x9', false]],
  ])('%s', (_name, finalized, method, params, [wire, isHereFirst]) => {
    const found = methods.get(method)!
    const known = { view: view(finalized), isExpected: () => false }
    expect(upstreamRoute({ found, params }, DEFAULT_LIMITS, known)).toEqual({
      to: 'upstream',
      params: params.with(found.about!.at, wire),
      isHereFirst,
    })
  })
  test('newer than it', () => {
    const found = methods.get('eth_getBalance')!
    const known = { view: view(5n), isExpected: () => false }
    const call = { found, params: [owner.address, 'finalized'] }
    expect(upstreamRoute(call, DEFAULT_LIMITS, known)).toEqual({ to: 'here' })
  })
})
