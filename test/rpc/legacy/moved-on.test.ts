/** The view moves on while another node, or the txpool, is asked: an answer names the flashblock that it was read at. */
import { afterAll, describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { Forwarded } from '../../../rpc/seam/ports.ts'
import { execute, SENDER, transfer } from '../../fixtures/executed.ts'
import { lazyChain } from '../../fixtures/lazy-state.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { GENESIS, placeChain } from '../../fixtures/place-chain.ts'
import { type Reply, type TestRpc, testRpc } from '../../fixtures/rpc.ts'
import { smallPool } from '../../fixtures/small-pool.ts'
import { startServer } from '../../fixtures/sockets.ts'

const FIRST = 10n
const [BEFORE, AFTER] = ['11:0', '11:1'] as const
const HERE = bytesToHex(SENDER)

/** A block of one flashblock on the first block, and what brings the next one with a transaction. */
function growing() {
  const memory = memoryChain([], FIRST)
  const { genesis } = memory
  const empty = memory.make(genesis, { index: 0 })
  memory.publish({ canonical: genesis, pending: empty })
  const transaction = transfer(7n)
  const grown = memory.make(genesis, {
    ...{ executed: execute([transaction]), index: 1, continues: empty },
  })
  return {
    memory,
    hash: bytesToHex(transaction.hash),
    blockHash: bytesToHex(grown.hash),
    grow: () => memory.publish({ canonical: genesis, pending: grown }),
  }
}
type Growing = ReturnType<typeof growing>

/** @param says what the upstream answers, after which the flashblock is here */
function follower(chain: Growing, says: Forwarded = { result: 'null' }): TestRpc {
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
    return says
  }
  return testRpc({ memory, source: { ...memory, reader }, lazy, forward: { forward } })
}

type Question = readonly [method: string, ...params: unknown[]]
async function asked(
  rpc: Pick<TestRpc, 'send' | 'bugs'> & { readonly memory?: TestRpc['memory'] },
  ...questions: readonly Question[]
) {
  const calls = questions.map(([method, ...params], id) => ({
    ...{ jsonrpc: '2.0', id, method, params },
  }))
  const { text, headers } = await rpc.send(JSON.stringify(calls.length > 1 ? calls : calls[0]))
  expect(rpc.bugs).toEqual([])
  expect(rpc.memory?.leaks() ?? 0).toBe(0)
  const replies = [JSON.parse(text!) as Reply | readonly Reply[]].flat()
  const place = headers['X-Flashblock']?.split(':').slice(0, 2).join(':')
  return { place, results: replies.map(({ result, error }) => error ?? result) }
}
const pendingCount = ['eth_getBlockTransactionCountByNumber', 'pending'] as const

