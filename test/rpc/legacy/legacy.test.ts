/** One URL for all of the history: a node whose chain begins at block 4, and the node of the chain before it, over real HTTP. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { temporaryDirectory } from '../../fixtures/databases.ts'
import { CONTRACT, execute, filled, log, TOPIC, transfer } from '../../fixtures/executed.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { owner, PROBE_ADDRESS, probeChain } from '../../fixtures/probe-chain.ts'
import { CHAIN } from '../../fixtures/producer.ts'
import { type Reply, type TestRpc, testRpc } from '../../fixtures/rpc.ts'
import { startServer } from '../../fixtures/sockets.ts'
import { call, runToEnd, startNode } from '../../kit/node.ts'

type Json = Readonly<Record<string, unknown>>
const CUTOFF = 4n
const chain = { ...CHAIN, genesisNumber: CUTOFF }

/** Block 4, then 5 and 6, each of these with a transaction that logs. */
function young(options: Parameters<typeof testRpc>[0] = {}): TestRpc {
  const memory = memoryChain([], CUTOFF)
  let parent = memory.genesis
  for (const nonce of [7n, 8n]) {
    const executed = execute([transfer(nonce)], [[log(), log()]])
    parent = memory.make(parent, { executed })
  }
  memory.publish({ canonical: parent })
  return testRpc({ memory, chain, ...options })
}

const { source } = await probeChain()
const old = testRpc({ source })
/** What arrived at the old node. */
let heard: { method: string; params: unknown[] }[] = []
const { server, url } = await startServer({
  answer(body, client) {
    heard.push(JSON.parse(body))
    return old.answer(body, client)
  },
})
afterAll(() => server.close())
const legacyUrl = `${url}/flashblocks`
const node = young({ legacyUrl })
const alone = young()

async function answers(
  rpc: TestRpc,
  method: string,
  params: readonly unknown[] = [],
): Promise<Pick<Reply, 'result' | 'error'>> {
  heard = []
  const reply = await rpc.ask(method, params)
  expect(rpc.bugs).toEqual([])
  expect(rpc.memory.leaks()).toBe(0)
  return { ...(reply.error === undefined ? { result: reply.result } : { error: reply.error }) }
}
const result = async (rpc: TestRpc, method: string, ...params: unknown[]) =>
  (await rpc.ask(method, params)).result as Json

const oldBlock = await result(old, 'eth_getBlockByNumber', '0x2', false)
const [, oldTransaction] = oldBlock['transactions'] as [string, string]
const ownBlock = await result(alone, 'eth_getBlockByNumber', '0x5', false)
const ownFirst = await result(alone, 'eth_getBlockByNumber', '0x4', false)
const [ownTransaction] = ownBlock['transactions'] as [string]
const probe = { to: PROBE_ADDRESS }

