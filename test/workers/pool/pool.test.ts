/** The pool with real workers: batches, deadlines, full queues, dead workers; and its parts alone. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { numberToHex } from 'viem'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { MissingKey } from '../../../engine/state/reader.ts'
import type { WorkerReply } from '../../../rpc/dispatch/worker-call.ts'
import type { Method } from '../../../rpc/method/method.ts'
import { LARGE } from '../../../rpc/seam/exchange.ts'
import {
  OWN_CLIENT,
  type PoolCall,
  type PoolReply,
  type ReadFrom,
} from '../../../rpc/seam/executor.ts'
import { LANE_NAMES, LANES, type Lane, type Runs } from '../../../rpc/seam/lane.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../rpc/seam/limits.ts'
import { createCosts, type Prediction } from '../../../workers/pool/costs.ts'
import { createLanes, type Waiting } from '../../../workers/pool/lanes.ts'
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
  readonly record?: number
  readonly withinMs?: number
  readonly signal?: AbortSignal
  readonly params?: readonly unknown[]
  readonly address?: string
  readonly replayed?: string
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
/** Without its exit one run in three lost a thread. */
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
    newestRecord: () => 9,
    onSpent,
    onProblem: () => {},
    onBroken(error) {
      throw error
    },
  })
}
/** What was just asked for has been handed to a worker. */
async function started(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve))
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
    // The first task is filled before anything is learned: 7 × 200 µs are at most 1.5 ms.
    const calls = Array.from({ length: 40 }, () => pool.execute(poolCall('task')))
    const tasks = (await Promise.all(calls)).map(resultOf)
    expect(tasks.filter((task) => task === tasks[0])).toHaveLength(7)
  })

  test('larger than a memory in both directions', async () => {
    const text = 'ü'.repeat(TASK_BYTES)
    const [echoed, long] = await Promise.all([
      pool.execute(poolCall('echo', { params: [text] })),
      pool.execute(poolCall('long', { params: [{ size: TASK_BYTES * 2 }] })),
    ])
    expect(resultOf(echoed)).toMatchObject({ text: text.length + 4 })
    expect((resultOf(long) as string).length).toBe(TASK_BYTES * 2)
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
    await expect.poll(() => ended.length).toBeGreaterThan(0)
    expect(pool.stats().terminated).toBe(terminated + 1)
    const replies = await Promise.all([1, 2, 3].map(() => pool.execute(poolCall('echo'))))
    expect(replies.every((reply) => 'result' in reply)).toBe(true)
  })

  describe('beside one that is slower than it looks', () => {
    const LONG = { withinMs: 60_000 }
    /** Taken for light, because nothing is known of it and it brings little gas; runs until its client leaves. */
    const slowCall = (signal: AbortSignal, address = '192.0.2.2') =>
      poolCall('spin', { ...LONG, params: [{ ms: 60_000, gas: '0x1' }], signal, address })
    /** Both are known as light then. */
    async function learned(pool: Pool): Promise<void> {
      for (let index = 0; index < 30; index++)
        for (const [name, address] of [
          ['spin', '192.0.2.2'],
          ['task', '192.0.2.1'],
        ] as const)
          await pool.execute(poolCall(name, { ...LONG, params: [{ ms: 0, gas: '0x1' }], address }))
    }

    test('and in its task go to another worker', async () => {
      const pool = newPool(2)
      await learned(pool)
      const client = new AbortController()
      const slow = pool.execute(slowCall(client.signal))
      const behind = Array.from({ length: 5 }, () =>
        pool.execute(poolCall('task', { ...LONG, params: [{ gas: '0x1' }] })),
      )
      expect(new Set((await Promise.all(behind)).map(resultOf)).size).toBe(1)
      client.abort()
      await slow
      await pool.stop()
    })

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
    })
  })

  test('of a worker that dies run once more, then give up', async () => {
    const before = ended.length
    const { replaced } = pool.stats()
    expect(await pool.execute(poolCall('die'))).toMatchObject({ error: { code: -32603 } })
    await expect.poll(() => ended.length).toBe(before + 2)
    expect(pool.stats()).toMatchObject({ threads: 2, replaced: replaced + 2 })
    expect(resultOf(await pool.execute(poolCall('echo')))).toMatchObject({ text: 2 })
  })
})

