/** Clients' requests in a record: taken with the view that answered, within bounds, and asked again. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { methods } from '../../../rpc/methods/index.ts'
import type { Client } from '../../../rpc/seam/client.ts'
import type { Answer, Answerer } from '../../../rpc/seam/exchange.ts'
import { type AskedLine, requestsAhead } from '../../../workers/record/ahead.ts'
import { apartOf } from '../../../workers/record/apart.ts'
import { createAsking } from '../../../workers/record/asking.ts'
import { type Course, createCourses } from '../../../workers/record/courses.ts'
import type { RequestBounds, RequestLine } from '../../../workers/record/lines.ts'
import { digestsOf } from '../../../workers/record/questions.ts'
import { openRecorder } from '../../../workers/record/recorder.ts'
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

/** A node whose requests are taken. */
function taken(bounds = WIDE, more: Parameters<typeof testRpc>[0] = {}) {
  const texts: string[] = []
  const tellLines = (lines: Uint8Array) => void texts.push(new TextDecoder().decode(lines))
  const taking = takeRequests({ bounds, tellLines })
  const [memory, pool] = [memoryChain(), smallPool()]
  const { provenance } = taking
  const transactions = taking.transactions(pool)
  const rpc = testRpc({ memory, transactions, provenance, receiptHoldMs: 5_000, ...more })
  const answer = taking.answerer(rpc.answer, () => memory.newestRecord())
  return {
    ...{ memory, pool, rpc },
    send: async (body: string, client: Partial<Client> = {}) =>
      answer(body, { ...somebody(), ...client }),
    lines() {
      taking.close()
      return texts
        .join('')
        .split('\n')
        .slice(0, -1)
        .map((line) => decodeLine(line) as AskedLine)
    },
  }
}
const said = (text: string): Answer => ({ text, status: 200, headers: {} })
const somebody = (): Client => ({
  ...{ address: '10.0.0.9', endpoint: 'flashblocks', notify: undefined, isGone: false },
  signal: new AbortController().signal,
})
const requestsOf = (lines: readonly AskedLine[]) =>
  lines.filter((line): line is RequestLine => line.type === 'request')