describe('what is older than the chain is the old node’s to answer', () => {
  const at = (block: unknown): [string, unknown[]][] => [
    ['eth_getBalance', [owner.address, block]],
    ['eth_getCode', [PROBE_ADDRESS, block]],
    ['eth_getStorageAt', [PROBE_ADDRESS, '0x0', block]],
    ['eth_getTransactionCount', [owner.address, block]],
    ['eth_call', [probe, block]],
    ['eth_estimateGas', [probe, block]],
    ['eth_createAccessList', [probe, block]],
    ['eth_getBlockReceipts', [block]],
  ]
  const hash = oldBlock['hash']
  const cases: [method: string, params: unknown[]][] = [
    ...['0x2', '0x0', hash, { blockNumber: '0x2' }, { blockHash: hash }].flatMap(at),
    ['eth_getBlockByNumber', ['0x2', true]],
    ['eth_getBlockByHash', [hash, true]],
    ['eth_getBlockTransactionCountByNumber', ['0x2']],
    ['eth_getBlockTransactionCountByHash', [hash]],
    ['eth_getHeaderByNumber', ['0x2']],
    ['eth_getHeaderByHash', [hash]],
    ['eth_getTransactionByHash', [oldTransaction]],
    ['eth_getTransactionReceipt', [oldTransaction]],
    ['eth_getTransactionByBlockHashAndIndex', [hash, '0x1']],
    ['eth_getTransactionByBlockNumberAndIndex', ['0x2', '0x1']],
    ['eth_getRawTransactionByHash', [oldTransaction]],
    ['eth_getRawTransactionByBlockHashAndIndex', [hash, '0x1']],
    ['eth_getRawTransactionByBlockNumberAndIndex', ['0x2', '0x1']],
    ['eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x3', address: PROBE_ADDRESS }]],
    ['eth_getLogs', [{ blockHash: hash }]],
    ['debug_traceTransaction', [oldTransaction, { tracer: 'callTracer' }]],
    ['debug_traceBlockByNumber', ['0x2', { tracer: 'callTracer' }]],
    ['debug_traceBlockByHash', [hash, { tracer: 'callTracer' }]],
    ['debug_traceCall', [probe, '0x2', { tracer: 'callTracer' }]],
    ['debug_traceCall', [probe, hash]],
    // Its errors too.
    ['eth_call', [{ ...probe, data: '0x1234' }, '0x2']],
    ['eth_getBalance', [owner.address, filled32(1)]],
    ['debug_traceTransaction', [filled32(2)]],
    ['debug_traceBlockByHash', [filled32(2), { tracer: 'callTracer' }]],
    ['eth_getTransactionReceipt', [filled32(2)]],
  ]
  test.each(cases)('%s %j', async (method, params) => {
    const expected = await answers(old, method, params)
    expect(await answers(node, method, params)).toEqual(expected)
    expect(heard).toEqual([{ jsonrpc: '2.0', id: 1, method, params }])
    const { text } = await node.send(JSON.stringify({ jsonrpc: '2.0', id: 'x', method, params }), {
      endpoint: 'standard',
    })
    expect(JSON.parse(text!)).toEqual({ jsonrpc: '2.0', id: 'x', ...expected })
  })

  test('earliest is block 0', async () => {
    expect((await result(node, 'eth_getBlockByNumber', 'earliest', false))['number']).toBe('0x0')
    await answers(node, 'eth_getBalance', [owner.address, 'earliest'])
    expect(heard[0]!.params).toEqual([owner.address, '0x0'])
    await answers(node, 'eth_getLogs', [{ fromBlock: 'earliest', toBlock: 'earliest' }])
    expect(heard[0]!.params).toEqual([{ fromBlock: '0x0', toBlock: '0x0' }])
  })
  test('a spelling that only this service has goes out in the common one', async () => {
    await answers(node, 'eth_getTransactionbyBlockNumberAndIndex', ['0x2', '0x1'])
    expect(heard[0]!.method).toBe('eth_getTransactionByBlockNumberAndIndex')
  })
  test('a trace as deep as calls may be', async () => {
    const deep = `${'{"calls":['.repeat(1_024)}${']}'.repeat(1_024)}`
    const { url, close } = await rawServer((_request, response) => {
      response.end(`{"jsonrpc":"2.0","id":1,"result":${deep}}`)
    })
    const { text } = await young({ legacyUrl: url }).send(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'debug_traceTransaction',
        params: [oldTransaction],
      }),
    )
    expect(text).toBe(`{"jsonrpc":"2.0","id":1,"result":${deep}}`)
    await close()
  })
  test.each([
    ['result', '['.repeat(100_000) + ']'.repeat(100_000)],
    ['error', `{"code":3,"message":"\\"[","data":${'['.repeat(100_000) + ']'.repeat(100_000)}}`],
  ])('a %s that is far deeper is an error', async (key, text) => {
    const { url, close } = await rawServer((_request, response) => {
      response.end(`{"jsonrpc":"2.0","id":1,"${key}":${text}}`)
    })
    const rpc = young({ legacyUrl: url })
    expect(await answers(rpc, 'debug_traceTransaction', [oldTransaction])).toEqual({
      error: {
        code: -32603,
        message:
          'Invalid legacy response: the node of the older chain answered with JSON nested deeper than 3000',
      },
    })
    await close()
  })
  test('nothing of the client goes along', async () => {
    const seen: IncomingMessage['headers'][] = []
    const { url, close } = await rawServer((request, response) => {
      seen.push(request.headers)
      response.end('{"jsonrpc":"2.0","id":1,"result":"0x1"}')
    })
    const secret = url.replace('http://', 'http://me:s%40cret@')
    const reply = await answers(young({ legacyUrl: secret }), 'eth_getBalance', [
      owner.address,
      '0x1',
    ])
    expect(reply).toEqual({ result: '0x1' })
    expect(seen[0]).toMatchObject({
      authorization: `Basic ${Buffer.from('me:s@cret').toString('base64')}`,
      'content-type': 'application/json',
    })
    expect(Object.keys(seen[0]!)).not.toContain('x-forwarded-for')
    await close()
  })
})

