/**
 * The view moves on during a request to another node or the txpool. A response must name the
 * flashblock at which it was read.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { Forwarded } from '../../../rpc/core/ports.ts'
import { drivenChain, GENESIS } from '../../fixtures/driven-chain.ts'
import { execute, SENDER, transfer } from '../../fixtures/executed.ts'
import { lazyChain } from '../../fixtures/lazy-state.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { type Reply, type TestRpc, testRpc } from '../../fixtures/rpc.ts'
import { smallPool } from '../../fixtures/small-pool.ts'
import { startServer } from '../../fixtures/sockets.ts'

const FIRST = 10n
const [BEFORE, AFTER] = ['11:0', '11:1'] as const
const ACCOUNT = bytesToHex(SENDER)

/**
 * Makes a block of one flashblock on the first block. `grow` adds the next flashblock, which has a
 * transaction.
 */
function growing() {
  const memory = memoryChain([], FIRST)
  const { genesis } = memory
  const empty = memory.make(genesis, { index: 0 })
  memory.publish({ canonical: genesis, pending: empty })
  const transaction = transfer(7n)
  const grown = memory.make(genesis, {
    executed: execute([transaction]),
    index: 1,
    continues: empty,
  })
  return {
    memory,
    hash: bytesToHex(transaction.hash),
    blockHash: bytesToHex(grown.hash),
    grow: () => memory.publish({ canonical: genesis, pending: grown }),
  }
}
type Growing = ReturnType<typeof growing>

/**
 * Makes a follower.
 * @param reply of the upstream, after which the flashblock is available
 */
function follower(chain: Growing, reply: Forwarded = { result: 'null' }): TestRpc {
  const { memory, grow } = chain
  const { reader, lazy } = lazyChain(memory, {
    oldest: FIRST,
    async fetch() {
      grow()
      return undefined
    },
  })
  const forward = async () => {
    await new Promise(setImmediate)
    grow()
    return reply
  }
  return testRpc({ memory, source: { ...memory, reader }, lazy, forward: { forward } })
}

type Question = readonly [method: string, ...params: unknown[]]
async function query(
  rpc: Pick<TestRpc, 'send' | 'bugs'> & { readonly memory?: TestRpc['memory'] },
  ...questions: readonly Question[]
) {
  const calls = questions.map(([method, ...params], id) => ({
    jsonrpc: '2.0',
    id,
    method,
    params,
  }))
  const { text, headers } = await rpc.send(JSON.stringify(calls.length > 1 ? calls : calls[0]))
  expect(rpc.bugs).toEqual([])
  expect(rpc.memory?.leaks() ?? 0).toBe(0)
  const replies = [JSON.parse(text!) as Reply | readonly Reply[]].flat()
  const flashblockId = headers['X-Flashblock']?.split(':').slice(0, 2).join(':')
  return { flashblockId, results: replies.map(({ result, error }) => error ?? result) }
}
const pendingCount = ['eth_getBlockTransactionCountByNumber', 'pending'] as const