describe('is taken', () => {
  test('with the record that its answer was read from, and nothing of who asked', async () => {
    const { memory, rpc, send, lines } = taken()
    await send(request('eth_getBalance', [WHO, 'pending']), { minFlashblock: '0:0' })
    const sent = transfer(0n)
    await send(request('eth_sendRawTransaction', [bytesToHex(sent.raw)]))
    const held = send(request('eth_getTransactionReceipt', [bytesToHex(sent.hash)]))
    while (rpc.stats().receiptWaits < 1) await new Promise(setImmediate)
    const { canonical } = memory.heads
    const pending = memory.make(canonical, { executed: execute([sent]), index: 1 })
    memory.publish({ canonical, complete: canonical, pending })
    const receipt = await held
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

  test('as not to be asked again where the txpool was looked into, and not where it had nothing', async () => {
    const { send, pool, lines } = taken()
    const sent = transfer(0n)
    const from = bytesToHex(sent.from)
    const looks = async () => {
      await send(request('eth_getTransactionCount', [from, 'pending']))
      await send(request('eth_getTransactionByHash', [bytesToHex(sent.hash)]))
      await send(request('txpool_status'))
    }
    await looks()
    await pool.submit(sent.raw, { address: '', isGone: false })
    await looks()
    expect(requestsOf(lines()).map(({ apart }) => apart)).toEqual([
      ...Array(3).fill(undefined),
      ...Array(3).fill('txpool'),
    ])
  })

  test('as not to be asked again where another node or a limit has answered', async () => {
    const forward = { forward: async () => ({ result: '"0x1"' }) }
    const lazy = { fetch: async () => ({}) }
    const follower = taken(WIDE, { forward, lazy })
    await follower.send(request('eth_getTransactionByHash', [`0x${'77'.repeat(32)}`]))
    expect(requestsOf(follower.lines()).map(({ apart }) => apart)).toEqual(['elsewhere'])
    const limited = taken(WIDE, { perSecond: 1 })
    for (let at = 0; at < 3; at++) await limited.send(request('eth_chainId'))
    expect(requestsOf(limited.lines()).map(({ apart }) => apart)).toContain('machine')
  })

  test('of a batch what can be asked again', async () => {
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
    const [part, whole] = requestsOf(lines())
    expect(part!.asked).toMatchObject({ body: `[${items[1]},7,${items[4]}]` })
    expect(part!.asked!.answers).toHaveLength(3)
    expect(whole).toMatchObject({ apart: 'filter', methods: ['eth_newBlockFilter', 'eth_chainId'] })
    const asking = createAsking(rpc.answer, { atOnce: 1, courses: createCourses() })
    await asking.ask([part!], { record: 1, shown: undefined })
    expect(asking.counts).toMatchObject({ asked: 1, same: 1, different: 0 })
  })

  test('as read from several views where items of a batch had their own', async () => {
    const courses = createCourses()
    const reads = async (...records: readonly (number | undefined)[]) => {
      let seen: unknown
      const answer = async () => {
        for (const record of records) {
          await new Promise(setImmediate)
          courses.provenance.read(record)
        }
        return said('')
      }
      const then = (answered: Answer, course: Course) => {
        seen = course
        return answered
      }
      await courses.run(answer, then)
      return seen
    }
    const both = await Promise.all([reads(3, undefined, 3), reads(3, 4), reads(undefined)])
    expect(both).toEqual([
      { record: 3, apart: undefined },
      { record: 4, apart: 'views' },
      { record: undefined, apart: undefined },
    ])
  })

  test('up to so many a second, and so many bytes: the others are counted', async () => {
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
  test('whatever it is: no JSON, nested deeply, nothing', async () => {
    const { send, lines } = taken()
    for (const body of ['{', '', '[]', '"a"', `${'['.repeat(50_000)}${']'.repeat(50_000)}`])
      await send(body)
    expect(requestsOf(lines())).toHaveLength(5)
  })
})

test('what changes something, and what is named, is never asked again', () => {
  for (const [name, { hasEffect, isWaiting }] of methods)
    if (hasEffect || isWaiting) expect([name, apartOf(name)]).not.toEqual([name, undefined])
  const named = [...methods.keys()].filter((name) => apartOf(name) !== undefined)
  expect(named).toHaveLength(20)
})

describe('asked again', () => {
  const line = (record: number, text: string): RequestLine => {
    const [answer] = digestsOf({ text })
    return {
      ...{ type: 'request', wall: 0, ms: 0, endpoint: 'standard', isSocket: false },
      ...{ methods: ['eth_chainId'], record },
      asked: { body: '{"method":"eth_chainId"}', answers: [answer!] },
    } as const
  }
  const courses = createCourses()
  const NEVER: Answerer = () => {
    throw new Error('asked')
  }

  test('another answer is told with its place and both beginnings', async () => {
    const asking = createAsking(() => said('{"result":2}'), { atOnce: 4, courses })
    const bytes = new Uint8Array(32)
    const shown = {
      record: 7,
      canonical: 4,
      pending: 5,
      index: 3,
      hash: bytes,
      canonicalHash: bytes,
    }
    await asking.ask([line(7, '{"result":1}')], { record: 7, shown })
    expect(asking.counts).toMatchObject({ asked: 1, same: 0, different: 1 })
    expect(asking.counts.differences).toEqual([
      {
        ...{ method: 'eth_chainId', endpoint: 'standard', record: 7, place: '5.3' },
        body: '{"method":"eth_chainId"}',
        ...{ was: '{"result":1}', is: '{"result":2}' },
      },
    ])
  })
  test('of another record is not asked, and counted by why', async () => {
    const asking = createAsking(NEVER, { atOnce: 4, courses })
    await asking.ask([line(6, ''), line(8, ''), { type: 'left', wall: 0, requests: 5 }], {
      ...{ record: 7, shown: undefined },
    })
    expect(asking.counts).toMatchObject({ asked: 0, leftOut: 5 })
    expect(Object.values(asking.counts.notAsked)).toEqual([1, 1])
  })
  test('once more where this machine was too slow, and then no more', async () => {
    const late = '{"error":{"code":-32002,"message":"request timed out"}}'
    for (const [slow, asked] of [
      [2, 1],
      [3, 0],
    ] as const) {
      let times = 0
      const asking = createAsking(() => said(times++ < slow ? late : '{}'), { atOnce: 1, courses })
      await asking.ask([line(1, '{}')], { record: 1, shown: undefined })
      expect(asking.counts.asked).toBe(asked)
      expect(times).toBe(3)
    }
  })
  test('so many at a time, and all of them', async () => {
    let [running, most, all] = [0, 0, 0]
    const answer: Answerer = async () => {
      most = Math.max(most, ++running)
      all++
      await new Promise(setImmediate)
      running--
      return said('{}')
    }
    const asking = createAsking(answer, { atOnce: 5, courses })
    await asking.ask(
      Array.from({ length: 200 }, () => line(1, '{}')),
      {
        ...{ record: 1, shown: undefined },
      },
    )
    expect([most, all]).toEqual([5, 200])
  })
})

test('the lines of requests come with the record that they read, wherever they stand behind it', async () => {
  let files = 0
  const places = fc.array(fc.record({ after: fc.nat(9), lateMs: fc.nat(LATE_MS) }), {
    maxLength: 60,
  })
  await fc.assert(
    fc.asyncProperty(places, fc.integer({ min: 100, max: 4_000 }), async (all, everyMs) => {
      const path = join(folder, String(files++))
      // Record n is the newest from n times everyMs on.
      const lines = [
        ...Array.from({ length: 12 }, (_, at) => ({ wall: at * everyMs, type: 'event' })),
        ...all.map(({ after, lateMs }) => ({
          ...{ wall: (after + 1) * everyMs + lateMs, type: 'request', record: after, at: lateMs },
        })),
      ].toSorted((a, b) => a.wall - b.wall)
      const recorder = await openRecorder({ path, mostBytes: 2 ** 20, mostMs: 60_000, onFull() {} })
      for (const { type, ...line } of [{ type: 'head', wall: 0 }, ...lines])
        recorder.add(new TextEncoder().encode(`${encodeLine({ type, ...line })}\n`))
      await recorder.close()
      const ahead = requestsAhead(path)
      const given: AskedLine[] = []
      for (let record = 0; record < 10; record++) {
        const now = [...ahead.upTo(record, (record + 1) * everyMs)] as RequestLine[]
        expect(now.filter((line) => line.record !== record)).toEqual([])
        given.push(...now)
      }
      expect(given).toHaveLength(all.length)
      expect([...ahead.rest()]).toEqual([])
    }),
    { numRuns: 30 },
  )
})
