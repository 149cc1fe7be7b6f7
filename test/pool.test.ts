/** The pool with real workers: batches, deadlines, full queues, dead workers; and its parts alone. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LARGE } from '../rpc/exchange.ts'
import type { PoolCall, PoolReply } from '../rpc/executor.ts'
import { DEFAULT_LIMITS, type Limits } from '../rpc/limits.ts'
import type { Method, Runs } from '../rpc/method.ts'
import type { WorkerReply } from '../rpc/pool-call.ts'
import { createCosts, createLanes, type Lane } from '../workers/lanes.ts'
import { createPool, type Pool } from '../workers/pool.ts'
import {
  cancelCall,
  createSlab,
  isCancelled,
  microsOf,
  readCall,
  readReply,
  SLAB_BYTES,
  type SlabCall,
  writeCalls,
  writeReply,
} from '../workers/slab.ts'

const filename = new URL('./fixtures/pool-worker.ts', import.meta.url).href

type CallOptions = {
  readonly runs?: Runs
  readonly record?: number
  readonly withinMs?: number
  readonly signal?: AbortSignal
  readonly params?: readonly unknown[]
}
function poolCall(name: string, options: CallOptions = {}): PoolCall {
  const params = options.params ?? []
  return {
    // The pool reads the name and the lane; the handler is the worker's.
    method: { name, runs: options.runs ?? 'call' } as Method,
    params,
    text: JSON.stringify(params),
    endpoint: 'flashblocks',
    record: options.record,
    deadline: performance.now() + (options.withinMs ?? 5_000),
    client: {
      get isGone() {
        return options.signal?.aborted ?? false
      },
    },
  }
}
/** Without its exit one run in three lost a thread. */
const ROUNDS = 10
/** A busy machine ends a thread late. */
const LATER = { timeout: 8_000 }
const ended: number[] = []
function newPool(threads: number, limits: Partial<Limits> = {}, heapMb = 128): Pool {
  return createPool({
    filename,
    workerData: undefined,
    threads,
    limits: { ...DEFAULT_LIMITS, ...limits },
    heapMb,
    onThreadEnded: (thread) => ended.push(thread),
    newestRecord: () => 9,
    onProblem: () => {},
    onBroken(error) {
      throw error
    },
  })
}
const resultOf = (reply: PoolReply): unknown =>
  'result' in reply ? JSON.parse(reply.result) : reply

