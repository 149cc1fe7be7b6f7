/** These are limits for the work and the responses of methods. */
import { expect } from 'vitest'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { TrieAt } from '../../../engine/storage/types.ts'
import { ChangingChain, NOTHING } from '../../fixtures/changing-chain.ts'
import { CONTRACT, execute, log, SENDER, transfer } from '../../fixtures/executed.ts'
import { type MemoryChain, memoryChain } from '../../fixtures/memory-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { type Row, row, type Some } from './row.ts'

const address = (at: number) => `0x${at.toString(16).padStart(40, '0')}`
const word = (at: number) => `0x${at.toString(16).padStart(64, '0')}`
const addresses = [address(1), address(2), address(3)]
const words = [word(1), word(2), word(3)]

/** Makes three blocks of two transactions, each with a log. */
function loggedChain(): MemoryChain {
  const memory = memoryChain()
  let block = memory.genesis
  for (const nonce of [0n, 2n, 4n]) {
    const executed = execute([transfer(nonce), transfer(nonce + 1n)], [[log()], [log()]])
    block = memory.make(block, { executed })
  }
  memory.publish({ canonical: block })
  return memory
}

/** Gives the call's error; 'answered' where the call succeeds. */
const said =
  (method: string, ...params: readonly unknown[]): Row['see'] =>
  async (limits) => {
    const { error } = await testRpc({ memory: loggedChain(), limits }).request(method, params)
    return error?.message ?? 'answered'
  }

/** Records the limits with which a block's trie is requested from the store. */
async function trieBounds(limits: Parameters<Row['see']>[0]) {
  const memory = loggedChain()
  const seen: unknown[] = []
  const watched = {
    ...memory,
    lease(endpoint: Parameters<MemoryChain['lease']>[0]) {
      const leased = memory.lease(endpoint)
      const trieAt: typeof leased.view.trieAt = (block, bounds): TrieAt => {
        seen.push(bounds)
        return leased.view.trieAt(block, bounds)
      }
      return { ...leased, view: { ...leased.view, trieAt } }
    },
  }
  const source = { reader: watched, onPublish: memory.onPublish }
  await testRpc({ source, limits }).request('eth_getProof', [address(1), [], 'latest'])
  return seen
}

/** Gives the milliseconds that a call has when it goes to the pool. */
const deadline =
  (method: string, ...params: readonly unknown[]): Row['see'] =>
  async (limits) => {
    const rpc = testRpc({ memory: loggedChain(), limits, now: () => 0 })
    await rpc.request(method, params)
    // The fixture's clock is moved by this much.
    return rpc.poolCalls[0]!.deadline - 1_000
  }

/** The code stores a word at a megabyte, then returns. */
const WIDE = '0x6000621000005200'
const contract = bytesToHex(CONTRACT)
const slots = { stateDiff: { [word(1)]: word(1) } }
const overrides = { [address(1)]: slots, [address(2)]: slots }
const query = { fromBlock: '0x0' }

export const METHODS = {
  responseBytes: row(100, 'response too large', said('eth_getBlockByNumber', 'latest', false)),
  callGas: row(
    20_000,
    'gas required exceeds allowance (20000)',
    said('eth_estimateGas', { data: '0x00' }),
  ),
  callMs: row(1_234, 1_234, deadline('eth_call', { to: contract })),
  traceMs: row(1_234, 1_234, deadline('debug_traceCall', { to: contract }, 'latest')),
  logsMs: row(1_234, 1_234, deadline('eth_getLogs', query)),
  traceSteps: row(
    1,
    'trace of more than 1 steps',
    said('debug_traceCall', { data: '0x600060005000' }, 'latest'),
  ),
  evmMemoryBytes: row(
    1_000,
    'out of memory: an EVM frame exceeded --limit-evm-memory-bytes',
    said('eth_call', { data: WIDE, gas: '0x2faf080' }),
  ),
  overrideItems: row(
    3,
    'invalid argument 2: state override has 4 accounts and slots, expected at most 3',
    said('eth_call', {}, 'latest', overrides),
  ),
  accessListItems: row(
    2,
    'invalid argument 0: accessList: more than 2 items',
    said('eth_call', {
      accessList: addresses.map((one) => ({ address: one, storageKeys: [] })),
    }),
  ),
  storageSlots: row(
    2,
    'invalid argument 1: more than 2 items',
    said('eth_getProof', address(1), words, 'latest'),
  ),
  simulatedCalls: row(
    2,
    'too many calls: 3 > 2',
    said('eth_simulateV1', { blockStateCalls: [{ calls: [{}, {}, {}] }] }),
  ),
  proofBlocks: row(7, [expect.objectContaining({ blocks: 7 })], trieBounds),
  proofBytes: row(7, [expect.objectContaining({ bytes: 7 })], trieBounds),
  logsResults: row(
    2,
    'query exceeds max results 2, retry with the range 0-1',
    said('eth_getLogs', query),
  ),
  logsBlocks: row(
    2,
    'query exceeds max block range 2 without an address',
    said('eth_getLogs', query),
  ),
  logsBlocksFiltered: row(
    2,
    'query exceeds max block range 2',
    said('eth_getLogs', { ...query, address: contract }),
  ),
  logsReads: row(
    2,
    'query exceeds max receipts 2, retry with the range 0-1',
    said('eth_getLogs', query),
  ),
  logsAddresses: row(
    2,
    'exceed max addresses or topics per search position',
    said('eth_getLogs', { address: addresses }),
  ),
  logsTopics: row(
    2,
    'invalid argument 0: exceed max topics',
    said('eth_getLogs', { topics: [words] }),
  ),
  feeHistoryBlocks: row(2, 2, async (limits) => {
    const { result } = await testRpc({ memory: loggedChain(), limits }).request('eth_feeHistory', [
      '0x3',
      'latest',
    ])
    return (result as { readonly gasUsedRatio: readonly number[] }).gasUsedRatio.length
  }),
  feeHistoryPercentiles: row(
    2,
    'invalid argument 2: more than 2 items',
    said('eth_feeHistory', '0x1', 'latest', [1, 2, 3]),
  ),
  resultCacheItems: row(1, 1, cached('items')),
  resultCacheBytes: row(
    100,
    expect.toSatisfy((bytes) => bytes <= 100),
    cached('bytes'),
  ),
  resultCacheReads: row(1, 0, async (limits) => {
    const chain = new ChangingChain([CONTRACT, SENDER])
    const { reader, onPublish, chain: spec } = chain
    const source = { reader, onPublish }
    const rpc = testRpc({ source, chain: spec, engine: engineByName('fast'), limits })
    const world = [NOTHING, { ...NOTHING, balance: 5n }]
    chain.payload({ timestamp: FAST_FROM }, world)
    for (const more of [1n, 2n, 3n]) {
      await rpc.request('eth_call', [{ to: address(1) }, 'pending'])
      chain.flashblock([NOTHING, { ...NOTHING, balance: 5n + more }])
      chain.publish()
    }
    await rpc.request('eth_call', [{ to: address(1) }, 'pending'])
    return rpc.stats().cache.carried
  }),
} satisfies Some
/** The timestamp belongs to a fork whose rules the fast engine has. */
const FAST_FROM = 1_764_691_201n

/** Reads the cache after three results of one block. */
function cached(what: 'items' | 'bytes'): Row['see'] {
  return async (limits) => {
    const rpc = testRpc({ memory: loggedChain(), limits })
    for (const one of addresses) await rpc.request('eth_call', [{ to: one }, 'latest'])
    return rpc.stats().cache[what]
  }
}
