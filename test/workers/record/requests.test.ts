/** Clients' requests are recorded with the view of their responses, within limits, and replayed. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { Client } from '../../../rpc/core/client.ts'
import type { Responder, RpcResponse } from '../../../rpc/core/exchange.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { apartOf } from '../../../workers/record/apart.ts'
import type { RequestBounds, RequestLine } from '../../../workers/record/lines.ts'
import { openRequestLookahead, type ReplayLine } from '../../../workers/record/lookahead.ts'
import { digestsOf } from '../../../workers/record/questions.ts'
import { openRecorder } from '../../../workers/record/recorder.ts'
import {
  createRequestContexts,
  type RequestContext,
} from '../../../workers/record/request-context.ts'
import { createRequestReplayer } from '../../../workers/record/request-replayer.ts'
import { LATE_MS, takeRequests } from '../../../workers/record/requests.ts'
import { decodeLine, encodeLine } from '../../../workers/record/values.ts'
import { execute, transfer } from '../../fixtures/executed.ts'
import { memoryChain } from '../../fixtures/memory-chain.ts'
import { testRpc } from '../../fixtures/rpc.ts'
import { smallPool } from '../../fixtures/small-pool.ts'

const folder = mkdtempSync(join(tmpdir(), 'flashnode-requests-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const WIDE: RequestBounds = { perSecond: 1_000, bytesPerSecond: 10_000_000 }
const request = (method: string, params: readonly unknown[] = [], id: unknown = 1) =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params })
const WHO = `0x${'11'.repeat(20)}`

/** Makes a node whose requests are recorded. */
function taken(bounds = WIDE, more: Parameters<typeof testRpc>[0] = {}) {
  const texts: string[] = []
  const emitLines = (lines: Uint8Array) => void texts.push(new TextDecoder().decode(lines))
  const taking = takeRequests({ bounds, emitLines })
  const [memory, pool] = [memoryChain(), smallPool()]
  const { provenance } = taking
  const transactions = taking.transactions(pool)
  const rpc = testRpc({ memory, transactions, provenance, receiptHoldMs: 5_000, ...more })
  const respond = taking.responder(rpc.respond, () => memory.newestSnapshot())
  return {
    memory,
    pool,
    rpc,
    send: async (body: string, client: Partial<Client> = {}) =>
      respond(body, { ...somebody(), ...client }),
    lines() {
      taking.close()
      return texts
        .join('')
        .split('\n')
        .slice(0, -1)
        .map((line) => decodeLine(line) as ReplayLine)
    },
  }
}
const said = (text: string): RpcResponse => ({ text, status: 200, headers: {} })
const somebody = (): Client => ({
  address: '10.0.0.9',
  endpoint: 'flashblocks',
  notify: undefined,
  isGone: false,
  signal: new AbortController().signal,
})
const requestsOf = (lines: readonly ReplayLine[]) =>
  lines.filter((line): line is RequestLine => line.type === 'request')