describe('what is known here by the time another node has not got it', () => {
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

  test.each(names.map((name, at) => [name, at] as const))('%s: of an upstream', async (_, at) => {
    const chain = growing()
    const rpc = follower(chain)
    const question = questions(chain)[at]!
    expect(await asked(rpc, question)).toEqual({ place: BEFORE, results: [null] })
    const { place, results } = await asked(rpc, question)
    expect([place, results[0] !== null]).toEqual([AFTER, true])
  })

  test.each(names.map((name, at) => [name, at] as const))(
    '%s: of an upstream that is ahead, or fails',
    async (_, at) => {
      const ahead = { number: '0xb', blockNumber: '0xb' }
      for (const says of [
        { result: JSON.stringify(ahead) },
        { silent: 'nobody is there' },
        { error: { code: -32_000, message: 'no' } },
      ]) {
        const chain = growing()
        expect((await asked(follower(chain, says), questions(chain)[at]!)).place).toBe(BEFORE)
      }
    },
  )

  test('in a batch, which names the view of all its items', async () => {
    const chain = growing()
    const rpc = follower(chain)
    const { place, results } = await asked(rpc, pendingCount, ...questions(chain))
    expect([place, ...results]).toEqual([BEFORE, '0x0', ...names.map(() => null)])
  })

  test('in a batch that runs again on a newer view, because state was missing', async () => {
    const chain = growing()
    const rpc = follower(chain)
    const balance = ['eth_getBalance', HERE, 'pending'] as const
    const { place, results } = await asked(rpc, balance, pendingCount, ...questions(chain))
    expect([place, ...results.slice(0, 2)]).toEqual([AFTER, '0x0', '0x1'])
    expect(results.slice(2)).not.toContain(null)
  })

  describe('of the node of the chain before', () => {
    let onAsked = () => {}
    const old = startServer({
      answer(body) {
        onAsked()
        const { id, method } = JSON.parse(body) as { readonly id: number; readonly method: string }
        const isLogs = method === 'eth_getLogs'
        const text = JSON.stringify({ jsonrpc: '2.0', id, result: isLogs ? [] : null })
        return { text, status: 200, headers: {} }
      },
    })
    afterAll(async () => (await old).server.close())

    test('logs of both chains, with the place that a worker read here, or with that of a batch', async () => {
      onAsked = () => {}
      const { driver, rpc } = placeChain({
        legacyUrl: (await old).url,
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
      expect((await asked(own, logs)).place).toBe(at(1))
      expect((await asked(own, logs, pendingCount)).place).toBe(at(1))
      const [single, batched] = rpc.poolCalls.map(({ record }) => record)
      expect([single, typeof batched]).toEqual([undefined, 'number'])
    })

    test.each(names.map((name, at) => [name, at] as const))('%s', async (_, at) => {
      const chain = growing()
      onAsked = chain.grow
      const rpc = testRpc({ memory: chain.memory, legacyUrl: (await old).url })
      const question = questions(chain)[at]!
      expect(await asked(rpc, question)).toEqual({ place: BEFORE, results: [null] })
      const { place, results } = await asked(rpc, question)
      expect([place, results[0] !== null]).toEqual([AFTER, true])
    })
  })
})

describe('a transaction that has left the txpool for a flashblock, while that was asked', () => {
  const node = (chain: Growing) => {
    const pool = smallPool()
    const get = async () => {
      chain.grow()
      return undefined
    }
    return testRpc({ memory: chain.memory, transactions: { ...pool, get } })
  }

  test.each(['eth_getTransactionByHash', 'eth_getRawTransactionByHash'])('%s', async (method) => {
    const chain = growing()
    const { place, results } = await asked(node(chain), [method, chain.hash])
    expect([place, results[0] !== null]).toEqual([AFTER, true])
  })

  test('in a batch, all of which is of the view that has it', async () => {
    const chain = growing()
    const { place, results } = await asked(
      node(chain),
      pendingCount,
      ['eth_getTransactionByHash', chain.hash],
      ['eth_getTransactionReceipt', chain.hash],
    )
    expect([place, results[0]]).toEqual([AFTER, '0x1'])
    expect(results).not.toContain(null)
  })
})

test('a worker that has read a newer view than the one that chose the route', async () => {
  const chain = growing()
  const { memory, grow } = chain
  const { reader, lazy } = lazyChain(memory, { oldest: FIRST, isMissing: () => false })
  const rpc = testRpc({
    ...{ memory, source: { ...memory, reader }, lazy },
    forward: { forward: async () => ({ result: 'null' }) },
    executor: (local) => ({
      execute(call) {
        grow()
        return local.execute(call)
      },
    }),
  })
  // Nothing of an answer by the hash of its transaction is kept.
  const transaction = transfer(1n)
  const kept = memory.make(memory.genesis, { executed: execute([transaction]) })
  memory.publish({ canonical: memory.genesis, complete: kept, pending: kept })
  const hash = bytesToHex(transaction.hash)
  const { place } = await asked(rpc, ['debug_traceTransaction', hash, {}])
  expect(place).toBe(AFTER)
})