describe('data that arrives here while another node has no result for it', () => {
  const questions = ({ hash, blockHash }: Growing): readonly Question[] => [
    ['eth_getTransactionReceipt', hash],
    ['eth_getTransactionByHash', hash],
    ['eth_getRawTransactionByHash', hash],
    ['eth_getBlockByHash', blockHash, false],
    ['eth_getHeaderByHash', blockHash],
    ['eth_getBlockReceipts', { blockHash }],
    ['eth_getBlockTransactionCountByHash', blockHash],
    ['eth_getTransactionByBlockHashAndIndex', blockHash, '0x0'],
  ]
  const names = questions(growing()).map(([method]) => method)

  test.each(names.map((name, at) => [name, at] as const))(
    'is null at the older view, then found: %s forwarded to an upstream',
    async (_, at) => {
      const chain = growing()
      const rpc = follower(chain)
      const question = questions(chain)[at]!
      expect(await query(rpc, question)).toEqual({ flashblockId: BEFORE, results: [null] })
      const { flashblockId, results } = await query(rpc, question)
      expect([flashblockId, results[0] !== null]).toEqual([AFTER, true])
    },
  )

  test.each(names.map((name, at) => [name, at] as const))(
    'leaves the response at the older view when the upstream is ahead or fails: %s',
    async (_, at) => {
      const newer = { number: '0xb', blockNumber: '0xb' }
      for (const reply of [
        { result: JSON.stringify(newer) },
        { silent: 'nobody is there' },
        { error: { code: -32_000, message: 'no' } },
      ]) {
        const chain = growing()
        expect((await query(follower(chain, reply), questions(chain)[at]!)).flashblockId).toBe(
          BEFORE,
        )
      }
    },
  )

  test('is null in a batch, which names the view of all its items', async () => {
    const chain = growing()
    const rpc = follower(chain)
    const { flashblockId, results } = await query(rpc, pendingCount, ...questions(chain))
    expect([flashblockId, ...results]).toEqual([BEFORE, '0x0', ...names.map(() => null)])
  })

  test('is found in a batch that runs again on a newer view for missing state', async () => {
    const chain = growing()
    const rpc = follower(chain)
    const balance = ['eth_getBalance', ACCOUNT, 'pending'] as const
    const { flashblockId, results } = await query(rpc, balance, pendingCount, ...questions(chain))
    expect([flashblockId, ...results.slice(0, 2)]).toEqual([AFTER, '0x0', '0x1'])
    expect(results.slice(2)).not.toContain(null)
  })

  describe('over the node of the older chain', () => {
    let onRequest = () => {}
    const old = startServer({
      respond(body) {
        onRequest()
        const { id, method } = JSON.parse(body) as { readonly id: number; readonly method: string }
        const isLogs = method === 'eth_getLogs'
        const text = JSON.stringify({ jsonrpc: '2.0', id, result: isLogs ? [] : null })
        return { text, status: 200, headers: {} }
      },
    })
    afterAll(async () => (await old).server.close())

    test('leaves joined logs at the view of the worker or of the batch', async () => {
      onRequest = () => {}
      const { driver, rpc } = drivenChain({
        forwardingUrl: (await old).url,
        executor: (local) => ({
          execute(call) {
            driver.flashblock(1)
            return local.execute(call)
          },
        }),
      })
      driver.payload(2)
      const logs = ['eth_getLogs', { fromBlock: '0x1', toBlock: 'pending' }] as const
      const at = (index: number) => `${GENESIS + 1}:${index}`
      const own = { send: rpc.send, bugs: rpc.bugs }
      expect((await query(own, logs)).flashblockId).toBe(at(1))
      expect((await query(own, logs, pendingCount)).flashblockId).toBe(at(1))
      const [single, batched] = rpc.poolCalls.map(({ snapshot }) => snapshot)
      expect([single, typeof batched]).toEqual([undefined, 'number'])
    })

    test.each(names.map((name, at) => [name, at] as const))(
      'is null at the older view, then found: %s',
      async (_, at) => {
        const chain = growing()
        onRequest = chain.grow
        const rpc = testRpc({ memory: chain.memory, forwardingUrl: (await old).url })
        const question = questions(chain)[at]!
        expect(await query(rpc, question)).toEqual({ flashblockId: BEFORE, results: [null] })
        const { flashblockId, results } = await query(rpc, question)
        expect([flashblockId, results[0] !== null]).toEqual([AFTER, true])
      },
    )
  })
})

describe('a transaction that moves from the txpool to a flashblock during a request', () => {
  const node = (chain: Growing) => {
    const pool = smallPool()
    const get = async () => {
      chain.grow()
      return undefined
    }
    return testRpc({ memory: chain.memory, transactions: { ...pool, get } })
  }

  test.each(['eth_getTransactionByHash', 'eth_getRawTransactionByHash'])(
    'is found at the newer view by %s',
    async (method) => {
      const chain = growing()
      const { flashblockId, results } = await query(node(chain), [method, chain.hash])
      expect([flashblockId, results[0] !== null]).toEqual([AFTER, true])
    },
  )

  test('is found in a batch, all of which reads the newer view', async () => {
    const chain = growing()
    const { flashblockId, results } = await query(
      node(chain),
      pendingCount,
      ['eth_getTransactionByHash', chain.hash],
      ['eth_getTransactionReceipt', chain.hash],
    )
    expect([flashblockId, results[0]]).toEqual([AFTER, '0x1'])
    expect(results).not.toContain(null)
  })
})

test('a trace names the newer view that its worker has read', async () => {
  const chain = growing()
  const { memory, grow } = chain
  const { reader, lazy } = lazyChain(memory, { oldest: FIRST, isMissing: () => false })
  const rpc = testRpc({
    memory,
    source: { ...memory, reader },
    lazy,
    forward: { forward: async () => ({ result: 'null' }) },
    executor: (local) => ({
      execute(call) {
        grow()
        return local.execute(call)
      },
    }),
  })
  // A response by the hash of its transaction is not cached.
  const transaction = transfer(1n)
  const retained = memory.make(memory.genesis, { executed: execute([transaction]) })
  memory.publish({ canonical: memory.genesis, complete: retained, pending: retained })
  const hash = bytesToHex(transaction.hash)
  const { flashblockId } = await query(rpc, ['debug_traceTransaction', hash, {}])
  expect(flashblockId).toBe(AFTER)
})