describe('calls', () => {
  let pool: Pool
  beforeAll(() => {
    pool = newPool(2, { graceMs: 100 })
  })
  afterAll(() => pool.stop())

  test('come back with what they asked for', async () => {
    expect(resultOf(await pool.execute(poolCall('echo', { record: 7, params: ['ü'] })))).toEqual({
      text: 5,
      endpoint: 'flashblocks',
      record: 7,
    })
    expect(await pool.execute(poolCall('fail'))).toEqual({
      error: { code: 3, message: 'rückgängig', data: '0x01' },
    })
    expect(await pool.execute(poolCall('stale', { record: 1 }))).toEqual({ stale: true })
  })

  test('of one turn travel together', async () => {
    // Nothing is learned of them before all are in the queue: 40 × 200 µs, at most 1.5 ms to a task.
    const calls = Array.from({ length: 40 }, () => pool.execute(poolCall('task')))
    const tasks = (await Promise.all(calls)).map(resultOf)
    expect(new Set(tasks).size).toBe(6)
  })

  test('larger than a slab in both directions', async () => {
    const text = 'ü'.repeat(SLAB_BYTES)
    const [echoed, long] = await Promise.all([
      pool.execute(poolCall('echo', { params: [text] })),
      pool.execute(poolCall('long', { params: [{ size: SLAB_BYTES * 2 }] })),
    ])
    expect(resultOf(echoed)).toMatchObject({ text: text.length + 4 })
    expect((resultOf(long) as string).length).toBe(SLAB_BYTES * 2)
  })

  test('come in pieces where they are larger than one, without what was taken back', async () => {
    const ask = (size: number) =>
      pool.execute(poolCall('pieces', { runs: 'trace', params: [{ size }] }))
    const [small, large, larger] = await Promise.all([ask(10), ask(LARGE), ask(LARGE * 2)])
    expect(resultOf(small)).toBe('0123456789'.repeat(10))
    for (const [reply, count] of [
      [large, LARGE],
      [larger, LARGE * 2],
    ] as const) {
      if (!('pieces' in reply)) throw new Error('not in pieces')
      expect(reply.pieces.every(({ length }) => length <= LARGE)).toBe(true)
      expect(Buffer.concat(reply.pieces).toString()).toBe(`"${'0123456789'.repeat(count)}"`)
    }
    expect(await pool.execute(poolCall('echo'))).toMatchObject({ result: expect.any(String) })
  })

  test('that wait inside the worker are awaited', async () => {
    expect(resultOf(await pool.execute(poolCall('wait', { params: [{ ms: 5 }] })))).toBe('waited')
  })

  test('past their deadline are stopped by it', async () => {
    const call = poolCall('spin', { params: [{ ms: 5_000 }], withinMs: 50 })
    expect(await pool.execute(call)).toMatchObject({
      error: { code: -32002, data: { limitMs: 5_000, queuedMs: expect.any(Number) } },
    })
  })

  test('whose client has gone stop running', async () => {
    const client = new AbortController()
    const long = { params: [{ ms: 60_000 }], withinMs: 60_000, signal: client.signal }
    const reply = pool.execute(poolCall('spin', long))
    setTimeout(() => client.abort(), 50)
    expect(await reply).toMatchObject({ error: { code: -32002 } })
  })

  test('that hold a record too long are cancelled, newer ones are not', async () => {
    const spin = (ms: number, record: object) =>
      pool.execute(
        poolCall('spin', { params: [{ ms }], runs: 'trace', withinMs: 60_000, ...record }),
      )
    const old = spin(60_000, { record: 3 })
    await new Promise((resolve) => setTimeout(resolve, 20))
    pool.cancel(8)
    expect(await old).toMatchObject({ error: { code: -32002 } })
    const newest = spin(300, {})
    await new Promise((resolve) => setTimeout(resolve, 20))
    pool.cancel(8)
    expect(resultOf(await newest)).toBe('spun')
  })

  test('that do not stop by themselves lose their worker, the others go on', async () => {
    const terminated = pool.stats().terminated
    const hanging = pool.execute(poolCall('hang', { withinMs: 50 }))
    const light = pool.execute(poolCall('echo', { withinMs: 60_000 }))
    expect(await hanging).toMatchObject({ error: { code: -32002, data: { limitMs: 5_000 } } })
    expect(resultOf(await light)).toMatchObject({ endpoint: 'flashblocks' })
    await expect.poll(() => ended.length, LATER).toBeGreaterThan(0)
    expect(pool.stats().terminated).toBe(terminated + 1)
    const replies = await Promise.all([1, 2, 3].map(() => pool.execute(poolCall('echo'))))
    expect(replies.every((reply) => 'result' in reply)).toBe(true)
  })

  describe('beside one that is slower than it looks', () => {
    const LONG = { withinMs: 60_000 }
    /** Taken for light, because nothing is known of it and it brings little gas; runs until its client leaves. */
    const slowCall = (signal: AbortSignal) =>
      poolCall('spin', { ...LONG, params: [{ ms: 60_000, gas: '0x1' }], signal })

    test('and in its task go to another worker', async () => {
      const pool = newPool(2)
      const client = new AbortController()
      const slow = pool.execute(slowCall(client.signal))
      const behind = Array.from({ length: 5 }, () => pool.execute(poolCall('task', LONG)))
      expect(new Set((await Promise.all(behind)).map(resultOf)).size).toBe(1)
      client.abort()
      await slow
      await pool.stop()
    }, 60_000)

    test('are not too few to be worth a second worker', async () => {
      const pool = newPool(2)
      // Known to be cheap.
      for (let index = 0; index < 8; index++) await pool.execute(poolCall('echo', LONG))
      const client = new AbortController()
      const slow = pool.execute(slowCall(client.signal))
      await new Promise((resolve) => setImmediate(resolve))
      expect(resultOf(await pool.execute(poolCall('echo', LONG)))).toMatchObject({ text: 2 })
      client.abort()
      await slow
      await pool.stop()
    }, 60_000)
  })

  test('of a worker that dies run once more, then give up', async () => {
    const before = ended.length
    const { replaced } = pool.stats()
    expect(await pool.execute(poolCall('die'))).toMatchObject({ error: { code: -32603 } })
    await expect.poll(() => ended.length, LATER).toBe(before + 2)
    expect(pool.stats()).toMatchObject({ threads: 2, replaced: replaced + 2 })
    expect(resultOf(await pool.execute(poolCall('echo')))).toMatchObject({ text: 2 })
  })
})

