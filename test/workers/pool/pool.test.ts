/**
 * The pool runs with real workers. The tests cover batches, deadlines, full queues and dead
 * workers, and some parts alone.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { numberToHex } from 'viem'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { MissingKey } from '../../../engine/state/reader.ts'
import { LARGE } from '../../../rpc/core/exchange.ts'
import {
  OWN_CLIENT,
  type PoolCall,
  type PoolReply,
  type ReadFrom,
} from '../../../rpc/core/executor.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../rpc/core/limits.ts'
import {
  QUEUE_CLASS_NAMES,
  QUEUE_CLASSES,
  type QueueClass,
  type Runs,
} from '../../../rpc/core/queue-class.ts'
import type { WorkerReply } from '../../../rpc/dispatch/worker-call.ts'
import type { Method } from '../../../rpc/method/method.ts'
import { createCallQueues, type Waiting } from '../../../workers/pool/call-queues.ts'
import { createCosts, type Prediction } from '../../../workers/pool/costs.ts'
import { createPool, type Pool } from '../../../workers/pool/pool.ts'
import { JobQueue } from '../../../workers/pool/queue.ts'
import { spentMicros } from '../../../workers/pool/task.ts'
import {
  cancelCall,
  createTaskMemory,
  isCancelled,
  type LongReply,
  microsOf,
  readCall,
  readReply,
  TASK_BYTES,
  type TaskCall,
  writeCalls,
  writeReply,
} from '../../../workers/pool/task-memory.ts'
import { processNow } from '../../../workers/thread/running-clock.ts'

const filename = new URL('../../fixtures/pool-worker.ts', import.meta.url).href

type CallOptions = {
  readonly runs?: Runs
  readonly snapshot?: number
  readonly withinMs?: number
  readonly signal?: AbortSignal
  readonly params?: readonly unknown[]
  readonly address?: string
  readonly replayed?: string
}
function poolCall(name: string, options: CallOptions = {}): PoolCall {
  const params = options.params ?? []
  return {
    // The pool reads the name and the queue class; the handler belongs to the worker.
    method: { name, runs: options.runs ?? 'call' } as Method,
    params,
    text: JSON.stringify(params),
    endpoint: 'flashblocks',
    snapshot: options.snapshot,
    replayed: options.replayed,
    deadline: processNow() + (options.withinMs ?? 60_000),
    client: {
      address: options.address ?? '192.0.2.1',
      get isGone() {
        return options.signal?.aborted ?? false
      },
    },
  }
}
/** Before the fix of the exit, one run in three lost a thread. */
const ROUNDS = 10
const ended: number[] = []
function newPool(
  threads: number,
  limits: Partial<Limits> = {},
  heapMb = 128,
  onSpent: (address: string, cpuMs: number) => void = () => {},
): Pool {
  return createPool({
    now: processNow,
    filename,
    workerData: undefined,
    threads,
    limits: { ...DEFAULT_LIMITS, ...limits },
    heapMb,
    onThreadEnded: (thread) => ended.push(thread),
    newestSnapshot: () => 9,
    onSpent,
    onProblem: () => {},
    onBroken(error) {
      throw error
    },
  })
}
/** Waits until earlier calls have reached a worker. */
async function started(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve))
}
const resultOf = (reply: PoolReply): unknown =>
  'result' in reply ? JSON.parse(reply.result) : reply