describe('what is of this chain stays here', () => {
  const tags = ['latest', 'pending', 'safe', 'finalized', '0x4', '0x5']
  const cases: [method: string, params: unknown[]][] = [
    ...tags.map((tag): [string, unknown[]] => ['eth_getBlockByNumber', [tag, false]]),
    ['eth_getBalance', [owner.address]],
    ['eth_getBalance', [owner.address, null]],
    ['eth_call', [probe, 'latest']],
    ['eth_getBlockByHash', [ownBlock['hash'], false]],
    ['eth_getBalance', [owner.address, { blockHash: ownBlock['hash'] }]],
    ['eth_getTransactionByHash', [ownTransaction]],
    ['eth_getTransactionReceipt', [ownTransaction]],
    ['eth_getTransactionByBlockHashAndIndex', [ownBlock['hash'], '0x9']],
    ['eth_getLogs', [{ fromBlock: '0x4' }]],
    // A block of this chain without a match is no reason to ask elsewhere.
    ['eth_getLogs', [{ blockHash: ownBlock['hash'], address: PROBE_ADDRESS }]],
    ['eth_getLogs', [{ fromBlock: '0x3', toBlock: '0x2' }]],
    ['eth_getBlockByNumber', ['0x99', false]],
    // Wrong parameters.
    ['eth_getBlockByNumber', ['0x01', false]],
    ['eth_getBlockByNumber', ['0x2', 'yes']],
    ['eth_getTransactionByHash', ['0x12"34']],
    ['eth_getBalance', ['0x12', '0x2']],
    ['eth_getLogs', [{ fromBlock: '0x1', address: '0x12' }]],
    ['debug_traceBlockByNumber', ['0x4', { tracer: 'callTracer' }]],
    ['debug_traceBlockByHash', [ownFirst['hash'], { tracer: 'callTracer' }]],
    ['debug_traceCall', [probe]],
    ['debug_traceCall', [probe, 'latest', { tracer: 'callTracer' }]],
    // Without a tracer the service refuses it, whichever chain it is about.
    ['debug_traceBlockByNumber', ['0x2']],
    // Not routed.
    ['debug_getRawHeader', ['0x2']],
    ['debug_getRawBlock', ['0x2']],
    ['debug_getRawReceipts', ['0x2']],
    ['eth_feeHistory', ['0x1', '0x2']],
    ['eth_simulateV1', [{ blockStateCalls: [{}] }, '0x2']],
    ['eth_getProof', [owner.address, [], '0x2']],
    ['eth_getUncleCountByBlockNumber', ['0x2']],
    ['eth_getUncleCountByBlockHash', [oldBlock['hash']]],
  ]
  test.each(cases)('%s %j', async (method, params) => {
    const expected = await answers(alone, method, params)
    expect(await answers(node, method, params)).toEqual(expected)
    expect(heard).toEqual([])
  })
  test('a filter', async () => {
    const { result: id } = await answers(node, 'eth_newFilter', [{ fromBlock: '0x1' }])
    expect(await answers(node, 'eth_getFilterLogs', [id])).toMatchObject({
      error: { code: -32001 },
    })
    expect(heard).toEqual([])
  })
  test('a transaction that waits for its block', async () => {
    const waiting = transfer(9n)
    const hash = bytesToHex(waiting.hash)
    expect(await answers(node, 'eth_getTransactionReceipt', [hash])).toEqual({ result: null })
    expect(heard).toHaveLength(1)
    await answers(node, 'eth_sendRawTransaction', [bytesToHex(waiting.raw)])
    expect(await answers(node, 'eth_getTransactionReceipt', [hash])).toEqual({ result: null })
    expect(heard).toEqual([])
  })
})