test('a fault that nobody catches is told, and ends its thread by an exit', async () => {
  const worker = new Worker(new URL('./fixtures/uncaught-worker.ts', import.meta.url))
  const seen: unknown[] = []
  for (const event of ['message', 'error', 'exit'] as const)
    worker.on(event, (value: unknown) => seen.push([event, value]))
  await once(worker, 'exit')
  expect(seen).toEqual([
    ['message', 'nobody catches this'],
    ['exit', 1],
  ])
})

test('a worker whose fault nobody catches is replaced, however late this thread hears of it', async () => {
  const pool = newPool(2)
  for (let round = 0; round < ROUNDS; round++) {
    // Both end, and those that come for them fail in their first task.
    await pool.execute(poolCall('die'))
    const failing = [pool.execute(poolCall('throw')), pool.execute(poolCall('throw'))]
    const end = performance.now() + 300
    while (performance.now() < end);
    for (const reply of await Promise.all(failing))
      expect(reply).toMatchObject({ error: { code: -32603 } })
  }
  await expect.poll(() => pool.stats().threads, LATER).toBe(2)
  await pool.stop()
}, 60_000)

describe('a worker without memory', () => {
  test.each([false, true])(
    'ends, is replaced, and its call is answered; it polls: %s',
    async (isPolling) => {
      const pool = newPool(2, {}, 32)
      // Light, with another call behind it, which is innocent.
      const hog = pool.execute(poolCall('hog', { params: [{ gas: '0x1', isPolling }] }))
      const behind = pool.execute(poolCall('echo', { params: [{ gas: '0x1' }] }))
      expect(await hog).toMatchObject({ error: { code: -32603 } })
      expect(resultOf(await behind)).toMatchObject({ endpoint: 'flashblocks' })
      // Before V8 ended it, which it does to the whole process when it is in a hurry; and not once more to try again.
      expect(pool.stats()).toMatchObject({ terminated: 1 })
      await expect.poll(() => pool.stats().replaced, LATER).toBe(1)
      expect(resultOf(await pool.execute(poolCall('echo')))).toMatchObject({ text: 2 })
      await pool.stop()
    },
  )

  test('goes on where it cannot tell yet what is live, and takes no more', async () => {
    const pool = newPool(2, {}, 32)
    const call = poolCall('hold', { params: [{ size: 300 * 2 ** 20, ms: 500 }] })
    expect(resultOf(await pool.execute(call))).toBe('held')
    expect(pool.stats()).toMatchObject({ terminated: 0 })
    await pool.stop()
  })

  test('goes on where the memory is garbage', async () => {
    const pool = newPool(2, {}, 96)
    for (let round = 0; round < 3; round++) {
      const call = poolCall('litter', { params: [{ ms: 1_000 }] })
      expect(resultOf(await pool.execute(call))).toBe('littered')
    }
    expect(pool.stats()).toMatchObject({ terminated: 0, replaced: 0 })
    await pool.stop()
  })
})

describe('a full pool', () => {
  test('refuses at once what does not fit, and answers what waited too long', async () => {
    const pool = newPool(2, { callQueue: 3, traceQueue: 1, graceMs: 5_000 })
    // One dear task is all that two workers take: the last one is for light calls.
    const busy = pool.execute(poolCall('spin', { runs: 'trace', params: [{ ms: 300 }] }))
    await new Promise((resolve) => setImmediate(resolve))
    await new Promise((resolve) => setImmediate(resolve))
    const waiting = pool.execute(
      poolCall('spin', { runs: 'trace', params: [{ ms: 1 }], withinMs: 60 }),
    )
    const refused = await pool.execute(poolCall('spin', { runs: 'trace', params: [{ ms: 1 }] }))
    expect(refused).toEqual({
      error: {
        code: -32005,
        message: 'server busy: 1 calls wait',
        data: { reason: 'overloaded', retryAfterMs: 1_000 },
      },
    })
    expect(resultOf(await pool.execute(poolCall('echo')))).toMatchObject({ text: 2 })
    const late = await waiting
    expect(late).toMatchObject({ error: { code: -32002, data: { limitMs: 10_000 } } })
    expect(resultOf(await busy)).toBe('spun')
    await pool.stop()
    expect(await pool.execute(poolCall('echo'))).toMatchObject({ error: { code: -32005 } })
  })

  test('tells the times of a call that was too long, beside what its worker knew', async () => {
    const pool = newPool(2)
    const known = { suggestedRange: { fromBlock: '0x1', toBlock: '0x2' } }
    const params = [{ ms: 60_000, known }]
    const late = await pool.execute(poolCall('spin', { runs: 'logs', params, withinMs: 50 }))
    const times = { limitMs: 10_000, elapsedMs: expect.any(Number), queuedMs: expect.any(Number) }
    expect(late).toEqual({
      error: { code: -32002, message: 'request timed out', data: { ...times, ...known } },
    })
    await pool.stop()
  })

  test('stopping answers what still runs', async () => {
    const pool = newPool(2)
    const running = pool.execute(poolCall('hang', { params: [{ gas: '0x2faf080' }] }))
    await pool.execute(poolCall('echo'))
    await pool.stop()
    expect(await running).toMatchObject({ error: { code: -32603 } })
  })
})