test.each([
  ['short: the clock', { clockUs: 50, cpuUs: 0 }, 50],
  ['short, at a tick of the system', { clockUs: 50, cpuUs: 4_000 }, 50],
  ['waited for its turn', { clockUs: 60_000, cpuUs: 1_000 }, 5_000],
  ['worked all the time', { clockUs: 60_000, cpuUs: 58_000 }, 60_000],
])('the cost of a call that was %s', (_, { clockUs, cpuUs }, micros) => {
  const before = { clockMs: 7, cpuMicros: 3 }
  const after = { clockMs: 7 + clockUs / 1_000, cpuMicros: 3 + cpuUs }
  expect(spentMicros(before, after)).toBe(micros)
})

test('a fault that nobody catches is told, and ends its thread by an exit', async () => {
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
  await expect.poll(() => pool.stats().threads).toBe(2)
  await pool.stop()
})

describe('a worker without memory', () => {
  test.each([false, true])(
    'ends, is replaced, and its call is answered; it polls: %s',
    async (isPolling) => {
      const pool = newPool(2, {}, 32)
      // Light, with another call behind it, which is innocent.
      const hog = pool.execute(poolCall('hog', { params: [{ gas: '0x1', isPolling }] }))
      const behind = pool.execute(poolCall('echo', { params: [{ gas: '0x1' }], withinMs: 60_000 }))
      expect(await hog).toMatchObject({ error: { code: -32603 } })
      expect(resultOf(await behind)).toMatchObject({ endpoint: 'flashblocks' })
      // Before V8 ended it, which it does to the whole process when it is in a hurry; and not once more to try again.
      expect(pool.stats()).toMatchObject({ terminated: 1 })
      await expect.poll(() => pool.stats().replaced).toBe(1)
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

  test('takes calls of another address in place of those of who has most', async () => {
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

  test('refuses parameters beyond its bytes, those that run counted', async () => {
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

  test('has its last worker for quick calls, and at once for a first one of another address', async () => {
    const spent: [string, number][] = []
    const pool = newPool(2, {}, 128, (address, cpuMs) => spent.push([address, cpuMs]))
    const quick = () =>
      pool.execute(poolCall('echo', { address: '192.0.2.3', params: [{ gas: '0x1' }] }))
    for (let index = 0; index < 20; index++) await quick()
    const clients = [new AbortController(), new AbortController()] as const
    const endless = (who: 0 | 1) =>
      pool.execute(
        poolCall('spin', {
          ...{ params: [{ ms: 60_000 }], withinMs: 60_000, signal: clients[who].signal },
          address: `192.0.2.${who + 1}`,
        }),
      )
    const all = [endless(0), endless(0)]
    await started()
    expect(pool.stats()).toMatchObject({ busy: 1 })
    all.push(endless(1))
    await started()
    expect(pool.stats()).toMatchObject({ busy: 2 })
    // The guest gives way: at once where it had a processor, and then it waits, and no longer as a guest.
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
    // On a busy machine a thread has little of the time that passes.
    expect(Math.max(...of('192.0.2.1'))).toBeGreaterThan(4)
    expect(Math.max(...of('192.0.2.2'))).toBeGreaterThan(4)
    await pool.stop()
  })

  test('charges what the processor did, not what the clock says', async () => {
    const spent: [string, number][] = []
    const pool = newPool(2, {}, 128, (address, cpuMs) => spent.push([address, cpuMs]))
    await pool.execute(poolCall('wait', { params: [{ ms: 300 }] }))
    expect(spent).toEqual([['192.0.2.1', expect.any(Number)]])
    expect(spent[0]![1]).toBeLessThan(100)
    // The node's own calls are nobody's.
    await pool.execute({ ...poolCall('echo'), client: OWN_CLIENT })
    expect(spent.length).toBe(1)
    await pool.stop()
  })

  test('runs nothing whose client left before a worker had it', async () => {
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

  test('stopping answers what still runs', async () => {
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

  test('of the transactions of a block, one by one, execute each once, whatever runs beside them', async () => {
    const pool = newPool(3)
    let executed = 0
    for (let at = 0; at < COUNT; at++) {
      // Has a worker, in turn the first and none.
      const beside = at % 2 === 0 ? pool.execute(poolCall('wait', { params: [{ ms: 20 }] })) : true
      await started()
      executed += Number(resultOf(await pool.execute(trace('a', at))))
      await beside
    }
    expect(executed).toBe(COUNT)
    expect(pool.stats().replays).toEqual({ kept: COUNT - 1, begun: 1 })
    await pool.stop()
  })

  test('of as many blocks as all workers keep, in turns, execute each transaction once', async () => {
    const pool = newPool(2)
    let executed = 0
    for (let at = 0; at < COUNT; at++)
      for (const block of ['a', 'b', 'c', 'd'])
        executed += Number(resultOf(await pool.execute(trace(block, at))))
    expect(executed).toBe(4 * COUNT)
    await pool.stop()
  })

  test('do not wait for the worker that has their block', async () => {
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

describe('lanes', () => {
  let clock = 0
  const now = () => clock
  let jobs = 0
  type Job = Waiting & { readonly id: number }
  const job = (lane: Lane, predicted = 100, more: Partial<Job> = {}): Job => ({
    ...{ lane, predicted, client: 'a', bytes: 10, isPutBack: false, id: jobs++ },
    ...more,
  })
  /** `push` gives the jobs alone that have no place, `pushFor` with the limits. */
  const newLanes = (limits: Partial<Limits> = {}) => {
    const lanes = createLanes<Job>({ ...DEFAULT_LIMITS, ...limits }, now)
    const push = (one: Job) => lanes.push(one).map((out) => out.job)
    const more = { push, pushFor: lanes.push }
    return Object.assign(Object.create(lanes) as Omit<typeof lanes, 'push'>, more)
  }
  const idle = { threads: 2, free: 2, tasksOf: () => 0, long: 0, longOf: () => 0 }
  const lastFree = { ...idle, free: 1 }
  /** `a` has one worker with a long call, and so on. */
  const longBy = (...clients: string[]) => ({
    ...{ threads: 2, free: 1, tasksOf: () => 0, long: clients.length },
    longOf: (client: string) => clients.filter((one) => one === client).length,
  })
  const long = LANE_NAMES.filter((lane) => LANES[lane].isLong)

  test('light calls share a task up to its length in calls and in work', () => {
    const lanes = newLanes()
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
    const lanes = newLanes()
    for (const micros of predicted) lanes.push(job('medium', micros))
    expect(lengths.map(() => lanes.next(lastFree)?.length)).toEqual(lengths)
    expect(lanes.next(lastFree)).toBe(undefined)
  })

  test('medium calls are shared among the free workers', () => {
    const lanes = newLanes()
    for (let index = 0; index < 5; index++) lanes.push(job('medium', 400))
    expect([lanes.next(idle)?.length, lanes.next(lastFree)?.length]).toEqual([3, 2])
  })

  test('a further worker is not woken for little work', () => {
    const lanes = newLanes()
    lanes.push(job('light', 200))
    const tasksOf = (lane: Lane) => (lane === 'light' ? 1 : 0)
    expect(lanes.next({ ...lastFree, tasksOf })).toBe(undefined)
    lanes.push(job('light', 200))
    expect(lanes.next({ ...lastFree, tasksOf })?.length).toBe(2)
  })

  test('a task takes calls of several addresses, each in its turn; one of unsure calls those of one', () => {
    const lanes = newLanes()
    const pushAll = (lane: Lane) => {
      for (let index = 0; index < 100; index++) lanes.push(job(lane, 30, { client: 'a' }))
      for (const client of ['b', 'c']) lanes.push(job(lane, 30, { client }))
    }
    const order = () => lanes.next(idle)!.map(({ client }) => client)
    pushAll('light')
    // A turn is 300 µs.
    expect(order().slice(0, 13).join('')).toBe(`${'a'.repeat(10)}bca`)
    lanes.remove(() => true)
    pushAll('unsure')
    expect([order(), order(), order()].map((one) => new Set(one))).toEqual([
      new Set('a'),
      new Set('b'),
      new Set('c'),
    ])
  })

  test.each(long)('%s: one address never holds the last worker, another may as a guest', (lane) => {
    const lanes = newLanes()
    lanes.push(job(lane))
    expect(lanes.next(longBy('a'))).toBe(undefined)
    expect(lanes.isLastWanted(longBy('a'))).toBe(false)
    lanes.push(job(lane, 5_000_000, { client: 'b' }))
    lanes.push(job(lane, 100, { client: 'c', isPutBack: true }))
    // Known to run longer than a guest may; was a guest already.
    expect(lanes.next(longBy('a'))).toBe(undefined)
    lanes.push(job(lane, 100, { client: 'd' }))
    expect(lanes.isLastWanted(longBy('a'))).toBe(true)
    expect(lanes.isLastWanted(longBy('a', 'd'))).toBe(false)
    expect(lanes.next(longBy('a'))).toMatchObject([{ client: 'd' }])
    const three = { ...longBy('a'), threads: 3, free: 2 }
    expect(lanes.next(three)).toMatchObject([{ client: 'a' }])
    expect(lanes.next(three)).toMatchObject([{ client: 'b' }])
  })

  test('every lane gets its turn', () => {
    const lanes = newLanes()
    for (let round = 0; round < 3; round++)
      for (const lane of LANE_NAMES) lanes.push(job(lane, 2_000))
    const order = [...LANE_NAMES, ...LANE_NAMES].map(() => lanes.next(idle)?.[0]?.lane)
    expect(order).toEqual([...LANE_NAMES, ...LANE_NAMES])
  })

  test('an address that always waits gets as much work done as any other', () => {
    const clients = ['a', 'b', 'c']
    const most = 50_000
    fc.assert(
      fc.property(
        fc.constantFrom(...LANE_NAMES),
        // Of each address: what its calls are taken for, at most twice of what they take.
        fc.array(
          fc
            .tuple(fc.integer({ min: 2, max: most }), fc.integer({ min: 1, max: most }))
            .map(([predicted, micros]) => [predicted, Math.max(micros, predicted / 2)] as const),
          { minLength: clients.length, maxLength: clients.length },
        ),
        (lane, costs) => {
          const lanes = newLanes()
          const served = new Map(clients.map((client) => [client, 0]))
          const push = (client: string) =>
            lanes.push(job(lane, costs[clients.indexOf(client)]![0], { client }))
          for (const client of clients) for (let index = 0; index < 130; index++) push(client)
          for (let task = 0; task < 300; task++) {
            for (const one of lanes.next(idle)!) {
              const micros = costs[clients.indexOf(one.client)]![1]
              lanes.done(one, micros)
              served.set(one.client, served.get(one.client)! + micros)
              push(one.client)
            }
            const all = [...served.values()]
            // A turn, and what a task of an address costs at most beyond its credit, of both.
            const { turnUs, taskUs } = LANES[lane]
            const bound = 2 * (turnUs + (taskUs === 0 ? 1 : 64) * most)
            expect(Math.max(...all) - Math.min(...all)).toBeLessThan(bound)
          }
        },
      ),
      { numRuns: 60 },
    )
  })

  test('who has cost much more than was foreseen is passed over until the others have had as much', () => {
    const lanes = newLanes()
    for (const client of ['a', 'b'])
      for (let index = 0; index < 200; index++) lanes.push(job('dear', 10_000, { client }))
    const served = { a: 0, b: 0 }
    for (let task = 0; task < 150; task++) {
      const [one] = lanes.next(idle)!
      const micros = one!.client === 'a' ? 1_000_000 : 10_000
      lanes.done(one!, micros)
      served[one!.client as 'a' | 'b'] += micros
    }
    expect(served).toEqual({ a: 2_000_000, b: 1_480_000 })
  })

  test('a debt is kept while no call of its address waits, and time pays it', () => {
    const order = (waitMs: number) => {
      const lanes = newLanes()
      lanes.push(job('dear', 10_000, { client: 'a' }))
      lanes.done(lanes.next(idle)![0]!, 100_000)
      clock += waitMs
      for (const client of ['a', 'b', 'b']) lanes.push(job('dear', 10_000, { client }))
      return [1, 2, 3].map(() => lanes.next(idle)![0]!.client).join('')
    }
    expect([order(0), order(200)]).toEqual(['bba', 'abb'])
  })

  test('a thousand addresses cost a call no more than one does, about', () => {
    const msOf = (addresses: number) => {
      const lanes = newLanes({ callQueue: 1e6 })
      const start = performance.now()
      for (let index = 0; index < 50_000; index++)
        lanes.push(job('light', 20, { client: String(index % addresses) }))
      while (lanes.size > 0) for (const one of lanes.next(idle)!) lanes.done(one, 25)
      return performance.now() - start
    }
    msOf(1)
    expect(msOf(1_000)).toBeLessThan(20 * msOf(1) + 200)
  })

  test('each queue is bounded, the lanes of calls together', () => {
    const calls = LANE_NAMES.filter((lane) => LANES[lane].queue === 'callQueue')
    const single = Object.fromEntries(LANE_NAMES.map((lane) => [LANES[lane].queue, 1]))
    const lanes = newLanes({ ...single, callQueue: calls.length })
    expect(calls.map((lane) => lanes.push(job(lane)))).toEqual(calls.map(() => []))
    const next = LANE_NAMES.map((lane) => job(lane))
    expect(next.map((one) => lanes.push(one).includes(one))).toEqual(
      LANE_NAMES.map((lane) => calls.includes(lane)),
    )
    expect(lanes.remove(({ lane }) => lane === 'medium').length).toBe(1)
    expect(lanes.push(job('light'))).toEqual([])
    expect(lanes.size).toBe(LANE_NAMES.length)
  })

  test('in a full queue the newest of who has most makes place, not those who have as much', () => {
    const lanes = newLanes({ callQueue: 4 })
    const own = [1, 2, 3, 4].map(() => job('dear'))
    for (const one of own) expect(lanes.push(one)).toEqual([])
    const one = job('light')
    expect(lanes.push(one)).toEqual([one])
    expect(lanes.push(job('light', 100, { client: 'b' }))).toEqual([own[3]])
    expect(lanes.push(job('light', 100, { client: 'b' }))).toEqual([own[2]])
    const third = job('light', 100, { client: 'b' })
    expect(lanes.push(third)).toEqual([third])
    // Of three who have two, one and one, as a fourth comes.
    expect(lanes.push(job('light', 100, { client: 'c' })).length).toBe(1)
    const last = job('light', 100, { client: 'd' })
    expect(lanes.push(last).map(({ client }) => client)).toEqual(['b'])
    expect(lanes.size).toBe(4)
  })

  test('nobody makes place for what has none all the same, and each is told its limit', () => {
    const lanes = newLanes({ callQueue: 4, callQueueBytes: 100 })
    const own = [10, 10, 10, 60].map((bytes) => job('light', 100, { bytes }))
    for (const one of own) expect(lanes.push(one)).toEqual([])
    // One of the four would go, and the bytes of no three are enough.
    const large = job('light', 100, { client: 'b', bytes: 101 })
    expect(lanes.pushFor(large)).toEqual([{ job: large, limit: 'callQueueBytes' }])
    expect(lanes.size).toBe(4)
    const same = job('light', 100, { client: 'c', bytes: 95 })
    expect(lanes.pushFor(same)).toEqual([{ job: same, limit: 'callQueueBytes' }])
    const small = job('light', 100, { client: 'b', bytes: 20 })
    expect(lanes.pushFor(small)).toEqual([{ job: own[3], limit: 'callQueue' }])
    const next = job('light', 100, { client: 'd', bytes: 5 })
    expect(lanes.pushFor(next)).toEqual([{ job: own[2], limit: 'callQueue' }])
    // Their places in their turns are as they were.
    const order = lanes.next(idle)!
    expect(order).toEqual([own[0], own[1], small, next])
  })

  test('the bytes of what waits and of what runs are bounded together', () => {
    const bounded = fc.array(
      fc.record({
        client: fc.constantFrom('a', 'b', 'c'),
        lane: fc.constantFrom(...LANE_NAMES),
        bytes: fc.integer({ min: 0, max: 60 }),
        isRun: fc.boolean(),
      }),
    )
    fc.assert(
      fc.property(bounded, (steps) => {
        const lanes = newLanes({ callQueueBytes: 100, callQueue: 5 })
        const held = new Set<Job>()
        const running: Job[] = []
        for (const { client, lane, bytes, isRun } of steps) {
          const one = job(lane, 100, { client, bytes })
          held.add(one)
          const out = lanes.push(one)
          if (out.includes(one)) expect(out).toEqual([one])
          for (const other of out) expect(held.delete(other)).toBe(true)
          if (isRun) running.push(...(lanes.next(idle) ?? []))
          const sum = [...held].reduce((total, other) => total + other.bytes, 0)
          expect(sum).toBeLessThanOrEqual(100)
          expect(lanes.size + running.length).toBe(held.size)
          if (running.length > 3)
            for (const ended of running.splice(0)) {
              lanes.done(ended, 100)
              held.delete(ended)
            }
        }
      }),
    )
    const lanes = newLanes({ callQueueBytes: 100 })
    const small = job('light', 100, { client: 'b', bytes: 5 })
    lanes.push(job('dear', 100, { bytes: 60 }))
    lanes.push(job('dear', 100, { bytes: 40 }))
    expect(lanes.push(small)).toMatchObject([{ bytes: 40 }])
    const large = job('dear', 100, { bytes: 80 })
    expect(lanes.push(large)).toEqual([large])
  })
})

test('what waits too long is told so by the clock that was given', () => {
  let clock = 1_000
  const replies: PoolReply[] = []
  const queue = new JobQueue(DEFAULT_LIMITS, 2, () => clock)
  const call = { ...poolCall('echo'), deadline: clock + DEFAULT_LIMITS.callMs }
  const prediction = createCosts(() => clock).classify(call, 'a')
  queue.push({
    ...{ call, prediction, client: 'a', lane: prediction.lane, predicted: 100, bytes: 1 },
    ...{ queuedAt: 1_100, startedAt: undefined, record: 0, isAnswered: false },
    ...{ isSecondTry: false, isPutBack: false, answer: (reply) => void replies.push(reply) },
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

describe('a call that would wait for longer than it may', () => {
  /** Calls of 100 ms each, known as such unless `knownUs` says otherwise. */
  const newQueue = () => {
    const replies: PoolReply[] = []
    const queue = new JobQueue(DEFAULT_LIMITS, 2, () => 0)
    const admit = (client: string, knownUs: number | undefined = 100_000) => {
      const call = { ...poolCall('echo', { address: client }), deadline: DEFAULT_LIMITS.callMs }
      const lane = LANE_NAMES.find((name) => LANES[name].runs === 'call' && LANES[name].isLong)!
      const prediction = createCosts(() => 0).classify(call, client)
      return queue.admit({
        ...{ call, prediction, client, lane, predicted: 100_000, knownUs, bytes: 1 },
        ...{ queuedAt: 0, startedAt: undefined, record: 0, isAnswered: false },
        ...{ isSecondTry: false, isPutBack: false, answer: (reply) => void replies.push(reply) },
      })
    }
    const admitted = (count: number, client: string, knownUs?: number) =>
      Array.from({ length: count }, () => admit(client, knownUs)).filter(Boolean).length
    return { admit, admitted, queue, replies }
  }

  test('is refused at once and told when to come again', () => {
    const { admitted, replies } = newQueue()
    // Two workers do 100 of them in the five seconds that a call may take: the 101st begins in time.
    expect(admitted(103, 'a')).toBe(101)
    const data = { reason: 'overloaded', retryAfterMs: 200 }
    expect(replies).toMatchObject([{ error: { code: -32_005, data } }, { error: { data } }])
  })
  test('only by what its own address has waiting, and its turns with others', () => {
    const { admit, admitted } = newQueue()
    expect(admitted(101, 'a')).toBe(101)
    expect(admit('b')).toBe(true)
    // What b has before it, a has done of its own meanwhile as well.
    expect(admitted(103, 'b')).toBe(50)
  })
  test('is taken where nobody knows what takes so long', () => {
    const { admitted, queue } = newQueue()
    expect(admitted(300, 'a', 0)).toBe(300)
    expect(queue.size).toBe(300)
  })
  test('is taken again when enough of the others have gone', () => {
    const { admit, admitted, queue } = newQueue()
    expect(admitted(102, 'a')).toBe(101)
    const load = { threads: 2, free: 2, tasksOf: () => 0, long: 0, longOf: () => 0 }
    expect(queue.take(load)).toHaveLength(1)
    expect(admit('a')).toBe(true)
    expect(admit('a')).toBe(false)
  })
})

describe('costs', () => {
  const token = { to: `0x${'a'.repeat(40)}`, data: '0x70a08231000000', gas: '0x5208' }
  const call = (request: object) => poolCall('eth_call', { params: [request] })
  let clock = 0
  const newCosts = () => createCosts(() => clock)
  /** Seen so often. */
  const learn = (
    costs: ReturnType<typeof newCosts>,
    prediction: Prediction,
    ...seen: (readonly [times: number, micros: number])[]
  ) => {
    for (const [times, micros] of seen)
      for (let index = 0; index < times; index++) costs.learn(prediction, micros)
  }

  test('are learned per contract and selector, for everybody', () => {
    const costs = newCosts()
    const first = costs.classify(call(token), 'a')
    expect(first.lane).toBe('unsure')
    costs.learn(first, 50_000)
    expect(costs.classify(call({ ...token, data: `${token.data}ff` }), 'b').lane).toBe('dear')
    expect(costs.classify(call({ ...token, data: '0x12345678' }), 'b').lane).toBe('unsure')
    const known = costs.classify(call(token), 'a')
    learn(costs, known, [8, 1_000])
    expect(costs.classify(call(token), 'b').lane).toBe('medium')
    learn(costs, known, [16, 20])
    expect(costs.classify(call(token), 'b').lane).toBe('light')
  })

  test('of an address with experience of its own are not what others make of it', () => {
    const costs = newCosts()
    learn(costs, costs.classify(call(token), 'a'), [1, 20])
    learn(costs, costs.classify(call(token), 'b'), [20, 2_000_000])
    expect(costs.classify(call(token), 'a').lane).toBe('light')
    expect(costs.classify(call(token), 'b').lane).toBe('dear')
    expect(costs.classify(call(token), 'c').lane).toBe('dear')
  })

  test('of code that a caller brings say nothing about those of others', () => {
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
      expect(classify('a').lane).toBe('light')
      expect(classify('b').lane).toBe('unsure')
    }
    expect(costs.classify(call(token), 'a').lane).toBe('unsure')
  })

  test('one slow run among quick ones changes little, many do, and so does a very slow one', () => {
    const costs = newCosts()
    const unknown = costs.classify(call(token), 'a')
    learn(costs, unknown, [1, 20])
    const lane = () => costs.classify(call(token), 'a').lane
    const known = costs.classify(call(token), 'a')
    for (let round = 0; round < 50; round++) {
      learn(costs, known, [9, 20], [1, 60_000])
      expect(lane()).toBe('light')
    }
    learn(costs, known, [16, 60_000])
    expect(lane()).toBe('dear')
    learn(costs, known, [40, 20])
    expect(lane()).toBe('light')
    costs.learn({ ...known, expected: 'long' }, 2_000_000)
    expect(lane()).toBe('dear')
  })

  test('unknown with much gas is dear', () => {
    const costs = newCosts()
    expect(costs.classify(call({ ...token, gas: '0x2faf080' }), 'a').lane).toBe('dear')
    expect(costs.classify(call({ to: token.to, data: token.data }), 'a').lane).toBe('dear')
    expect(costs.classify(call(token), 'a').lane).toBe('unsure')
  })

  test('unknown of an address whose unknown calls were dear lately is dear, and only of that', () => {
    const costs = newCosts()
    const other = (selector: number) => call({ ...token, data: `0x${selector}` })
    costs.learn(costs.classify(other(10_000_000), 'a'), 5_000_000)
    for (let index = 0; index < 10; index++)
      costs.learn(costs.classify(other(20_000_000 + index), 'a'), 50)
    expect(costs.classify(other(30_000_000), 'a')).toMatchObject({ lane: 'dear' })
    expect(costs.classify(other(30_000_000), 'b')).toMatchObject({ lane: 'unsure' })
    clock += 60_000
    expect(costs.classify(other(30_000_000), 'a')).toMatchObject({ lane: 'unsure' })
  })

  test('known as light are doubted where they surprised, for a while, and only of that address', () => {
    const costs = newCosts()
    learn(costs, costs.classify(call(token), 'a'), [3, 20])
    learn(costs, costs.classify(call({ ...token, data: '0x1' }), 'a'), [3, 20])
    costs.learn(costs.classify(call(token), 'a'), 5_000_000)
    expect(costs.classify(call({ ...token, data: '0x1' }), 'a').lane).toBe('unsure')
    expect(costs.classify(call({ ...token, data: '0x1' }), 'b').lane).toBe('light')
    clock += 60_000
    expect(costs.classify(call({ ...token, data: '0x1' }), 'a').lane).toBe('light')
  })

  test('of a call that was stopped are at least what it took', () => {
    const costs = newCosts()
    costs.learn(costs.classify(call(token), 'a'), 100, true)
    expect(costs.classify(call(token), 'a').expected).toBe('unknown')
    costs.learn(costs.classify(call(token), 'a'), 30_000, true)
    expect(costs.classify(call(token), 'a')).toMatchObject({ lane: 'dear', predicted: 100_000 })
  })

  test('whatever the parameters are', () => {
    const costs = newCosts()
    fc.assert(
      fc.property(fc.array(fc.jsonValue(), { maxLength: 3 }), (params) => {
        expect(['unsure', 'dear']).toContain(costs.classify(poolCall('x', { params }), 'a').lane)
      }),
    )
  })
})

describe('memory', () => {
  const callOf = fc.record({
    method: fc.stringMatching(/^[a-z_]{1,40}$/),
    text: fc.oneof(fc.string({ unit: 'binary' }), fc.constant('ä'.repeat(TASK_BYTES / 3))),
    endpoint: fc.constantFrom('standard' as const, 'flashblocks' as const),
    record: fc.option(fc.integer({ min: 1, max: 2 ** 30 }), { nil: undefined }),
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
    fc.record({ record: fc.integer({ min: 1, max: 2 ** 31 - 1 }), pending }),
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
    fc
      .tuple(fc.string({ unit: 'grapheme-ascii' }), reads, from)
      .map(([text, told, read]) => ({ result: JSON.stringify(text), reads: told, ...read })),
    reads.map((told) => ({ result: `"${'x'.repeat(TASK_BYTES / 3)}"`, reads: told })),
    fc.constant({ stale: true as const }),
    fc.tuple(fc.nat(), from).map(([written, read]) => ({ written, ...read })),
    fc
      .tuple(fc.array(fc.uint8Array({ minLength: 1 }), { minLength: 1 }), from)
      .map(([pieces, read]) => ({ pieces, ...read })),
    fc.tuple(fc.string({ unit: 'binary' }), reads, from).map(([message, told, read]) => ({
      error: { code: -32000, message: message.toWellFormed() },
      reads: told,
      ...read,
    })),
  )

  test('gives back every call and every reply', () => {
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
          // What was read is told where there is room for it.
          const isUntold = 'reads' in reply && 'reads' in read && read.reads === undefined
          expect(read).toEqual(isUntold ? { ...reply, reads: undefined } : reply)
          if (index === 0)
            expect(isUntold && 'reads' in reply && reply.reads).not.toBeTypeOf('object')
          expect(microsOf(memory, index)).toBe(index)
        }
      }),
      { numRuns: 40 },
    )
  })

  test('a cancelled call is the only one', () => {
    const memory = createTaskMemory()
    const call = {
      method: 'x',
      text: '',
      endpoint: 'standard' as const,
      record: 1,
      deadline: 0,
      wantsReads: false,
    }
    writeCalls(memory, [call, call])
    cancelCall(memory, 1)
    expect([isCancelled(memory, 0), isCancelled(memory, 1)]).toEqual([false, true])
  })
})