describe('a call', () => {
  let pool: Pool
  beforeAll(() => {
    pool = newPool(2, { graceMs: 100 })
  })
  afterAll(() => pool.stop())

  test('returns its result, its error, or that its snapshot is stale', async () => {
    expect(resultOf(await pool.execute(poolCall('echo', { snapshot: 7, params: ['ü'] })))).toEqual({
      text: 5,
      endpoint: 'flashblocks',
      snapshot: 7,
    })
    expect(await pool.execute(poolCall('fail'))).toEqual({
      error: { code: 3, message: 'rückgängig', data: '0x01' },
    })
    expect(await pool.execute(poolCall('stale', { snapshot: 1 }))).toEqual({ stale: true })
  })

  test('shares a task with others of the same turn', async () => {
    // The first task is filled before the costs are known: 7 × 200 µs are at most 1.5 ms.
    const calls = Array.from({ length: 40 }, () => pool.execute(poolCall('task')))
    const tasks = (await Promise.all(calls)).map(resultOf)
    expect(tasks.filter((task) => task === tasks[0])).toHaveLength(7)
  })

  test('may be larger than the task memory in both directions', async () => {
    const text = 'ü'.repeat(TASK_BYTES)
    const [echoed, long] = await Promise.all([
      pool.execute(poolCall('echo', { params: [text] })),
      pool.execute(poolCall('long', { params: [{ size: TASK_BYTES * 2 }] })),
    ])
    expect(resultOf(echoed)).toMatchObject({ text: text.length + 4 })
    expect((resultOf(long) as string).length).toBe(TASK_BYTES * 2)
  })

  test('returns a large result in pieces, without what was cut back', async () => {
    const request = (size: number) =>
      pool.execute(poolCall('pieces', { runs: 'trace', params: [{ size }] }))
    const [small, large, larger] = await Promise.all([
      request(10),
      request(LARGE),
      request(LARGE * 2),
    ])
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

  test('that waits inside the worker is awaited', async () => {
    expect(resultOf(await pool.execute(poolCall('wait', { params: [{ ms: 5 }] })))).toBe('waited')
  })

  test('is stopped at its timeout', async () => {
    const call = poolCall('spin', { params: [{ ms: 5_000 }], withinMs: 50 })
    expect(await pool.execute(call)).toMatchObject({
      error: { code: -32002, data: { limitMs: 5_000, queuedMs: expect.any(Number) } },
    })
  })

  test('is stopped when its client disconnects', async () => {
    const client = new AbortController()
    const long = { params: [{ ms: 60_000 }], withinMs: 60_000, signal: client.signal }
    const reply = pool.execute(poolCall('spin', long))
    setTimeout(() => client.abort(), 50)
    expect(await reply).toMatchObject({ error: { code: -32002 } })
  })

  test('that pins an old snapshot is cancelled, and a newer one is not', async () => {
    const spin = (ms: number, snapshot: object) =>
      pool.execute(
        poolCall('spin', { params: [{ ms }], runs: 'trace', withinMs: 60_000, ...snapshot }),
      )
    const old = spin(60_000, { snapshot: 3 })
    await new Promise((resolve) => setTimeout(resolve, 20))
    pool.cancel(8)
    expect(await old).toMatchObject({ error: { code: -32002 } })
    const newest = spin(300, {})
    await new Promise((resolve) => setTimeout(resolve, 20))
    pool.cancel(8)
    expect(resultOf(await newest)).toBe('spun')
  })

  test('that does not stop ends its worker, and others continue', async () => {
    const terminated = pool.stats().terminated
    const hanging = pool.execute(poolCall('hang', { withinMs: 50 }))
    const light = pool.execute(poolCall('echo', { withinMs: 60_000 }))
    expect(await hanging).toMatchObject({ error: { code: -32002, data: { limitMs: 5_000 } } })
    expect(resultOf(await light)).toMatchObject({ endpoint: 'flashblocks' })
    await expect.poll(() => ended.length).toBeGreaterThan(0)
    expect(pool.stats().terminated).toBe(terminated + 1)
    const replies = await Promise.all([1, 2, 3].map(() => pool.execute(poolCall('echo'))))
    expect(replies.every((reply) => 'result' in reply)).toBe(true)
  })

  describe('beside a call that is slower than expected', () => {
    const LONG = { withinMs: 60_000 }
    /**
     * Makes a call that counts as light, because its cost is unknown and its gas is little; it runs
     * until its client leaves.
     */
    const slowCall = (signal: AbortSignal, address = '192.0.2.2') =>
      poolCall('spin', { ...LONG, params: [{ ms: 60_000, gas: '0x1' }], signal, address })
    /** Teaches the pool that both methods are light. */
    async function learned(pool: Pool): Promise<void> {
      for (let index = 0; index < 30; index++)
        for (const [name, address] of [
          ['spin', '192.0.2.2'],
          ['task', '192.0.2.1'],
        ] as const)
          await pool.execute(poolCall(name, { ...LONG, params: [{ ms: 0, gas: '0x1' }], address }))
    }

    test('moves to another worker from the same task', async () => {
      const pool = newPool(2)
      await learned(pool)
      const client = new AbortController()
      const slow = pool.execute(slowCall(client.signal))
      const later = Array.from({ length: 5 }, () =>
        pool.execute(poolCall('task', { ...LONG, params: [{ gas: '0x1' }] })),
      )
      expect(new Set((await Promise.all(later)).map(resultOf)).size).toBe(1)
      client.abort()
      await slow
      await pool.stop()
    })

    test('gets a second worker even if it is a single one', async () => {
      const pool = newPool(2)
      // The method is known to be cheap.
      for (let index = 0; index < 8; index++) await pool.execute(poolCall('echo', LONG))
      const client = new AbortController()
      const slow = pool.execute(slowCall(client.signal))
      await new Promise((resolve) => setImmediate(resolve))
      expect(resultOf(await pool.execute(poolCall('echo', LONG)))).toMatchObject({ text: 2 })
      client.abort()
      await slow
      await pool.stop()
    })
  })

  test('runs once more when its worker dies, then fails', async () => {
    const before = ended.length
    const { replaced } = pool.stats()
    expect(await pool.execute(poolCall('die'))).toMatchObject({ error: { code: -32603 } })
    await expect.poll(() => ended.length).toBe(before + 2)
    expect(pool.stats()).toMatchObject({ threads: 2, replaced: replaced + 2 })
    expect(resultOf(await pool.execute(poolCall('echo')))).toMatchObject({ text: 2 })
  })
})

test.each([
  ['short, by the clock', { clockUs: 50, cpuUs: 0 }, 50],
  ['short, but measured at a tick of the processor clock', { clockUs: 50, cpuUs: 4_000 }, 50],
  ['long, mostly waiting for the processor', { clockUs: 60_000, cpuUs: 1_000 }, 5_000],
  ['long, and busy all the time', { clockUs: 60_000, cpuUs: 58_000 }, 60_000],
])('the cost of a call that was %s', (_, { clockUs, cpuUs }, micros) => {
  const before = { clockMs: 7, cpuMicros: 3 }
  const after = { clockMs: 7 + clockUs / 1_000, cpuMicros: 3 + cpuUs }
  expect(spentMicros(before, after)).toBe(micros)
})

test('an uncaught error is reported and ends its thread by an exit', async () => {
  const worker = new Worker(new URL('../../fixtures/uncaught-worker.ts', import.meta.url))
  const seen: unknown[] = []
  for (const event of ['message', 'error', 'exit'] as const)
    worker.on(event, (value: unknown) => seen.push([event, value]))
  await once(worker, 'exit')
  expect(seen).toEqual([
    ['message', 'nobody catches this'],
    ['exit', 1],
  ])
})

test('a worker with an uncaught error is replaced, however late the pool notices', async () => {
  const pool = newPool(2)
  for (let round = 0; round < ROUNDS; round++) {
    // Both workers end, and their replacements fail in their first task.
    await pool.execute(poolCall('die'))
    const failing = [pool.execute(poolCall('throw')), pool.execute(poolCall('throw'))]
    const end = performance.now() + 300
    while (performance.now() < end);
    for (const reply of await Promise.all(failing))
      expect(reply).toMatchObject({ error: { code: -32603 } })
  }
  await expect.poll(() => pool.stats().threads).toBe(2)
  await pool.stop()
})

describe('a worker at its memory limit', () => {
  test.each([false, true])(
    'ends and is replaced, and its call gets an error; it polls: %s',
    async (isPolling) => {
      const pool = newPool(2, {}, 32)
      // The light call has another call behind it, which is innocent.
      const hog = pool.execute(poolCall('hog', { params: [{ gas: '0x1', isPolling }] }))
      const later = pool.execute(poolCall('echo', { params: [{ gas: '0x1' }], withinMs: 60_000 }))
      expect(await hog).toMatchObject({ error: { code: -32603 } })
      expect(resultOf(await later)).toMatchObject({ endpoint: 'flashblocks' })
      // The worker ended before V8 would end it, because V8 may end the whole process then. The
      // call is not tried again.
      expect(pool.stats()).toMatchObject({ terminated: 1 })
      await expect.poll(() => pool.stats().replaced).toBe(1)
      expect(resultOf(await pool.execute(poolCall('echo')))).toMatchObject({ text: 2 })
      await pool.stop()
    },
  )

  test('continues with its call while live memory is unknown, and takes no more', async () => {
    const pool = newPool(2, {}, 32)
    const call = poolCall('hold', { params: [{ size: 300 * 2 ** 20, ms: 500 }] })
    expect(resultOf(await pool.execute(call))).toBe('held')
    expect(pool.stats()).toMatchObject({ terminated: 0 })
    await pool.stop()
  })

  test('continues when its memory is garbage', async () => {
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
  test('refuses calls at once, and answers those that waited too long', async () => {
    const pool = newPool(2, { callQueue: 3, traceQueue: 1, graceMs: 5_000 })
    // Two workers take only one expensive task, because the last worker is for light calls.
    const busy = pool.execute(poolCall('spin', { runs: 'trace', params: [{ ms: 300 }] }))
    await started()
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

  test('reports the times of a late call, with the data of its worker', async () => {
    const pool = newPool(2, { graceMs: 600_000 })
    const known = { suggestedRange: { fromBlock: '0x1', toBlock: '0x2' } }
    const params = [{ ms: 600_000, known }]
    const spin = (withinMs: number) =>
      pool.execute(poolCall('spin', { runs: 'logs', params, withinMs }))
    // A call that no worker begins in time has no data of a worker, so each try has more time.
    let late = await spin(50)
    for (let ms = 500; ms < 60_000 && !JSON.stringify(late).includes('0x2'); ms *= 5)
      late = await spin(ms)
    const times = { limitMs: 10_000, elapsedMs: expect.any(Number), queuedMs: expect.any(Number) }
    expect(late).toEqual({
      error: { code: -32002, message: 'request timed out', data: { ...times, ...known } },
    })
    await pool.stop()
  })

  test('evicts calls of the address with the most for another address', async () => {
    const pool = newPool(2, { callQueue: 3 })
    const client = new AbortController()
    const endless = () =>
      pool.execute(poolCall('spin', { params: [{ ms: 60_000 }], signal: client.signal }))
    const first = endless()
    await started()
    const [, , newest] = [endless(), endless(), endless()]
    const other = poolCall('echo', { params: [{ gas: '0x1' }], address: '192.0.2.2' })
    expect(resultOf(await pool.execute(other))).toMatchObject({ text: 15 })
    expect(await newest).toMatchObject({ error: { code: -32005 } })
    client.abort()
    expect(await first).toMatchObject({ error: { code: -32002 } })
    await pool.stop()
  })

  test('counts running calls in the limit of parameter bytes', async () => {
    const pool = newPool(2, { callQueueBytes: 1_000 })
    const client = new AbortController()
    const large = () =>
      pool.execute(
        poolCall('spin', {
          params: [{ ms: 60_000, rest: 'x'.repeat(550) }],
          signal: client.signal,
        }),
      )
    const first = large()
    await started()
    expect(await large()).toMatchObject({ error: { code: -32005 } })
    client.abort()
    expect(await first).toMatchObject({ error: { code: -32002 } })
    expect(resultOf(await pool.execute(poolCall('echo')))).toMatchObject({ text: 2 })
    await pool.stop()
  })

  test('reserves its last worker for quick calls and first calls of other addresses', async () => {
    const spent: [string, number][] = []
    const pool = newPool(2, {}, 128, (address, cpuMs) => spent.push([address, cpuMs]))
    const quick = () =>
      pool.execute(poolCall('echo', { address: '192.0.2.3', params: [{ gas: '0x1' }] }))
    for (let index = 0; index < 20; index++) await quick()
    const clients = [new AbortController(), new AbortController()] as const
    const endless = (who: 0 | 1) =>
      pool.execute(
        poolCall('spin', {
          params: [{ ms: 60_000 }],
          withinMs: 60_000,
          signal: clients[who].signal,
          address: `192.0.2.${who + 1}`,
        }),
      )
    const all = [endless(0), endless(0)]
    await started()
    expect(pool.stats()).toMatchObject({ busy: 1 })
    all.push(endless(1))
    await started()
    expect(pool.stats()).toMatchObject({ busy: 2 })
    // The guest gives way at once if it has a processor. Then it waits, and no longer as a guest.
    await expect
      .poll(async () => {
        expect(resultOf(await quick())).toMatchObject({ text: 15 })
        return pool.stats()
      })
      .toMatchObject({ busy: 1, queued: { dear: 2 } })
    for (const client of clients) client.abort()
    for (const reply of await Promise.all(all))
      expect(reply).toMatchObject({ error: { code: -32002 } })
    const of = (who: string) => spent.filter(([address]) => address === who).map(([, ms]) => ms)
    expect(of('192.0.2.3').length).toBeGreaterThan(20)
    // On a busy machine a thread gets little of the time that passes.
    expect(Math.max(...of('192.0.2.1'))).toBeGreaterThan(4)
    expect(Math.max(...of('192.0.2.2'))).toBeGreaterThan(4)
    await pool.stop()
  })

  test('charges processor time, not elapsed time', async () => {
    const spent: [string, number][] = []
    const pool = newPool(2, {}, 128, (address, cpuMs) => spent.push([address, cpuMs]))
    await pool.execute(poolCall('wait', { params: [{ ms: 300 }] }))
    expect(spent).toEqual([['192.0.2.1', expect.any(Number)]])
    expect(spent[0]![1]).toBeLessThan(100)
    // The node's own calls count for no client.
    await pool.execute({ ...poolCall('echo'), client: OWN_CLIENT })
    expect(spent.length).toBe(1)
    await pool.stop()
  })

  test('runs no call whose client disconnected before it started', async () => {
    const spent: unknown[] = []
    const pool = newPool(2, {}, 128, (...one) => spent.push(one))
    const client = new AbortController()
    const replies = ['spin', 'echo'].map((name) =>
      pool.execute(poolCall(name, { params: [{ ms: 60_000 }], signal: client.signal })),
    )
    client.abort()
    for (const reply of await Promise.all(replies))
      expect(reply).toMatchObject({ error: { code: -32002 } })
    expect(pool.stats()).toMatchObject({ busy: 0 })
    expect(spent).toEqual([])
    await pool.stop()
  })

  test('charges for a call whose worker was ended', async () => {
    const spent: [string, number][] = []
    const pool = newPool(2, { graceMs: 100 }, 128, (address, cpuMs) => spent.push([address, cpuMs]))
    await pool.execute({ ...poolCall('echo'), client: OWN_CLIENT })
    const call = poolCall('hang', { withinMs: 1_000, address: '192.0.2.7' })
    expect(await pool.execute(call)).toMatchObject({ error: { code: -32002 } })
    await expect.poll(() => spent.length).toBe(1)
    expect(spent[0]![0]).toBe('192.0.2.7')
    expect(spent[0]![1]).toBeGreaterThan(4)
    expect(spent[0]![1]).toBeLessThanOrEqual(DEFAULT_LIMITS.callMs + 100)
    await pool.stop()
  })

  test('answers running calls when it is stopped', async () => {
    const pool = newPool(2)
    const running = pool.execute(poolCall('hang', { params: [{ gas: '0x2faf080' }] }))
    await pool.execute(poolCall('echo'))
    await pool.stop()
    expect(await running).toMatchObject({ error: { code: -32603 } })
  })
})

describe('traces', () => {
  const COUNT = 12
  const trace = (block: string, at: number) =>
    poolCall('replay', { runs: 'trace', replayed: block, params: [{ block, at }] })

  test('of a block one by one execute each transaction once, also beside other calls', async () => {
    const pool = newPool(3)
    let executed = 0
    for (let at = 0; at < COUNT; at++) {
      // The trace finds a worker busy, which is in turn the first one and none.
      const beside = at % 2 === 0 ? pool.execute(poolCall('wait', { params: [{ ms: 20 }] })) : true
      await started()
      executed += Number(resultOf(await pool.execute(trace('a', at))))
      await beside
    }
    expect(executed).toBe(COUNT)
    expect(pool.stats().replays).toEqual({ kept: COUNT - 1, begun: 1 })
    await pool.stop()
  })

  test('of as many blocks as fit in all workers execute each transaction once', async () => {
    const pool = newPool(2)
    let executed = 0
    for (let at = 0; at < COUNT; at++)
      for (const block of ['a', 'b', 'c', 'd'])
        executed += Number(resultOf(await pool.execute(trace(block, at))))
    expect(executed).toBe(4 * COUNT)
    await pool.stop()
  })

  test('do not wait for the busy worker that has their block', async () => {
    const pool = newPool(3)
    await pool.execute(trace('a', 0))
    const holder = pool.execute(
      poolCall('wait', { runs: 'trace', replayed: 'a', params: [{ ms: 1_000 }] }),
    )
    await started()
    expect(resultOf(await pool.execute(trace('a', 1)))).toBe(2)
    expect(pool.stats().replays).toEqual({ kept: 1, begun: 2 })
    expect(resultOf(await holder)).toBe('waited')
    await pool.stop()
  })
})

describe('the call queues', () => {
  let clock = 0
  const now = () => clock
  let jobs = 0
  type Job = Waiting & { readonly id: number }
  const job = (queueClass: QueueClass, predicted = 100, more: Partial<Job> = {}): Job => ({
    queueClass,
    predicted,
    client: 'a',
    bytes: 10,
    isPutBack: false,
    id: jobs++,
    ...more,
  })
  /** `push` gives only the rejected jobs, `pushFor` also the limits. */
  const newCallQueues = (limits: Partial<Limits> = {}) => {
    const callQueues = createCallQueues<Job>({ ...DEFAULT_LIMITS, ...limits }, now)
    const push = (one: Job) => callQueues.push(one).map((out) => out.job)
    const more = { push, pushFor: callQueues.push }
    return Object.assign(Object.create(callQueues) as Omit<typeof callQueues, 'push'>, more)
  }
  const idle = { threads: 2, free: 2, tasksOf: () => 0, long: 0, longOf: () => 0 }
  const lastFree = { ...idle, free: 1 }
  /** In this state each named client has one worker with a long call. */
  const longBy = (...clients: string[]) => ({
    threads: 2,
    free: 1,
    tasksOf: () => 0,
    long: clients.length,
    longOf: (client: string) => clients.filter((one) => one === client).length,
  })
  const long = QUEUE_CLASS_NAMES.filter((queueClass) => QUEUE_CLASSES[queueClass].isLong)

  test('fill a task with light calls up to its maximum of calls and work', () => {
    const callQueues = newCallQueues()
    for (let index = 0; index < 100; index++) callQueues.push(job('light', 10))
    expect(callQueues.next(idle)?.length).toBe(64)
    expect(callQueues.next(idle)?.length).toBe(36)
    for (let index = 0; index < 20; index++) callQueues.push(job('light', 250))
    expect(callQueues.next(idle)?.length).toBe(6)
  })

  test.each([
    ['equal calls', [500, 500, 500, 500, 500, 500, 500], [6, 1]],
    ['calls that do not fit the task', [1_000, 1_500, 1_000, 400], [2, 2]],
    ['a call longer than a task', [4_000, 400, 9_000, 2_900, 100], [1, 1, 1, 2]],
    [
      'light calls that became more expensive',
      Array.from({ length: 40 }, () => 310),
      [9, 9, 9, 9, 4],
    ],
  ])('fill a task with medium calls: %s', (_, predicted, lengths) => {
    const callQueues = newCallQueues()
    for (const micros of predicted) callQueues.push(job('medium', micros))
    expect(lengths.map(() => callQueues.next(lastFree)?.length)).toEqual(lengths)
    expect(callQueues.next(lastFree)).toBe(undefined)
  })

  test('share medium calls among the free workers', () => {
    const callQueues = newCallQueues()
    for (let index = 0; index < 5; index++) callQueues.push(job('medium', 400))
    expect([callQueues.next(idle)?.length, callQueues.next(lastFree)?.length]).toEqual([3, 2])
  })

  test('do not wake another worker for little work', () => {
    const callQueues = newCallQueues()
    callQueues.push(job('light', 200))
    const tasksOf = (queueClass: QueueClass) => (queueClass === 'light' ? 1 : 0)
    expect(callQueues.next({ ...lastFree, tasksOf })).toBe(undefined)
    callQueues.push(job('light', 200))
    expect(callQueues.next({ ...lastFree, tasksOf })?.length).toBe(2)
  })

  test('mix addresses in a task, except for unsure calls', () => {
    const callQueues = newCallQueues()
    const pushAll = (queueClass: QueueClass) => {
      for (let index = 0; index < 100; index++)
        callQueues.push(job(queueClass, 30, { client: 'a' }))
      for (const client of ['b', 'c']) callQueues.push(job(queueClass, 30, { client }))
    }
    const order = () => callQueues.next(idle)!.map(({ client }) => client)
    pushAll('light')
    // A turn is 300 µs.
    expect(order().slice(0, 13).join('')).toBe(`${'a'.repeat(10)}bca`)
    callQueues.remove(() => true)
    pushAll('unsure')
    expect([order(), order(), order()].map((one) => new Set(one))).toEqual([
      new Set('a'),
      new Set('b'),
      new Set('c'),
    ])
  })

  test.each(long)('%s: reserve the last worker for guests of other addresses', (queueClass) => {
    const callQueues = newCallQueues()
    callQueues.push(job(queueClass))
    expect(callQueues.next(longBy('a'))).toBe(undefined)
    expect(callQueues.isLastWanted(longBy('a'))).toBe(false)
    callQueues.push(job(queueClass, 5_000_000, { client: 'b' }))
    callQueues.push(job(queueClass, 100, { client: 'c', isPutBack: true }))
    // The call is known to run longer than a guest may, and was a guest already.
    expect(callQueues.next(longBy('a'))).toBe(undefined)
    callQueues.push(job(queueClass, 100, { client: 'd' }))
    expect(callQueues.isLastWanted(longBy('a'))).toBe(true)
    expect(callQueues.isLastWanted(longBy('a', 'd'))).toBe(false)
    expect(callQueues.next(longBy('a'))).toMatchObject([{ client: 'd' }])
    const three = { ...longBy('a'), threads: 3, free: 2 }
    expect(callQueues.next(three)).toMatchObject([{ client: 'a' }])
    expect(callQueues.next(three)).toMatchObject([{ client: 'b' }])
  })

  test('serve every queue class in turn', () => {
    const callQueues = newCallQueues()
    for (let round = 0; round < 3; round++)
      for (const queueClass of QUEUE_CLASS_NAMES) callQueues.push(job(queueClass, 2_000))
    const order = [...QUEUE_CLASS_NAMES, ...QUEUE_CLASS_NAMES].map(
      () => callQueues.next(idle)?.[0]?.queueClass,
    )
    expect(order).toEqual([...QUEUE_CLASS_NAMES, ...QUEUE_CLASS_NAMES])
  })

  test('give every address that always waits the same share of work', () => {
    const clients = ['a', 'b', 'c']
    const max = 50_000
    fc.assert(
      fc.property(
        fc.constantFrom(...QUEUE_CLASS_NAMES),
        // For each address: the predicted cost of its calls, at most twice the real cost.
        fc.array(
          fc
            .tuple(fc.integer({ min: 2, max: max }), fc.integer({ min: 1, max: max }))
            .map(([predicted, micros]) => [predicted, Math.max(micros, predicted / 2)] as const),
          { minLength: clients.length, maxLength: clients.length },
        ),
        (queueClass, costs) => {
          const callQueues = newCallQueues()
          const served = new Map(clients.map((client) => [client, 0]))
          const push = (client: string) =>
            callQueues.push(job(queueClass, costs[clients.indexOf(client)]![0], { client }))
          for (const client of clients) for (let index = 0; index < 130; index++) push(client)
          for (let task = 0; task < 300; task++) {
            for (const one of callQueues.next(idle)!) {
              const micros = costs[clients.indexOf(one.client)]![1]
              callQueues.done(one, micros)
              served.set(one.client, served.get(one.client)! + micros)
              push(one.client)
            }
            const all = [...served.values()]
            // The bound allows, for both addresses, a turn and the cost of a task beyond the
            // address's credit.
            const { turnUs, taskUs } = QUEUE_CLASSES[queueClass]
            const bound = 2 * (turnUs + (taskUs === 0 ? 1 : 64) * max)
            expect(Math.max(...all) - Math.min(...all)).toBeLessThan(bound)
          }
        },
      ),
      { numRuns: 60 },
    )
  })

  test('skip an address with expensive calls until others have caught up', () => {
    const callQueues = newCallQueues()
    for (const client of ['a', 'b'])
      for (let index = 0; index < 200; index++) callQueues.push(job('dear', 10_000, { client }))
    const served = { a: 0, b: 0 }
    for (let task = 0; task < 150; task++) {
      const [one] = callQueues.next(idle)!
      const micros = one!.client === 'a' ? 1_000_000 : 10_000
      callQueues.done(one!, micros)
      served[one!.client as 'a' | 'b'] += micros
    }
    expect(served).toEqual({ a: 2_000_000, b: 1_480_000 })
  })

  test('keep the debt of an address without calls, and reduce it with time', () => {
    const order = (waitMs: number) => {
      const callQueues = newCallQueues()
      callQueues.push(job('dear', 10_000, { client: 'a' }))
      callQueues.done(callQueues.next(idle)![0]!, 100_000)
      clock += waitMs
      for (const client of ['a', 'b', 'b']) callQueues.push(job('dear', 10_000, { client }))
      return [1, 2, 3].map(() => callQueues.next(idle)![0]!.client).join('')
    }
    expect([order(0), order(200)]).toEqual(['bba', 'abb'])
  })

  test('handle a thousand addresses about as fast as one', () => {
    const msOf = (addresses: number) => {
      const callQueues = newCallQueues({ callQueue: 1e6 })
      const start = performance.now()
      for (let index = 0; index < 50_000; index++)
        callQueues.push(job('light', 20, { client: String(index % addresses) }))
      while (callQueues.size > 0) for (const one of callQueues.next(idle)!) callQueues.done(one, 25)
      return performance.now() - start
    }
    msOf(1)
    expect(msOf(1_000)).toBeLessThan(20 * msOf(1) + 200)
  })

  test('have a maximum length, together for the classes of calls', () => {
    const calls = QUEUE_CLASS_NAMES.filter(
      (queueClass) => QUEUE_CLASSES[queueClass].queue === 'callQueue',
    )
    const single = Object.fromEntries(
      QUEUE_CLASS_NAMES.map((queueClass) => [QUEUE_CLASSES[queueClass].queue, 1]),
    )
    const callQueues = newCallQueues({ ...single, callQueue: calls.length })
    expect(calls.map((queueClass) => callQueues.push(job(queueClass)))).toEqual(calls.map(() => []))
    const next = QUEUE_CLASS_NAMES.map((queueClass) => job(queueClass))
    expect(next.map((one) => callQueues.push(one).includes(one))).toEqual(
      QUEUE_CLASS_NAMES.map((queueClass) => calls.includes(queueClass)),
    )
    expect(callQueues.remove(({ queueClass }) => queueClass === 'medium').length).toBe(1)
    expect(callQueues.push(job('light'))).toEqual([])
    expect(callQueues.size).toBe(QUEUE_CLASS_NAMES.length)
  })

  test('evict the newest call of the client with the most when they are full', () => {
    const callQueues = newCallQueues({ callQueue: 4 })
    const own = [1, 2, 3, 4].map(() => job('dear'))
    for (const one of own) expect(callQueues.push(one)).toEqual([])
    const one = job('light')
    expect(callQueues.push(one)).toEqual([one])
    expect(callQueues.push(job('light', 100, { client: 'b' }))).toEqual([own[3]])
    expect(callQueues.push(job('light', 100, { client: 'b' }))).toEqual([own[2]])
    const third = job('light', 100, { client: 'b' })
    expect(callQueues.push(third)).toEqual([third])
    // Three clients have two, one and one jobs when a fourth comes.
    expect(callQueues.push(job('light', 100, { client: 'c' })).length).toBe(1)
    const last = job('light', 100, { client: 'd' })
    expect(callQueues.push(last).map(({ client }) => client)).toEqual(['b'])
    expect(callQueues.size).toBe(4)
  })

  test('evict nothing for a call that would still not fit, and report each limit', () => {
    const callQueues = newCallQueues({ callQueue: 4, callQueueBytes: 100 })
    const own = [10, 10, 10, 60].map((bytes) => job('light', 100, { bytes }))
    for (const one of own) expect(callQueues.push(one)).toEqual([])
    // One of the four jobs would be evicted, but the bytes of three are not enough.
    const large = job('light', 100, { client: 'b', bytes: 101 })
    expect(callQueues.pushFor(large)).toEqual([{ job: large, limit: 'callQueueBytes' }])
    expect(callQueues.size).toBe(4)
    const same = job('light', 100, { client: 'c', bytes: 95 })
    expect(callQueues.pushFor(same)).toEqual([{ job: same, limit: 'callQueueBytes' }])
    const small = job('light', 100, { client: 'b', bytes: 20 })
    expect(callQueues.pushFor(small)).toEqual([{ job: own[3], limit: 'callQueue' }])
    const next = job('light', 100, { client: 'd', bytes: 5 })
    expect(callQueues.pushFor(next)).toEqual([{ job: own[2], limit: 'callQueue' }])
    // The order of the turns is unchanged.
    const order = callQueues.next(idle)!
    expect(order).toEqual([own[0], own[1], small, next])
  })

  test('limit the bytes of waiting and running calls together', () => {
    const bounded = fc.array(
      fc.record({
        client: fc.constantFrom('a', 'b', 'c'),
        queueClass: fc.constantFrom(...QUEUE_CLASS_NAMES),
        bytes: fc.integer({ min: 0, max: 60 }),
        isRun: fc.boolean(),
      }),
    )
    fc.assert(
      fc.property(bounded, (steps) => {
        const callQueues = newCallQueues({ callQueueBytes: 100, callQueue: 5 })
        const pinned = new Set<Job>()
        const running: Job[] = []
        for (const { client, queueClass, bytes, isRun } of steps) {
          const one = job(queueClass, 100, { client, bytes })
          pinned.add(one)
          const out = callQueues.push(one)
          if (out.includes(one)) expect(out).toEqual([one])
          for (const other of out) expect(pinned.delete(other)).toBe(true)
          if (isRun) running.push(...(callQueues.next(idle) ?? []))
          const sum = [...pinned].reduce((total, other) => total + other.bytes, 0)
          expect(sum).toBeLessThanOrEqual(100)
          expect(callQueues.size + running.length).toBe(pinned.size)
          if (running.length > 3)
            for (const ended of running.splice(0)) {
              callQueues.done(ended, 100)
              pinned.delete(ended)
            }
        }
      }),
    )
    const callQueues = newCallQueues({ callQueueBytes: 100 })
    const small = job('light', 100, { client: 'b', bytes: 5 })
    callQueues.push(job('dear', 100, { bytes: 60 }))
    callQueues.push(job('dear', 100, { bytes: 40 }))
    expect(callQueues.push(small)).toMatchObject([{ bytes: 40 }])
    const large = job('dear', 100, { bytes: 80 })
    expect(callQueues.push(large)).toEqual([large])
  })
})

test('a call that waits too long gets its timeout by the given clock', () => {
  let clock = 1_000
  const replies: PoolReply[] = []
  const queue = new JobQueue(DEFAULT_LIMITS, 2, () => clock)
  const call = { ...poolCall('echo'), deadline: clock + DEFAULT_LIMITS.callMs }
  const prediction = createCosts(() => clock).classify(call, 'a')
  queue.push({
    call,
    prediction,
    client: 'a',
    queueClass: prediction.queueClass,
    predicted: 100,
    bytes: 1,
    queuedAt: 1_100,
    startedAt: undefined,
    snapshot: 0,
    hasResponse: false,
    isSecondTry: false,
    isPutBack: false,
    respond: (reply) => void replies.push(reply),
  })
  clock += DEFAULT_LIMITS.callMs - 1
  queue.dropGone()
  expect(replies).toEqual([])
  clock += 201
  queue.dropGone()
  const { callMs: limitMs } = DEFAULT_LIMITS
  const data = { elapsedMs: limitMs + 200, limitMs, queuedMs: limitMs + 100 }
  expect(replies).toMatchObject([{ error: { code: -32_002, data } }])
})

describe('a call whose queue is longer than its timeout', () => {
  /** Makes a queue for calls of 100 ms each, known as such unless `knownUs` is given. */
  const newQueue = () => {
    const replies: PoolReply[] = []
    const queue = new JobQueue(DEFAULT_LIMITS, 2, () => 0)
    const admit = (client: string, knownUs: number | undefined = 100_000) => {
      const call = { ...poolCall('echo', { address: client }), deadline: DEFAULT_LIMITS.callMs }
      const queueClass = QUEUE_CLASS_NAMES.find(
        (name) => QUEUE_CLASSES[name].runs === 'call' && QUEUE_CLASSES[name].isLong,
      )!
      const prediction = createCosts(() => 0).classify(call, client)
      return queue.admit({
        call,
        prediction,
        client,
        queueClass,
        predicted: 100_000,
        knownUs,
        bytes: 1,
        queuedAt: 0,
        startedAt: undefined,
        snapshot: 0,
        hasResponse: false,
        isSecondTry: false,
        isPutBack: false,
        respond: (reply) => void replies.push(reply),
      })
    }
    const admitted = (count: number, client: string, knownUs?: number) =>
      Array.from({ length: count }, () => admit(client, knownUs)).filter(Boolean).length
    return { admit, admitted, queue, replies }
  }

  test('is refused at once with the time to retry', () => {
    const { admitted, replies } = newQueue()
    // Two workers do 100 of the calls in the five seconds that a call may take; the 101st starts in
    // time.
    expect(admitted(103, 'a')).toBe(101)
    const data = { reason: 'overloaded', retryAfterMs: 200 }
    expect(replies).toMatchObject([{ error: { code: -32_005, data } }, { error: { data } }])
  })
  test('is judged by the calls of its own address, in turns with others', () => {
    const { admit, admitted } = newQueue()
    expect(admitted(101, 'a')).toBe(101)
    expect(admit('b')).toBe(true)
    // While b waits for its calls, a does as many of its own.
    expect(admitted(103, 'b')).toBe(50)
  })
  test('is accepted while the costs are unknown', () => {
    const { admitted, queue } = newQueue()
    expect(admitted(300, 'a', 0)).toBe(300)
    expect(queue.size).toBe(300)
  })
  test('is accepted again when enough calls have left', () => {
    const { admit, admitted, queue } = newQueue()
    expect(admitted(102, 'a')).toBe(101)
    const load = { threads: 2, free: 2, tasksOf: () => 0, long: 0, longOf: () => 0 }
    expect(queue.take(load)).toHaveLength(1)
    expect(admit('a')).toBe(true)
    expect(admit('a')).toBe(false)
  })
})

describe('the cost of a call', () => {
  const token = { to: `0x${'a'.repeat(40)}`, data: '0x70a08231000000', gas: '0x5208' }
  const call = (request: object) => poolCall('eth_call', { params: [request] })
  let clock = 0
  const newCosts = () => createCosts(() => clock)
  /** Records this many observations. */
  const learn = (
    costs: ReturnType<typeof newCosts>,
    prediction: Prediction,
    ...seen: (readonly [times: number, micros: number])[]
  ) => {
    for (const [times, micros] of seen)
      for (let index = 0; index < times; index++) costs.learn(prediction, micros)
  }

  test('is learned per contract and selector, for all clients', () => {
    const costs = newCosts()
    const first = costs.classify(call(token), 'a')
    expect(first.queueClass).toBe('unsure')
    costs.learn(first, 50_000)
    expect(costs.classify(call({ ...token, data: `${token.data}ff` }), 'b').queueClass).toBe('dear')
    expect(costs.classify(call({ ...token, data: '0x12345678' }), 'b').queueClass).toBe('unsure')
    const known = costs.classify(call(token), 'a')
    learn(costs, known, [8, 1_000])
    expect(costs.classify(call(token), 'b').queueClass).toBe('medium')
    learn(costs, known, [16, 20])
    expect(costs.classify(call(token), 'b').queueClass).toBe('light')
  })

  test('of a client with experience is independent of other clients', () => {
    const costs = newCosts()
    learn(costs, costs.classify(call(token), 'a'), [1, 20])
    learn(costs, costs.classify(call(token), 'b'), [20, 2_000_000])
    expect(costs.classify(call(token), 'a').queueClass).toBe('light')
    expect(costs.classify(call(token), 'b').queueClass).toBe('dear')
    expect(costs.classify(call(token), 'c').queueClass).toBe('dear')
  })

  test('of code that a client brings says nothing about the code of others', () => {
    const costs = newCosts()
    const create = { gas: '0x5208', data: '0x60806040' }
    const overridden = (client: string) =>
      costs.classify(
        poolCall('eth_call', { params: [token, 'latest', { [token.to]: { code: '0x5b5f56' } }] }),
        client,
      )
    const created = (client: string) => costs.classify(call(create), client)
    for (const classify of [overridden, created]) {
      learn(costs, classify('a'), [2, 20])
      expect(classify('a').queueClass).toBe('light')
      expect(classify('b').queueClass).toBe('unsure')
    }
    expect(costs.classify(call(token), 'a').queueClass).toBe('unsure')
  })

  test('changes little with one slow run, but much with many or a very slow one', () => {
    const costs = newCosts()
    const unknown = costs.classify(call(token), 'a')
    learn(costs, unknown, [1, 20])
    const queueClass = () => costs.classify(call(token), 'a').queueClass
    const known = costs.classify(call(token), 'a')
    for (let round = 0; round < 50; round++) {
      learn(costs, known, [9, 20], [1, 60_000])
      expect(queueClass()).toBe('light')
    }
    learn(costs, known, [16, 60_000])
    expect(queueClass()).toBe('dear')
    learn(costs, known, [40, 20])
    expect(queueClass()).toBe('light')
    costs.learn({ ...known, expected: 'long' }, 2_000_000)
    expect(queueClass()).toBe('dear')
  })

  test('is dear when it is unknown and its gas is high', () => {
    const costs = newCosts()
    expect(costs.classify(call({ ...token, gas: '0x2faf080' }), 'a').queueClass).toBe('dear')
    expect(costs.classify(call({ to: token.to, data: token.data }), 'a').queueClass).toBe('dear')
    expect(costs.classify(call(token), 'a').queueClass).toBe('unsure')
  })

  test('is dear when it is unknown and others of its address were dear lately', () => {
    const costs = newCosts()
    const other = (selector: number) => call({ ...token, data: `0x${selector}` })
    costs.learn(costs.classify(other(10_000_000), 'a'), 5_000_000)
    for (let index = 0; index < 10; index++)
      costs.learn(costs.classify(other(20_000_000 + index), 'a'), 50)
    expect(costs.classify(other(30_000_000), 'a')).toMatchObject({ queueClass: 'dear' })
    expect(costs.classify(other(30_000_000), 'b')).toMatchObject({ queueClass: 'unsure' })
    clock += 60_000
    expect(costs.classify(other(30_000_000), 'a')).toMatchObject({ queueClass: 'unsure' })
  })

  test('is unsure for a while after a surprise, for that address only', () => {
    const costs = newCosts()
    learn(costs, costs.classify(call(token), 'a'), [3, 20])
    learn(costs, costs.classify(call({ ...token, data: '0x1' }), 'a'), [3, 20])
    costs.learn(costs.classify(call(token), 'a'), 5_000_000)
    expect(costs.classify(call({ ...token, data: '0x1' }), 'a').queueClass).toBe('unsure')
    expect(costs.classify(call({ ...token, data: '0x1' }), 'b').queueClass).toBe('light')
    clock += 60_000
    expect(costs.classify(call({ ...token, data: '0x1' }), 'a').queueClass).toBe('light')
  })

  test('of a call that was stopped is at least its time so far', () => {
    const costs = newCosts()
    costs.learn(costs.classify(call(token), 'a'), 100, true)
    expect(costs.classify(call(token), 'a').expected).toBe('unknown')
    costs.learn(costs.classify(call(token), 'a'), 30_000, true)
    expect(costs.classify(call(token), 'a')).toMatchObject({
      queueClass: 'dear',
      predicted: 100_000,
    })
  })

  test('is unsure or dear for any parameters', () => {
    const costs = newCosts()
    fc.assert(
      fc.property(fc.array(fc.jsonValue(), { maxLength: 3 }), (params) => {
        expect(['unsure', 'dear']).toContain(
          costs.classify(poolCall('x', { params }), 'a').queueClass,
        )
      }),
    )
  })
})

describe('the task memory', () => {
  const callOf = fc.record({
    method: fc.stringMatching(/^[a-z_]{1,40}$/),
    text: fc.oneof(fc.string({ unit: 'binary' }), fc.constant('ä'.repeat(TASK_BYTES / 3))),
    endpoint: fc.constantFrom('standard' as const, 'flashblocks' as const),
    snapshot: fc.option(fc.integer({ min: 1, max: 2 ** 30 }), { nil: undefined }),
    deadline: fc.double({ noNaN: true }),
    wantsReads: fc.boolean(),
  })
  const reads = fc.option(
    fc.record({ keys: fc.int32Array({ maxLength: 600 }), fields: fc.nat(511) }),
    { nil: undefined },
  )
  const pending = fc.record({
    number: fc.bigInt({ min: 0n, max: BigInt(Number.MAX_SAFE_INTEGER) }),
    index: fc.nat(10 ** 9),
    payloadId: fc.option(
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((id) => numberToHex(id, { size: 8 })),
      { nil: undefined },
    ),
  })
  const from: fc.Arbitrary<ReadFrom> = fc.oneof(
    fc.constant({}),
    fc.record({ snapshot: fc.integer({ min: 1, max: 2 ** 31 - 1 }), pending }),
  )
  const bytesOf = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })
  const address = bytesOf(20)
  const missingKey: fc.Arbitrary<MissingKey> = fc.oneof(
    fc.record({ kind: fc.constant('account' as const), address }),
    fc.record({ kind: fc.constant('slot' as const), address, key: bytesOf(32) }),
    fc.record({ kind: fc.constant('code' as const), hash: bytesOf(32) }),
    fc.record({ kind: fc.constant('blockHash' as const), number: fc.bigInt({ min: 0n }) }),
  )
  const slot = { kind: 'slot' as const, address: new Uint8Array(20), key: new Uint8Array(32) }
  const replyOf: fc.Arbitrary<WorkerReply> = fc.oneof(
    fc
      .array(missingKey, { minLength: 1, maxLength: 5 })
      .map((missing) => ({ stale: true as const, missing })),
    fc.constant({ stale: true as const, missing: Array(1_000).fill(slot) }),
    fc.tuple(fc.string({ unit: 'grapheme-ascii' }), reads, from).map(([text, reported, read]) => ({
      result: JSON.stringify(text),
      reads: reported,
      ...read,
    })),
    reads.map((reported) => ({ result: `"${'x'.repeat(TASK_BYTES / 3)}"`, reads: reported })),
    fc.constant({ stale: true as const }),
    fc.tuple(fc.nat(), from).map(([written, read]) => ({ written, ...read })),
    fc
      .tuple(fc.array(fc.uint8Array({ minLength: 1 }), { minLength: 1 }), from)
      .map(([pieces, read]) => ({ pieces, ...read })),
    fc.tuple(fc.string({ unit: 'binary' }), reads, from).map(([message, reported, read]) => ({
      error: { code: -32000, message: message.toWellFormed() },
      reads: reported,
      ...read,
    })),
  )

  test('returns every call and every reply unchanged', () => {
    const memory = createTaskMemory()
    const texts = fc.array(fc.tuple(callOf, replyOf), { minLength: 1, maxLength: 64 })
    fc.assert(
      fc.property(texts, (pairs) => {
        const calls = pairs.map(([call]): TaskCall => ({ ...call, text: call.text.toWellFormed() }))
        const long = writeCalls(memory, calls)
        expect(calls.map((_, index) => readCall(memory, index, long))).toEqual(calls)
        expect(readReply(memory, 0, [])).toBe(undefined)
        const back: [number, LongReply][] = []
        for (const [index, [, reply]] of pairs.entries()) {
          const text = writeReply(memory, index, { reply, micros: index })
          if (text !== undefined) back.push([index, text])
        }
        for (const [index, [, reply]] of pairs.entries()) {
          const read = readReply(memory, index, back)!
          // The reply includes its reads if it has space for them.
          const isUnreported = 'reads' in reply && 'reads' in read && read.reads === undefined
          expect(read).toEqual(isUnreported ? { ...reply, reads: undefined } : reply)
          if (index === 0)
            expect(isUnreported && 'reads' in reply && reply.reads).not.toBeTypeOf('object')
          expect(microsOf(memory, index)).toBe(index)
        }
      }),
      { numRuns: 40 },
    )
  })

  test('cancels one call only', () => {
    const memory = createTaskMemory()
    const call = {
      method: 'x',
      text: '',
      endpoint: 'standard' as const,
      snapshot: 1,
      deadline: 0,
      wantsReads: false,
    }
    writeCalls(memory, [call, call])
    cancelCall(memory, 1)
    expect([isCancelled(memory, 0), isCancelled(memory, 1)]).toEqual([false, true])
  })
})