describe('lanes', () => {
  const job = (lane: Lane, predicted = 100) => ({ call: poolCall('x'), lane, predicted })
  const idle = { threads: 2, free: 2, light: 0, heavy: 0 }
  const lastFree = { ...idle, free: 1 }
  const all: Lane[] = ['light', 'medium', 'dear', 'logs', 'trace', 'sidecar']

  test('light calls share a task up to its length in calls and in work', () => {
    const lanes = createLanes(DEFAULT_LIMITS)
    for (let index = 0; index < 100; index++) lanes.push(job('light', 10))
    expect(lanes.next(idle)?.length).toBe(64)
    expect(lanes.next(idle)?.length).toBe(36)
    for (let index = 0; index < 20; index++) lanes.push(job('light', 250))
    expect(lanes.next(idle)?.length).toBe(6)
  })

  test.each([
    ['a share of the task each', [500, 500, 500, 500, 500, 500, 500], [6, 1]],
    ['nothing beyond what fits', [1_000, 1_500, 1_000, 400], [2, 2]],
    ['longer than a task', [4_000, 400, 9_000, 2_900, 100], [1, 1, 1, 2]],
    ['light ones that became dearer', Array.from({ length: 40 }, () => 310), [9, 9, 9, 9, 4]],
  ])('medium calls share a task: %s', (_, predicted, lengths) => {
    const lanes = createLanes(DEFAULT_LIMITS)
    for (const micros of predicted) lanes.push(job('medium', micros))
    expect(lengths.map(() => lanes.next(lastFree)?.length)).toEqual(lengths)
    expect(lanes.next(lastFree)).toBe(undefined)
  })

  test('medium calls are shared among the free workers', () => {
    const lanes = createLanes(DEFAULT_LIMITS)
    for (let index = 0; index < 5; index++) lanes.push(job('medium', 400))
    expect([lanes.next(idle)?.length, lanes.next(lastFree)?.length]).toEqual([3, 2])
  })

  test('a further worker is not woken for little work', () => {
    const lanes = createLanes(DEFAULT_LIMITS)
    lanes.push(job('light', 200))
    expect(lanes.next({ ...lastFree, light: 1 })).toBe(undefined)
    lanes.push(job('light', 200))
    expect(lanes.next({ ...lastFree, light: 1 })?.length).toBe(2)
  })

  test.each<Lane>(['dear', 'logs', 'trace', 'sidecar'])(
    '%s never holds the last worker',
    (lane) => {
      const lanes = createLanes(DEFAULT_LIMITS)
      lanes.push(job(lane))
      expect(lanes.next({ ...lastFree, heavy: 1 })).toBe(undefined)
      expect(lanes.next({ ...idle, threads: 3, heavy: 1 })?.length).toBe(1)
    },
  )

  test('every lane gets its turn', () => {
    const lanes = createLanes(DEFAULT_LIMITS)
    for (let round = 0; round < 3; round++) for (const lane of all) lanes.push(job(lane, 2_000))
    const order = Array.from({ length: 12 }, () => lanes.next(idle)?.[0]?.lane)
    expect(order).toEqual([...all, ...all])
  })

  test('each queue is bounded, the three lanes of calls together', () => {
    const own = { callQueue: 3, logsQueue: 1, traceQueue: 1, sidecarQueue: 1 }
    const limits = { ...DEFAULT_LIMITS, ...own }
    const lanes = createLanes(limits)
    expect((['light', 'medium', 'dear'] as const).map((lane) => lanes.push(job(lane)))).toEqual([
      true,
      true,
      true,
    ])
    expect(all.map((lane) => lanes.push(job(lane)))).toEqual([
      ...[false, false, false],
      ...[true, true, true],
    ])
    expect(lanes.remove(({ lane }) => lane === 'medium').length).toBe(1)
    expect(lanes.push(job('light'))).toBe(true)
    expect(lanes.size).toBe(6)
  })
})