describe('logs', () => {
  const numbers = (logs: unknown) =>
    (logs as Json[]).map((one) => `${one['blockNumber']}/${one['logIndex']}`)

  test('of both chains, in order', async () => {
    const all = await answers(node, 'eth_getLogs', [{ fromBlock: '0x1', toBlock: 'latest' }])
    expect(numbers(all.result)).toEqual([
      ...['0x2/0x0', '0x2/0x1', '0x3/0x0'],
      ...['0x5/0x0', '0x5/0x1', '0x6/0x0', '0x6/0x1'],
    ])
    expect(heard[0]!.params).toEqual([{ fromBlock: '0x1', toBlock: '0x3' }])
    const theirs = await result(old, 'eth_getLogs', { fromBlock: '0x1', toBlock: '0x3' })
    const ours = await result(node, 'eth_getLogs', { fromBlock: '0x4' })
    expect(all.result).toEqual([theirs, ours].flat())
  })
  test('what is asked of them goes to both', async () => {
    const query = {
      fromBlock: 'earliest',
      address: bytesToHex(CONTRACT),
      topics: [bytesToHex(TOPIC)],
    }
    const { result: found } = await answers(node, 'eth_getLogs', [query])
    expect((found as Json[]).every((one) => one['address'] === query.address)).toBe(true)
    expect(found).not.toEqual([])
    expect(heard[0]!.params).toEqual([{ ...query, fromBlock: '0x0', toBlock: '0x3' }])
  })
  test('this chain’s part fails: nobody is asked, and a range is suggested from the first block on', async () => {
    const strict = young({ legacyUrl, limits: { logsBlocks: 1 } })
    expect(await answers(strict, 'eth_getLogs', [{ fromBlock: '0x1' }])).toEqual({
      error: {
        code: -32005,
        message: 'from block 4 on: query exceeds max block range 1 without an address',
        data: { limit: 1, suggestedRange: { fromBlock: '0x1', toBlock: '0x4' } },
      },
    })
    expect(heard).toEqual([])
    const beyond = await answers(node, 'eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x99' }])
    expect(beyond).toMatchObject({ error: { code: -32602 } })
  })
  test('in disorder, and of blocks that nobody asked for', async () => {
    const logs = [
      ['0x3', '0x0', '0x0'],
      ['0x2', '0x10', '0x0'],
      ['0x2', '0x2', '0x1'],
      ['0x2', '0x2', '0x0'],
      ['0x4', '0x0', '0x0'],
      ['0x0', '0x0', '0x0'],
    ].map(([blockNumber, transactionIndex, logIndex]) => ({
      blockNumber,
      transactionIndex,
      logIndex,
    }))
    const { url, close } = await scripted({ result: logs })
    const found = await answers(young({ legacyUrl: url }), 'eth_getLogs', [
      { fromBlock: '0x1', address: PROBE_ADDRESS },
    ])
    expect(found.result).toEqual([logs[3], logs[2], logs[1], logs[0]])
    await close()
  })
  test.each([
    ['no list', {}],
    ['no logs', [{ blockNumber: '0x1' }]],
  ])('an answer that is %s', async (_name, wrong) => {
    const { url, close } = await scripted({ result: wrong })
    const reply = await answers(young({ legacyUrl: url }), 'eth_getLogs', [{ fromBlock: '0x1' }])
    expect(reply.error?.message).toMatch(/^Invalid legacy response: /)
    await close()
  })
})

