/**
 * One URL serves all of the history over real HTTP: a node whose chain starts at block 4, and the
 * node of the older chain.
 */
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

/** Makes block 4, then 5 and 6, each with a transaction that logs. */
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
/** The requests that arrived at the older node. */
let received: { method: string; params: unknown[] }[] = []
const { server, url } = await startServer({
  respond(body, client) {
    received.push(JSON.parse(body))
    return old.respond(body, client)
  },
})
afterAll(() => server.close())
const forwardingUrl = `${url}/flashblocks`
const node = young({ forwardingUrl })
const alone = young()

async function responsesOf(
  rpc: TestRpc,
  method: string,
  params: readonly unknown[] = [],
): Promise<Pick<Reply, 'result' | 'error'>> {
  received = []
  const reply = await rpc.request(method, params)
  expect(rpc.bugs).toEqual([])
  expect(rpc.memory.leaks()).toBe(0)
  return { ...(reply.error === undefined ? { result: reply.result } : { error: reply.error }) }
}
const result = async (rpc: TestRpc, method: string, ...params: unknown[]) =>
  (await rpc.request(method, params)).result as Json

const oldBlock = await result(old, 'eth_getBlockByNumber', '0x2', false)
const [, oldTransaction] = oldBlock['transactions'] as [string, string]
const ownBlock = await result(alone, 'eth_getBlockByNumber', '0x5', false)
const ownFirst = await result(alone, 'eth_getBlockByNumber', '0x4', false)
const [ownTransaction] = ownBlock['transactions'] as [string]
const probe = { to: PROBE_ADDRESS }