describe('a recorded request', () => {
  test('has the snapshot of its response, and nothing about its client', async () => {
    const { memory, rpc, send, lines } = taken()
    await send(request('eth_getBalance', [WHO, 'pending']), { minFlashblock: '0:0' })
    const sent = transfer(0n)
    await send(request('eth_sendRawTransaction', [bytesToHex(sent.raw)]))
    const waiting = send(request('eth_getTransactionReceipt', [bytesToHex(sent.hash)]))
    while (rpc.stats().receiptWaits < 1) await new Promise(setImmediate)
    const { canonical } = memory.heads
    const pending = memory.make(canonical, { executed: execute([sent]), index: 1 })
    memory.publish({ canonical, complete: canonical, pending })
    const receipt = await waiting
    await send(request('eth_call', [{ to: WHO }, 'latest']), { endpoint: 'standard' })
    await send(request('eth_blockNumber'), { notify: () => true })
    const all = requestsOf(lines())
    expect(all.map(({ record, methods: [method], apart }) => [record, method, apart])).toEqual([
      [1, 'eth_getBalance', undefined],
      [1, 'eth_sendRawTransaction', 'send'],
      [2, 'eth_getTransactionReceipt', undefined],
      [2, 'eth_call', undefined],
      [2, 'eth_blockNumber', undefined],
    ])
    expect(all[0]!.asked!.minFlashblock).toBe('0:0')
    expect(all[2]!.asked!.answers).toMatchObject([
      { bytes: receipt.text!.length, begins: receipt.text!.slice(0, 512) },
    ])
    expect(all.map(({ endpoint, isSocket }) => `${endpoint} ${isSocket}`)).toEqual([
      ...Array(3).fill('flashblocks false'),
      ...['standard false', 'flashblocks true'],
    ])
    expect(encodeLine(all)).not.toContain('10.0.0.9')
    expect(encodeLine(all)).not.toContain(bytesToHex(sent.raw))
  })

  test('is not replayed if it found something in the txpool', async () => {
    const { send, pool, lines } = taken()
    const sent = transfer(0n)
    const from = bytesToHex(sent.from)
    const checks = async () => {
      await send(request('eth_getTransactionCount', [from, 'pending']))
      await send(request('eth_getTransactionByHash', [bytesToHex(sent.hash)]))
      await send(request('txpool_status'))
    }
    await checks()
    await pool.submit(sent.raw, { address: '', isGone: false })
    await checks()
    expect(requestsOf(lines()).map(({ apart }) => apart)).toEqual([
      ...Array(3).fill(undefined),
      ...Array(3).fill('txpool'),
    ])
  })

  test('is not replayed if another node or a limit has answered it', async () => {
    const forward = { forward: async () => ({ result: '"0x1"' }) }
    const lazy = { fetch: async () => ({}) }
    const follower = taken(WIDE, { forward, lazy })
    await follower.send(request('eth_getTransactionByHash', [`0x${'77'.repeat(32)}`]))
    expect(requestsOf(follower.lines()).map(({ apart }) => apart)).toEqual(['elsewhere'])
    const limited = taken(WIDE, { perSecond: 1 })
    for (let at = 0; at < 3; at++) await limited.send(request('eth_chainId'))
    expect(requestsOf(limited.lines()).map(({ apart }) => apart)).toContain('machine')
  })

  test('has the items of its batch that can be replayed', async () => {
    const { rpc, send, lines } = taken()
    const items = [
      request('eth_newBlockFilter', [], 1),
      request('eth_getBalance', [WHO], 'b'),
      '7',
      request('web3_clientVersion', [], 3),
      request('eth_chainId', [], 4),
    ]
    await send(`[${items.join()}]`)
    await send(`[${items[0]},{"jsonrpc":"2.0","method":"eth_chainId"}]`)
    const [part, full] = requestsOf(lines())
    expect(part!.asked).toMatchObject({ body: `[${items[1]},7,${items[4]}]` })
    expect(part!.asked!.answers).toHaveLength(3)
    expect(full).toMatchObject({ apart: 'filter', methods: ['eth_newBlockFilter', 'eth_chainId'] })
    const requester = createRequestReplayer(rpc.respond, {
      atOnce: 1,
      requestContexts: createRequestContexts(),
    })
    await requester.request([part!], { snapshot: 1, shown: undefined })
    expect(requester.counts).toMatchObject({ asked: 1, same: 1, different: 0 })
  })

  test('of a batch that read several views is not replayed', async () => {
    const requestContexts = createRequestContexts()
    const reads = async (...snapshots: readonly (number | undefined)[]) => {
      let seen: unknown
      const respond = async () => {
        for (const snapshot of snapshots) {
          await new Promise(setImmediate)
          requestContexts.provenance.read(snapshot)
        }
        return said('')
      }
      const then = (response: RpcResponse, requestContext: RequestContext) => {
        seen = requestContext
        return response
      }
      await requestContexts.run(respond, then)
      return seen
    }
    const both = await Promise.all([reads(3, undefined, 3), reads(3, 4), reads(undefined)])
    expect(both).toEqual([
      { snapshot: 3, apart: undefined },
      { snapshot: 4, apart: 'views' },
      { snapshot: undefined, apart: undefined },
    ])
  })

  test('is dropped and counted above the limits per second', async () => {
    const few = taken({ perSecond: 3, bytesPerSecond: 10_000_000 })
    for (let at = 0; at < 5; at++) await few.send(request('eth_chainId'))
    const lines = few.lines()
    expect(lines.map((line) => (line.type === 'left' ? line.requests : line.record))).toEqual([
      ...[1, 1, 1, 2],
    ])
    const small = taken({ perSecond: 1_000, bytesPerSecond: 1_000 })
    await small.send(request('eth_chainId', [], 'x'.repeat(1_000)))
    for (let at = 0; at < 5; at++) await small.send(request('eth_chainId'))
    const [first, ...others] = small.lines()
    expect(first).toMatchObject({ type: 'request', methods: ['eth_chainId'] })
    expect(others.at(-1)).toMatchObject({ type: 'left' })
    expect(
      requestsOf([first!, ...others]).length + (others.at(-1) as { requests: number }).requests,
    ).toBe(6)
  })
  test('may be anything: no JSON, deeply nested, or empty', async () => {
    const { send, lines } = taken()
    for (const body of ['{', '', '[]', '"a"', `${'['.repeat(50_000)}${']'.repeat(50_000)}`])
      await send(body)
    expect(requestsOf(lines())).toHaveLength(5)
  })
})

test('methods that change or wait for something are never replayed', () => {
  for (const [name, { hasEffect, isWaiting }] of methods)
    if (hasEffect || isWaiting) expect([name, apartOf(name)]).not.toEqual([name, undefined])
  const named = [...methods.keys()].filter((name) => apartOf(name) !== undefined)
  expect(named).toHaveLength(20)
})