describe('batches', () => {
  test('each item goes where it belongs, and the answers keep their order', async () => {
    heard = []
    const raw = bytesToHex(transfer(11n).raw)
    const hash = bytesToHex(transfer(11n).hash)
    const items: [string, unknown[]][] = [
      ['eth_getBlockByNumber', ['0x2', false]],
      ['eth_blockNumber', []],
      ['eth_sendRawTransaction', [raw]],
      // Known since the item before it.
      ['eth_getTransactionByHash', [hash]],
      ['eth_getLogs', [{ fromBlock: '0x3' }]],
      ['eth_getBlockByNumber', ['0x5', false]],
      ['eth_getBalance', ['0x12', '0x2']],
    ]
    const body = items.map(([method, params], id) => ({ jsonrpc: '2.0', id, method, params }))
    const replies = JSON.parse((await node.send(JSON.stringify(body))).text!) as Reply[]
    expect(replies.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, 5, 6])
    const [block, number, sent, pooled, logs, own, wrong] = replies
    expect(block!.result).toEqual(oldBlock)
    expect(number!.result).toBe('0x6')
    expect(sent!.result).toBe(hash)
    expect(pooled!.result).toMatchObject({ hash, blockHash: null })
    expect((logs!.result as Json[])[0]).toMatchObject({ blockNumber: '0x3' })
    expect(own!.result).toEqual(ownBlock)
    expect(wrong!.error).toMatchObject({ code: -32602 })
    expect(heard.map(({ method }) => method)).toEqual(['eth_getBlockByNumber', 'eth_getLogs'])
    expect(node.memory.leaks()).toBe(0)
  })
  test('a notification asks nobody', async () => {
    heard = []
    await node.send('{"jsonrpc":"2.0","method":"eth_getBlockByNumber","params":["0x2",false]}')
    expect(heard).toEqual([])
  })
})

describe('without the old node', () => {
  const gone = {
    code: -32001,
    message:
      'history not available: block 2 is older than this chain, which begins at block 4; the oldest kept is block 4',
    data: { oldest: '0x4', newest: '0x6' },
  }
  const cases: [method: string, params: unknown[]][] = [
    ['eth_getBlockByNumber', ['0x2', false]],
    ['eth_getBalance', [owner.address, '0x2']],
    ['eth_getBlockReceipts', [{ blockNumber: '0x2' }]],
    ['eth_call', [probe, '0x2']],
    ['eth_getLogs', [{ fromBlock: '0x2', toBlock: '0x3' }]],
    ['eth_getLogs', [{ fromBlock: '0x2' }]],
    ['debug_traceCall', [probe, '0x2']],
    ['debug_getRawHeader', ['0x2']],
    ['debug_getRawBlock', ['0x2']],
    ['debug_getRawReceipts', ['0x2']],
    ['eth_feeHistory', ['0x1', '0x2']],
    ['eth_simulateV1', [{ blockStateCalls: [{}] }, '0x2']],
    ['eth_getProof', [owner.address, [], '0x2']],
    ['debug_traceBlockByNumber', ['0x2', { tracer: 'callTracer' }]],
    ['eth_feeHistory', ['0x1', '0x2']],
  ]
  test.each(cases)('%s %j names the oldest block', async (method, params) => {
    expect(await answers(alone, method, params)).toEqual({ error: gone })
  })
  test('earliest is the first block', async () => {
    expect((await result(alone, 'eth_getBlockByNumber', 'earliest', false))['number']).toBe('0x4')
    const logs = await result(alone, 'eth_getLogs', { fromBlock: 'earliest' })
    expect(logs).not.toEqual([])
  })
  test('fee history begins with the chain', async () => {
    const history = await result(alone, 'eth_feeHistory', '0x9', 'latest')
    expect(history['oldestBlock']).toBe('0x4')
  })
})