describe('costs', () => {
  const token = { to: `0x${'a'.repeat(40)}`, data: '0x70a08231000000', gas: '0x5208' }
  const call = (request: object) => poolCall('eth_call', { params: [request] })

  test('are learned per contract and selector', () => {
    const costs = createCosts()
    const first = costs.classify(call(token))
    expect(first.lane).toBe('light')
    costs.learn(first.key, 50_000)
    expect(costs.classify(call({ ...token, data: `${token.data}ff` })).lane).toBe('dear')
    expect(costs.classify(call({ ...token, data: '0x12345678' })).lane).toBe('light')
    for (let index = 0; index < 8; index++) costs.learn(first.key, 1_000)
    expect(costs.classify(call(token)).lane).toBe('medium')
    for (let index = 0; index < 16; index++) costs.learn(first.key, 20)
    expect(costs.classify(call(token)).lane).toBe('light')
  })

  test('one slow run among quick ones changes little, many do, and so does a very slow one', () => {
    const costs = createCosts()
    const { key } = costs.classify(call(token))
    const lane = () => costs.classify(call(token)).lane
    for (let round = 0; round < 50; round++) {
      for (let index = 0; index < 9; index++) costs.learn(key, 20)
      costs.learn(key, 60_000)
      expect(lane()).toBe('light')
    }
    for (let index = 0; index < 16; index++) costs.learn(key, 60_000)
    expect(lane()).toBe('dear')
    for (let index = 0; index < 40; index++) costs.learn(key, 20)
    expect(lane()).toBe('light')
    costs.learn(key, 2_000_000)
    expect(lane()).toBe('dear')
  })

  test('unknown with much gas is dear', () => {
    const costs = createCosts()
    expect(costs.classify(call({ ...token, gas: '0x2faf080' })).lane).toBe('dear')
    expect(costs.classify(call({ to: token.to, data: token.data })).lane).toBe('dear')
    expect(costs.classify(call(token)).lane).toBe('light')
  })

  test('whatever the parameters are', () => {
    const costs = createCosts()
    fc.assert(
      fc.property(fc.array(fc.jsonValue(), { maxLength: 3 }), (params) => {
        expect(['light', 'dear']).toContain(costs.classify(poolCall('x', { params })).lane)
      }),
    )
  })
})

describe('slab', () => {
  const callOf = fc.record({
    method: fc.stringMatching(/^[a-z_]{1,40}$/),
    text: fc.oneof(fc.string({ unit: 'binary' }), fc.constant('ä'.repeat(SLAB_BYTES / 3))),
    endpoint: fc.constantFrom('standard' as const, 'flashblocks' as const),
    record: fc.option(fc.integer({ min: 1, max: 2 ** 30 }), { nil: undefined }),
    deadline: fc.double({ noNaN: true }),
  })
  const replyOf: fc.Arbitrary<WorkerReply> = fc.oneof(
    fc.string({ unit: 'grapheme-ascii' }).map((text) => ({ result: JSON.stringify(text) })),
    fc.constant({ result: `"${'x'.repeat(SLAB_BYTES / 3)}"` }),
    fc.constant({ stale: true as const }),
    fc.nat().map((written) => ({ written })),
    fc
      .string({ unit: 'binary' })
      .map((message) => ({ error: { code: -32000, message: message.toWellFormed() } })),
  )

  test('gives back every call and every reply', () => {
    const slab = createSlab()
    const texts = fc.array(fc.tuple(callOf, replyOf), { minLength: 1, maxLength: 64 })
    fc.assert(
      fc.property(texts, (pairs) => {
        const calls = pairs.map(([call]): SlabCall => ({ ...call, text: call.text.toWellFormed() }))
        const long = writeCalls(slab, calls)
        expect(calls.map((_, index) => readCall(slab, index, long))).toEqual(calls)
        expect(readReply(slab, 0, [])).toBe(undefined)
        const back: [number, string][] = []
        for (const [index, [, reply]] of pairs.entries()) {
          const text = writeReply(slab, index, { reply, micros: index })
          if (text !== undefined) back.push([index, text])
        }
        for (const [index, [, reply]] of pairs.entries()) {
          expect(readReply(slab, index, back)).toEqual(reply)
          expect(microsOf(slab, index)).toBe(index)
        }
      }),
      { numRuns: 40 },
    )
  })

  test('a cancelled call is the only one', () => {
    const slab = createSlab()
    const call = { method: 'x', text: '', endpoint: 'standard' as const, record: 1, deadline: 0 }
    writeCalls(slab, [call, call])
    cancelCall(slab, 1)
    expect([isCancelled(slab, 0), isCancelled(slab, 1)]).toEqual([false, true])
  })
})