describe('a replayed request', () => {
  const line = (record: number, text: string): RequestLine => {
    const [response] = digestsOf({ text })
    return {
      type: 'request',
      wall: 0,
      ms: 0,
      endpoint: 'standard',
      isSocket: false,
      methods: ['eth_chainId'],
      record,
      asked: { body: '{"method":"eth_chainId"}', answers: [response!] },
    } as const
  }
  const requestContexts = createRequestContexts()
  const NEVER: Responder = () => {
    throw new Error('asked')
  }

  test('with a different response is reported with its flashblock and both texts', async () => {
    const requester = createRequestReplayer(() => said('{"result":2}'), {
      atOnce: 4,
      requestContexts,
    })
    const bytes = new Uint8Array(32)
    const shown = {
      record: 7,
      canonical: 4,
      pending: 5,
      index: 3,
      hash: bytes,
      canonicalHash: bytes,
    }
    await requester.request([line(7, '{"result":1}')], { snapshot: 7, shown })
    expect(requester.counts).toMatchObject({ asked: 1, same: 0, different: 1 })
    expect(requester.counts.differences).toEqual([
      {
        method: 'eth_chainId',
        endpoint: 'standard',
        record: 7,
        place: '5.3',
        body: '{"method":"eth_chainId"}',
        was: '{"result":1}',
        is: '{"result":2}',
      },
    ])
  })
  test('of another snapshot is not replayed, and is counted with the reason', async () => {
    const requester = createRequestReplayer(NEVER, { atOnce: 4, requestContexts })
    await requester.request([line(6, ''), line(8, ''), { type: 'left', wall: 0, requests: 5 }], {
      snapshot: 7,
      shown: undefined,
    })
    expect(requester.counts).toMatchObject({ asked: 0, leftOut: 5 })
    expect(Object.values(requester.counts.notAsked)).toEqual([1, 1])
  })
  test('is repeated at most twice while the machine is too slow', async () => {
    const late = '{"error":{"code":-32002,"message":"request timed out"}}'
    for (const [slow, requested] of [
      [2, 1],
      [3, 0],
    ] as const) {
      let times = 0
      const requester = createRequestReplayer(() => said(times++ < slow ? late : '{}'), {
        atOnce: 1,
        requestContexts,
      })
      await requester.request([line(1, '{}')], { snapshot: 1, shown: undefined })
      expect(requester.counts.asked).toBe(requested)
      expect(times).toBe(3)
    }
  })
  test('runs with a maximum of others at a time, and all of them run', async () => {
    let [running, max, all] = [0, 0, 0]
    const respond: Responder = async () => {
      max = Math.max(max, ++running)
      all++
      await new Promise(setImmediate)
      running--
      return said('{}')
    }
    const requester = createRequestReplayer(respond, { atOnce: 5, requestContexts })
    await requester.request(
      Array.from({ length: 200 }, () => line(1, '{}')),
      {
        snapshot: 1,
        shown: undefined,
      },
    )
    expect([max, all]).toEqual([5, 200])
  })
})

test('recorded requests are given with their snapshot, however late their lines are', async () => {
  let files = 0
  const delays = fc.array(fc.record({ after: fc.nat(9), lateMs: fc.nat(LATE_MS) }), {
    maxLength: 60,
  })
  await fc.assert(
    fc.asyncProperty(delays, fc.integer({ min: 100, max: 4_000 }), async (all, everyMs) => {
      const path = join(folder, String(files++))
      // Snapshot n is the newest from n times everyMs on.
      const lines = [
        ...Array.from({ length: 12 }, (_, at) => ({ wall: at * everyMs, type: 'event' })),
        ...all.map(({ after, lateMs }) => ({
          wall: (after + 1) * everyMs + lateMs,
          type: 'request',
          record: after,
          at: lateMs,
        })),
      ].toSorted((a, b) => a.wall - b.wall)
      const recorder = await openRecorder({ path, maxBytes: 2 ** 20, maxMs: 60_000, onFull() {} })
      for (const { type, ...line } of [{ type: 'head', wall: 0 }, ...lines])
        recorder.add(new TextEncoder().encode(`${encodeLine({ type, ...line })}\n`))
      await recorder.close()
      const lookahead = openRequestLookahead(path)
      const given: ReplayLine[] = []
      for (let record = 0; record < 10; record++) {
        const now = [...lookahead.upTo(record, (record + 1) * everyMs)] as RequestLine[]
        expect(now.filter((line) => line.record !== record)).toEqual([])
        given.push(...now)
      }
      expect(given).toHaveLength(all.length)
      expect([...lookahead.remaining()]).toEqual([])
    }),
    { numRuns: 30 },
  )
})