describe('the old node fails', () => {
  type Answered = (request: IncomingMessage, response: ServerResponse) => void
  const text =
    (body: string, status = 200): Answered =>
    (_request, response) => {
      response.statusCode = status
      response.end(body)
    }
  const json = (body: unknown, status = 200) => text(JSON.stringify(body), status)
  const data = { reason: 'rate', retryAfterMs: 20 }
  const cases: [name: string, answered: Answered, error: object][] = [
    [
      'with an error',
      json({ error: { code: -32005, message: 'slow down', data } }, 429),
      { code: -32005, message: 'slow down', data },
    ],
    [
      'with an error that names whom it has asked',
      json({ error: { code: -32000, message: 'dial tcp 10.0.0.7:8545: refused' } }),
      { code: -32000, message: 'dial tcp the node of the older chain: refused' },
    ],
    [
      'with a page',
      text('<html>', 502),
      {
        code: -32603,
        message: expect.stringMatching(
          /^Legacy RPC error: the node of the older chain answered with HTTP 502$/,
        ),
      },
    ],
    [
      'with no JSON',
      text('<html>'),
      {
        code: -32603,
        message: expect.stringMatching(/^Legacy parse error: the node of the older chain answered/),
      },
    ],
    [
      'with neither a result nor an error',
      json({ id: 1 }),
      {
        code: -32603,
        message: expect.stringMatching(
          /^Invalid legacy response: the node of the older chain gave/,
        ),
      },
    ],
    [
      'with another place to go to',
      (_request, response) => response.writeHead(307, { location: url }).end(),
      {
        code: -32603,
        message: expect.stringMatching(
          /^Legacy RPC error: the node of the older chain cannot be reached/,
        ),
      },
    ],
    [
      'with more than may be',
      json({ result: 'x'.repeat(10_000) }),
      { code: -32003, message: 'response too large', data: expect.anything() },
    ],
    [
      'in the middle of its answer',
      (_request, response) => {
        response.writeHead(200, { 'content-length': 1_000 }).write('{')
        response.destroy()
      },
      {
        code: -32603,
        message: expect.stringMatching(
          /^Legacy RPC error: the node of the older chain cannot be reached/,
        ),
      },
    ],
    [
      'to say anything',
      () => {},
      {
        code: -32603,
        message: expect.stringMatching(
          /^Legacy RPC error: the node of the older chain gave no answer within 300 ms$/,
        ),
      },
    ],
  ]
  test.each(cases)('%s', async (_name, answered, error) => {
    const { url, close } = await rawServer(answered)
    const limits = { legacyResponseBytes: 9_000, legacyMs: 300 }
    const rpc = young({ legacyUrl: `${url}/secret-key`, limits })
    const reply = await answers(rpc, 'eth_getBlockByNumber', ['0x2', false])
    expect(reply).toEqual({ error })
    expect(JSON.stringify(reply)).not.toMatch(/secret|127\.0\.0\.1/)
    expect(rpc.stats().legacy).toEqual({ calls: 1, errors: 1, inFlight: 0 })
    await close()
  })
  test('nobody listens', async () => {
    const { url, close } = await rawServer(() => {})
    await close()
    const rpc = young({ legacyUrl: url })
    const reply = await answers(rpc, 'eth_getLogs', [{ fromBlock: '0x2' }])
    expect(reply.error).toEqual({
      code: -32603,
      message: 'Legacy RPC error: the node of the older chain cannot be reached (ECONNREFUSED)',
    })
  })
  test('too many at a time, of one client and of all', async () => {
    const release: (() => void)[] = []
    const arrived = Promise.withResolvers<void>()
    const { url, close } = await rawServer((_request, response) => {
      release.push(() => response.end('{"result":null}'))
      if (release.length === 3) arrived.resolve()
    })
    const limits = { legacyCallsPerClient: 2, legacyCallsTotal: 3 }
    const rpc = young({ legacyUrl: url, limits })
    const ask = (address: string) => rpc.ask('eth_getBlockByNumber', ['0x2', false], { address })
    const running = [ask('a'), ask('a'), ask('b')]
    await arrived.promise
    for (const who of ['a', 'b', 'c'])
      expect((await ask(who)).error).toMatchObject({ code: -32005, data: { reason: 'cap' } })
    expect(rpc.stats().legacy?.inFlight).toBe(3)
    for (const one of release) one()
    for (const one of running) expect((await one).result).toBe(null)
    await close()
  })
  test('a client that goes away takes its call along', async () => {
    const arrived = Promise.withResolvers<void>()
    const left = Promise.withResolvers<void>()
    const { url, close } = await rawServer((_request, response) => {
      response.on('close', left.resolve)
      arrived.resolve()
    })
    const leaving = new AbortController()
    const rpc = young({ legacyUrl: url })
    const asked = rpc.ask('eth_getBlockByNumber', ['0x2', false], { signal: leaving.signal })
    await arrived.promise
    leaving.abort()
    await left.promise
    await asked
    expect(rpc.stats().legacy?.inFlight).toBe(0)
    await close()
  })
})