describe('a request about the older chain', () => {
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
    // Errors are compared too.
    ['eth_call', [{ ...probe, data: '0x1234' }, '0x2']],
    ['eth_getBalance', [owner.address, filled32(1)]],
    ['debug_traceTransaction', [filled32(2)]],
    ['debug_traceBlockByHash', [filled32(2), { tracer: 'callTracer' }]],
    ['eth_getTransactionReceipt', [filled32(2)]],
  ]
  test.each(cases)('gets the response of the older node: %s %j', async (method, params) => {
    const expected = await responsesOf(old, method, params)
    expect(await responsesOf(node, method, params)).toEqual(expected)
    expect(received).toEqual([{ jsonrpc: '2.0', id: 1, method, params }])
    const { text } = await node.send(JSON.stringify({ jsonrpc: '2.0', id: 'x', method, params }), {
      endpoint: 'standard',
    })
    expect(JSON.parse(text!)).toEqual({ jsonrpc: '2.0', id: 'x', ...expected })
  })

  test('resolves earliest to block 0', async () => {
    expect((await result(node, 'eth_getBlockByNumber', 'earliest', false))['number']).toBe('0x0')
    await responsesOf(node, 'eth_getBalance', [owner.address, 'earliest'])
    expect(received[0]!.params).toEqual([owner.address, '0x0'])
    await responsesOf(node, 'eth_getLogs', [{ fromBlock: 'earliest', toBlock: 'earliest' }])
    expect(received[0]!.params).toEqual([{ fromBlock: '0x0', toBlock: '0x0' }])
  })
  test('forwards a misspelled method under its common name', async () => {
    await responsesOf(node, 'eth_getTransactionbyBlockNumberAndIndex', ['0x2', '0x1'])
    expect(received[0]!.method).toBe('eth_getTransactionByBlockNumberAndIndex')
  })
  test('returns a trace of the maximum call depth', async () => {
    const deep = `${'{"calls":['.repeat(1_024)}${']}'.repeat(1_024)}`
    const { url, close } = await rawServer((_request, response) => {
      response.end(`{"jsonrpc":"2.0","id":1,"result":${deep}}`)
    })
    const { text } = await young({ forwardingUrl: url }).send(
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
  ])('is an error if the %s is nested far deeper', async (key, text) => {
    const { url, close } = await rawServer((_request, response) => {
      response.end(`{"jsonrpc":"2.0","id":1,"${key}":${text}}`)
    })
    const rpc = young({ forwardingUrl: url })
    expect(await responsesOf(rpc, 'debug_traceTransaction', [oldTransaction])).toEqual({
      error: {
        code: -32603,
        message:
          'Invalid legacy response: the node of the older chain answered with JSON nested deeper than 3000',
      },
    })
    await close()
  })
  test('forwards nothing about the client', async () => {
    const seen: IncomingMessage['headers'][] = []
    const { url, close } = await rawServer((request, response) => {
      seen.push(request.headers)
      response.end('{"jsonrpc":"2.0","id":1,"result":"0x1"}')
    })
    const secret = url.replace('http://', 'http://me:s%40cret@')
    const reply = await responsesOf(young({ forwardingUrl: secret }), 'eth_getBalance', [
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

describe('a request about this chain', () => {
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
    // A block of this chain without a match is not requested elsewhere.
    ['eth_getLogs', [{ blockHash: ownBlock['hash'], address: PROBE_ADDRESS }]],
    ['eth_getLogs', [{ fromBlock: '0x3', toBlock: '0x2' }]],
    ['eth_getBlockByNumber', ['0x99', false]],
    // These parameters are wrong.
    ['eth_getBlockByNumber', ['0x01', false]],
    ['eth_getBlockByNumber', ['0x2', 'yes']],
    ['eth_getTransactionByHash', ['0x12"34']],
    ['eth_getBalance', ['0x12', '0x2']],
    ['eth_getLogs', [{ fromBlock: '0x1', address: '0x12' }]],
    ['debug_traceBlockByNumber', ['0x4', { tracer: 'callTracer' }]],
    ['debug_traceBlockByHash', [ownFirst['hash'], { tracer: 'callTracer' }]],
    ['debug_traceCall', [probe]],
    ['debug_traceCall', [probe, 'latest', { tracer: 'callTracer' }]],
    // Without a tracer the service refuses the method on either chain.
    ['debug_traceBlockByNumber', ['0x2']],
    // These methods are not routed.
    ['debug_getRawHeader', ['0x2']],
    ['debug_getRawBlock', ['0x2']],
    ['debug_getRawReceipts', ['0x2']],
    ['eth_feeHistory', ['0x1', '0x2']],
    ['eth_simulateV1', [{ blockStateCalls: [{}] }, '0x2']],
    ['eth_getProof', [owner.address, [], '0x2']],
    ['eth_getUncleCountByBlockNumber', ['0x2']],
    ['eth_getUncleCountByBlockHash', [oldBlock['hash']]],
  ]
  test.each(cases)('is not forwarded: %s %j', async (method, params) => {
    const expected = await responsesOf(alone, method, params)
    expect(await responsesOf(node, method, params)).toEqual(expected)
    expect(received).toEqual([])
  })
  test('by a filter is not forwarded', async () => {
    const { result: id } = await responsesOf(node, 'eth_newFilter', [{ fromBlock: '0x1' }])
    expect(await responsesOf(node, 'eth_getFilterLogs', [id])).toMatchObject({
      error: { code: -32001 },
    })
    expect(received).toEqual([])
  })
  test('for a pooled transaction is not forwarded', async () => {
    const waiting = transfer(9n)
    const hash = bytesToHex(waiting.hash)
    expect(await responsesOf(node, 'eth_getTransactionReceipt', [hash])).toEqual({ result: null })
    expect(received).toHaveLength(1)
    await responsesOf(node, 'eth_sendRawTransaction', [bytesToHex(waiting.raw)])
    expect(await responsesOf(node, 'eth_getTransactionReceipt', [hash])).toEqual({ result: null })
    expect(received).toEqual([])
  })
})

describe('logs', () => {
  const numbers = (logs: unknown) =>
    (logs as Json[]).map((one) => `${one['blockNumber']}/${one['logIndex']}`)

  test('of both chains are joined in order', async () => {
    const all = await responsesOf(node, 'eth_getLogs', [{ fromBlock: '0x1', toBlock: 'latest' }])
    expect(numbers(all.result)).toEqual([
      ...['0x2/0x0', '0x2/0x1', '0x3/0x0'],
      ...['0x5/0x0', '0x5/0x1', '0x6/0x0', '0x6/0x1'],
    ])
    expect(received[0]!.params).toEqual([{ fromBlock: '0x1', toBlock: '0x3' }])
    const theirs = await result(old, 'eth_getLogs', { fromBlock: '0x1', toBlock: '0x3' })
    const ours = await result(node, 'eth_getLogs', { fromBlock: '0x4' })
    expect(all.result).toEqual([theirs, ours].flat())
  })
  test('of both chains match the same query', async () => {
    const query = {
      fromBlock: 'earliest',
      address: bytesToHex(CONTRACT),
      topics: [bytesToHex(TOPIC)],
    }
    const { result: found } = await responsesOf(node, 'eth_getLogs', [query])
    expect((found as Json[]).every((one) => one['address'] === query.address)).toBe(true)
    expect(found).not.toEqual([])
    expect(received[0]!.params).toEqual([{ ...query, fromBlock: '0x0', toBlock: '0x3' }])
  })
  test('of this chain are limited first, and the suggested range covers both chains', async () => {
    const strict = young({ forwardingUrl, limits: { logsBlocks: 1 } })
    expect(await responsesOf(strict, 'eth_getLogs', [{ fromBlock: '0x1' }])).toEqual({
      error: {
        code: -32005,
        message: 'from block 4 on: query exceeds max block range 1 without an address',
        data: { limit: 1, suggestedRange: { fromBlock: '0x1', toBlock: '0x4' } },
      },
    })
    expect(received).toEqual([])
    const beyond = await responsesOf(node, 'eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x99' }])
    expect(beyond).toMatchObject({ error: { code: -32602 } })
  })
  test('of the older node are sorted, and logs outside the range are dropped', async () => {
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
    const found = await responsesOf(young({ forwardingUrl: url }), 'eth_getLogs', [
      { fromBlock: '0x1', address: PROBE_ADDRESS },
    ])
    expect(found.result).toEqual([logs[3], logs[2], logs[1], logs[0]])
    await close()
  })
  test.each([
    ['not a list', {}],
    ['not logs', [{ blockNumber: '0x1' }]],
  ])('of the older node are refused if they are %s', async (_name, wrong) => {
    const { url, close } = await scripted({ result: wrong })
    const reply = await responsesOf(young({ forwardingUrl: url }), 'eth_getLogs', [
      { fromBlock: '0x1' },
    ])
    expect(reply.error?.message).toMatch(/^Invalid legacy response: /)
    await close()
  })
})

describe('a batch', () => {
  test('sends each item to its node, and keeps the order of the responses', async () => {
    received = []
    const raw = bytesToHex(transfer(11n).raw)
    const hash = bytesToHex(transfer(11n).hash)
    const items: [string, unknown[]][] = [
      ['eth_getBlockByNumber', ['0x2', false]],
      ['eth_blockNumber', []],
      ['eth_sendRawTransaction', [raw]],
      // The item before makes the transaction known.
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
    expect(received.map(({ method }) => method)).toEqual(['eth_getBlockByNumber', 'eth_getLogs'])
    expect(node.memory.leaks()).toBe(0)
  })
  test('forwards no notifications', async () => {
    received = []
    await node.send('{"jsonrpc":"2.0","method":"eth_getBlockByNumber","params":["0x2",false]}')
    expect(received).toEqual([])
  })
})

describe('a node without --legacy-rpc', () => {
  const gone = {
    code: -32001,
    message:
      'history not available: block 2 is older than this chain, which begins at block 4; the oldest available block is 4',
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
  test.each(cases)('refuses %s %j with the oldest block', async (method, params) => {
    expect(await responsesOf(alone, method, params)).toEqual({ error: gone })
  })
  test('resolves earliest to its first block', async () => {
    expect((await result(alone, 'eth_getBlockByNumber', 'earliest', false))['number']).toBe('0x4')
    const logs = await result(alone, 'eth_getLogs', { fromBlock: 'earliest' })
    expect(logs).not.toEqual([])
  })
  test('starts the fee history at its first block', async () => {
    const history = await result(alone, 'eth_feeHistory', '0x9', 'latest')
    expect(history['oldestBlock']).toBe('0x4')
  })
})

describe('an older node', () => {
  type RespondTo = (request: IncomingMessage, response: ServerResponse) => void
  const text =
    (body: string, status = 200): RespondTo =>
    (_request, response) => {
      response.statusCode = status
      response.end(body)
    }
  const json = (body: unknown, status = 200) => text(JSON.stringify(body), status)
  const data = { reason: 'rate', retryAfterMs: 20 }
  const cases: [name: string, response: RespondTo, error: object][] = [
    [
      'with an error',
      json({ error: { code: -32005, message: 'slow down', data } }, 429),
      { code: -32005, message: 'slow down', data },
    ],
    [
      'with an error that contains an address',
      json({ error: { code: -32000, message: 'dial tcp 10.0.0.7:8545: refused' } }),
      { code: -32000, message: 'dial tcp the node of the older chain: refused' },
    ],
    [
      'with a web page',
      text('<html>', 502),
      {
        code: -32603,
        message: expect.stringMatching(
          /^Legacy RPC error: the node of the older chain answered with HTTP 502$/,
        ),
      },
    ],
    [
      'with invalid JSON',
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
      'with a redirect',
      (_request, response) => response.writeHead(307, { location: url }).end(),
      {
        code: -32603,
        message: expect.stringMatching(
          /^Legacy RPC error: the node of the older chain cannot be reached/,
        ),
      },
    ],
    [
      'with more bytes than allowed',
      json({ result: 'x'.repeat(10_000) }),
      { code: -32003, message: 'response too large', data: expect.anything() },
    ],
    [
      'with only a part of its bytes',
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
      'with nothing',
      () => {},
      {
        code: -32603,
        message: expect.stringMatching(
          /^Legacy RPC error: the node of the older chain gave no answer within 300 ms$/,
        ),
      },
    ],
  ]
  test.each(cases)(
    'that responds %s gives the expected error',
    async (_name, onResponse, error) => {
      const { url, close } = await rawServer(onResponse)
      const limits = { legacyResponseBytes: 9_000, legacyMs: 300 }
      const rpc = young({ forwardingUrl: `${url}/secret-key`, limits })
      const reply = await responsesOf(rpc, 'eth_getBlockByNumber', ['0x2', false])
      expect(reply).toEqual({ error })
      expect(JSON.stringify(reply)).not.toMatch(/secret|127\.0\.0\.1/)
      expect(rpc.stats().forwarding).toEqual({ calls: 1, errors: 1, inFlight: 0 })
      await close()
    },
  )
  test('that cannot be reached gives an error', async () => {
    const { url, close } = await rawServer(() => {})
    await close()
    const rpc = young({ forwardingUrl: url })
    const reply = await responsesOf(rpc, 'eth_getLogs', [{ fromBlock: '0x2' }])
    expect(reply.error).toEqual({
      code: -32603,
      message: 'Legacy RPC error: the node of the older chain cannot be reached (ECONNREFUSED)',
    })
  })
  test('has a maximum of concurrent calls per client and in total', async () => {
    const release: (() => void)[] = []
    const arrived = Promise.withResolvers<void>()
    const { url, close } = await rawServer((_request, response) => {
      release.push(() => response.end('{"result":null}'))
      if (release.length === 3) arrived.resolve()
    })
    const limits = { legacyCallsPerClient: 2, legacyCallsTotal: 3 }
    const rpc = young({ forwardingUrl: url, limits })
    const request = (address: string) =>
      rpc.request('eth_getBlockByNumber', ['0x2', false], { address })
    const running = [request('a'), request('a'), request('b')]
    await arrived.promise
    for (const who of ['a', 'b', 'c'])
      expect((await request(who)).error).toMatchObject({ code: -32005, data: { reason: 'cap' } })
    expect(rpc.stats().forwarding?.inFlight).toBe(3)
    for (const one of release) one()
    for (const one of running) expect((await one).result).toBe(null)
    await close()
  })
  test('has no further work for a client that disconnects', async () => {
    const arrived = Promise.withResolvers<void>()
    const left = Promise.withResolvers<void>()
    const { url, close } = await rawServer((_request, response) => {
      response.on('close', left.resolve)
      arrived.resolve()
    })
    const leaving = new AbortController()
    const rpc = young({ forwardingUrl: url })
    const request = rpc.request('eth_getBlockByNumber', ['0x2', false], { signal: leaving.signal })
    await arrived.promise
    leaving.abort()
    await left.promise
    await request
    expect(rpc.stats().forwarding?.inFlight).toBe(0)
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

describe('the command line', () => {
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

  test('starts a node with --legacy-rpc, and refuses it without an older chain', async () => {
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
    const full = ['--datadir', await datadirOf('0x0'), '--legacy-rpc', 'http://127.0.0.1:1']
    await expect(startNode(full, 'serve')).rejects.toThrow(
      'flashnode: --legacy-rpc is for a chain that continues an older one, but chain-7 starts at block 0',
    )
  })
})