function filled32(byte: number): string {
  return bytesToHex(filled(32, byte))
}

async function rawServer(listener: (request: IncomingMessage, response: ServerResponse) => void) {
  const raw = createServer(listener)
  raw.listen(0, '127.0.0.1')
  await once(raw, 'listening')
  return {
    url: `http://127.0.0.1:${(raw.address() as AddressInfo).port}`,
    async close() {
      raw.closeAllConnections()
      raw.close()
      await once(raw, 'close')
    },
  }
}
const scripted = (body: unknown) =>
  rawServer((_request, response) => response.end(JSON.stringify(body)))

describe('as it is started', () => {
  const directory = temporaryDirectory()
  const genesis = (number: string) =>
    JSON.stringify({
      config: { chainId: 7 },
      number,
      gasLimit: '0x1c9c380',
      alloc: {},
    })
  const datadirOf = async (number: string) => {
    const file = join(directory, `genesis-${number}.json`)
    writeFileSync(file, genesis(number))
    writeFileSync(join(directory, 'empty.rlp'), '')
    const datadir = join(directory, number)
    const blocks = join(directory, 'empty.rlp')
    await runToEnd(['import', '--genesis', file, '--chain', blocks, '--datadir', datadir])
    return datadir
  }

  test('serve --legacy-rpc', async () => {
    const first = await startNode(['--ephemeral', '--log-level', 'error'])
    const datadir = await datadirOf('0x3e8')
    const flags = ['--datadir', datadir, '--log-level', 'error']
    const second = await startNode([...flags, '--legacy-rpc', first.url], 'serve')
    const params = ['0x0', true]
    const block = await call(first.url, 'eth_getBlockByNumber', params)
    expect(await call(second.url, 'eth_getBlockByNumber', params)).toEqual(block)
    expect(await call(second.url, 'eth_blockNumber')).toBe('0x3e8')
    expect(await call(second.url, 'eth_getBlockByNumber', ['0x3e8', true])).toMatchObject({
      number: '0x3e8',
    })
    await first.stop()
    await expect(call(second.url, 'eth_getBlockByNumber', params)).rejects.toThrow(
      '-32603 Legacy RPC error: the node of the older chain cannot be reached (ECONNREFUSED)',
    )
    await second.stop()
    const whole = ['--datadir', await datadirOf('0x0'), '--legacy-rpc', 'http://127.0.0.1:1']
    await expect(startNode(whole, 'serve')).rejects.toThrow(
      'flashnode: --legacy-rpc is for a chain that goes on from an older one: chain-7 begins at block 0',
    )
  })
})
