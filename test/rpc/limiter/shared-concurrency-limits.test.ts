/**
 * The concurrency limits of clients hold over front threads. They are exact to one permit, whoever
 * takes it and whenever a front thread ends.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import { openLocalConcurrencyLimit } from '../../../rpc/core/concurrency-limit.ts'
import {
  type ConcurrencyMemory,
  createConcurrencyMemory,
  type OpenConcurrencyLimit,
  openSharedConcurrencyLimits,
  releaseEndedConcurrency,
} from '../../../rpc/limiter/shared-concurrency-limits.ts'
import { checkConcurrencyLimits } from '../../fixtures/concurrency-model.ts'
import {
  CONTROL_WORDS,
  type ConcurrencySeen,
  type ConcurrencyThread,
  THREAD_CLIENTS,
  THREAD_LIMITS,
} from '../../fixtures/concurrency-thread.ts'
import { type Edit, editedEnv, editedExecArgv } from '../../kit/edits.ts'

const THREADS = 3
const TAKES = 20_000
const ENDED = 10

const oneFrontThread = (): OpenConcurrencyLimit =>
  openSharedConcurrencyLimits(createConcurrencyMemory({ rows: 10, frontThreads: 1 }), 0)

describe.each([
  ['without shared memory', () => openLocalConcurrencyLimit],
  ['with shared memory and one front thread', oneFrontThread],
])('concurrency limits %s', (_, open) => {
  /**
   * A letter is a take by a client; a digit gives back the take at that index of the text. The
   * result is + for a permit and − for a refusal.
   */
  const cases: [name: string, limits: [number, number], steps: string, said: string][] = [
    ['limit each client', [2, 9], 'aaab', '++-+'],
    ['limit all clients together', [9, 3], 'aabc', '+++-'],
    ['give a returned permit again', [1, 9], 'aa0a', '+-+'],
    ['count a return only once', [2, 9], 'aa00aa', '+++-'],
    ['give no permit at a client limit of 0', [0, 9], 'a', '-'],
    ['give no permit at a total limit of 0', [9, 0], 'a', '-'],
    ['give every permit without a limit', [Infinity, Infinity], 'aaaa', '++++'],
  ]
  test.each(cases)('give the expected permits: %s', (_name, [perClient, total], steps, said) => {
    const concurrencyLimits = open()('filters', { perClient, total })
    const permits = new Map<number, (() => void) | undefined>()
    for (const [at, step] of [...steps].entries()) {
      if (/\d/.test(step)) permits.get(Number(step))?.()
      else permits.set(at, concurrencyLimits.take(step))
    }
    const found = [...permits.values()].map((permit) => (permit === undefined ? '-' : '+'))
    expect(found.join('')).toBe(said)
    expect(concurrencyLimits.ownCount).toBe(concurrencyLimits.total)
  })
})

describe('front threads', () => {
  const limits = { perClient: 2, total: 3 }
  const openFrontThreads = (frontThreads: number, rows = 10) => {
    const memory = createConcurrencyMemory({ rows, frontThreads })
    const open = Array.from({ length: frontThreads }, (_, frontThread) =>
      openSharedConcurrencyLimits(memory, frontThread),
    )
    return { memory, open, filters: open.map((one) => one('filters', limits)) }
  }

  test('count permits together, per client and in total', () => {
    const { filters } = openFrontThreads(3)
    const [one, other, third] = filters
    const giveBack = one!.take('a')
    expect(other!.take('a')).toBeTypeOf('function')
    expect(third!.isFull('a')).toBe(true)
    expect(third!.take('a')).toBe(undefined)
    expect(third!.take('b')).toBeTypeOf('function')
    expect(other!.take('c')).toBe(undefined)
    giveBack!()
    expect(other!.isFull('a')).toBe(false)
    expect(other!.take('c')).toBeTypeOf('function')
    expect(filters.map(({ ownCount }) => ownCount)).toEqual([0, 2, 1])
    expect(filters.map(({ total }) => total)).toEqual([3, 3, 3])
  })

  test('count each kind separately', () => {
    const { open, filters } = openFrontThreads(2)
    const holds = open[1]!('holds', { perClient: 1, total: 1 })
    for (const client of ['a', 'a', 'b']) expect(filters[0]!.take(client)).toBeTypeOf('function')
    expect(holds.total).toBe(0)
    expect(holds.take('a')).toBeTypeOf('function')
    expect(holds.take('b')).toBe(undefined)
  })

  test('give no permit without a free row, until one is released', () => {
    const { filters } = openFrontThreads(2, 2)
    const giveBack = filters[0]!.take('a')
    filters[1]!.take('b')
    expect(filters[0]!.take('c')).toBe(undefined)
    expect(filters[0]!.total).toBe(2)
    giveBack!()
    expect(filters[1]!.take('c')).toBeTypeOf('function')
  })

  test('must be in the range of the memory', () => {
    const { memory } = openFrontThreads(2)
    for (const frontThread of [-1, 2, 0.5])
      expect(() => openSharedConcurrencyLimits(memory, frontThread)).toThrow(
        `front thread ${frontThread} of 2`,
      )
  })
})

test('any history of takes, returns and ends matches plain counts', () =>
  checkConcurrencyLimits(500))

const newThread = (name: string, workerData: object, edits: readonly Edit[]): Worker => {
  const file = new URL(`../../fixtures/${name}.ts`, import.meta.url)
  const build = edits.length === 0 ? {} : { execArgv: [...editedExecArgv], env: editedEnv(edits) }
  return new Worker(file, { workerData, ...build })
}
const newControl = () => new Int32Array(new SharedArrayBuffer(4 * CONTROL_WORDS))

/**
 * Lists the faults of threads that work at random.
 * @param retained permits that another front thread has of each, so that no row comes or goes
 */
async function faultsOfThreads(seed: number, retained: 0 | 1, edits: readonly Edit[] = []) {
  const memory = createConcurrencyMemory({
    rows: 2 * THREAD_CLIENTS.length,
    frontThreads: THREADS + 1,
  })
  const open = openSharedConcurrencyLimits(memory, THREADS)
  const both = (['filters', 'holds'] as const).map((kind) => open(kind, THREAD_LIMITS[kind]))
  const own = both.flatMap((concurrencyLimits) =>
    THREAD_CLIENTS.slice(0, retained * THREAD_CLIENTS.length).map((client) =>
      concurrencyLimits.take(client),
    ),
  )
  const shared = { memory, control: newControl(), threads: THREADS, retained, takes: TAKES }
  const seen = await Promise.all(
    Array.from({ length: THREADS }, async (_, frontThread) => {
      const data: ConcurrencyThread = { ...shared, frontThread, seed: seed + frontThread }
      return (
        await once(newThread('concurrency-thread', data, edits), 'message')
      )[0] as ConcurrencySeen
    }),
  )
  const filled = seen[0]!.filled.map((_, at) =>
    seen.reduce<number>((sum, { filled }) => sum + filled[at]!, retained),
  )
  const filters = filled.slice(0, THREAD_CLIENTS.length)
  const holds = filled.slice(THREAD_CLIENTS.length)
  for (const giveBack of own) giveBack?.()
  const sum = (list: readonly number[]) => list.reduce((all, one) => all + one, 0)
  const found = {
    'a client has too many permits': sum(seen.map(({ over }) => over)) > 0,
    'a client has too many of the last permits': filters.some(
      (one) => one > THREAD_LIMITS.filters.perClient,
    ),
    'not all permits of the total limit are given': sum(filters) !== THREAD_LIMITS.filters.total,
    'not all permits of a client limit are given': holds.some(
      (one) => one !== THREAD_LIMITS.holds.perClient,
    ),
    'a permit is never returned': both.some(({ total }) => total !== 0),
  }
  return Object.entries(found).flatMap(([fault, isSo]) => (isSo ? [fault] : []))
}

test('several threads never exceed the limits, and all permits can be taken', async () => {
  for (const seed of [100, 200]) {
    expect(await faultsOfThreads(seed, 0)).toEqual([])
    expect(await faultsOfThreads(seed, 1)).toEqual([])
  }
})

test('several threads exceed the limits without the lock', async () => {
  const edits = [
    {
      file: 'rpc/limiter/shared-rows.ts',
      find: 'let seen = Atomics.compareExchange(head, LOCK, OPEN, own)',
      replace: 'let seen = OPEN',
    },
    // Another thread can take permits between the check and the count.
    {
      file: 'rpc/limiter/shared-concurrency-limits.ts',
      find: '      const row = known ?? rows.add(client)\n',
      replace: `      for (let n = 0; n < 500; n++) Atomics.load(rows.head, 0)
      const row = known ?? rows.add(client)\n`,
    },
  ]
  expect(await faultsOfThreads(1, 0, edits.slice(1))).toEqual([])
  const found: string[] = []
  // The seeds are tried until one shows the fault.
  for (let seed = 1; found.length === 0; seed += THREADS)
    found.push(...(await faultsOfThreads(seed, 1, edits)))
  expect(found).not.toEqual([])
})

/** Checks that a new client can have all its permits, and that the others' permits still count. */
function expectOnly(memory: ConcurrencyMemory, frontThread: number, taken: number): void {
  const concurrencyLimits = openSharedConcurrencyLimits(memory, frontThread)(
    'filters',
    THREAD_LIMITS.filters,
  )
  expect(concurrencyLimits.total).toBe(taken)
  const { total } = THREAD_LIMITS.filters
  const permits = Array.from({ length: total + 1 }, (_, n) => concurrencyLimits.take(`${n}`))
  expect(permits.filter((permit) => permit !== undefined)).toHaveLength(total - taken)
  for (const giveBack of permits) giveBack?.()
}

test('threads that end at any moment return their permits and block no others', async () => {
  const memory = createConcurrencyMemory({ rows: 70, frontThreads: 3 })
  const own = openSharedConcurrencyLimits(memory, 0)('filters', THREAD_LIMITS.filters)
  expect([own.take('10.0.0.1'), own.take('10.0.0.1'), own.take('10.0.0.2')]).not.toContain(
    undefined,
  )
  for (let ended = 0; ended < ENDED; ended += 2) {
    const running = [1, 2].map((frontThread) => {
      const data = {
        memory,
        control: newControl(),
        frontThread,
        threads: 1,
        retained: 0,
        takes: 0,
        seed: ended + frontThread,
      }
      const all: ConcurrencyThread = { ...data, isEndless: true }
      return {
        frontThread,
        control: data.control,
        worker: newThread('concurrency-thread', all, []),
      }
    })
    for (const { control } of running) {
      // The thread has started, and may be ended at any moment.
      const { async: isLater, value } = Atomics.waitAsync(control, 0, 0)
      if (isLater) await value
    }
    await Promise.all(running.map(({ worker }) => worker.terminate()))
    // The thread with the lock may be reported last.
    for (const { frontThread } of running.toReversed()) releaseEndedConcurrency(memory, frontThread)
    expectOnly(memory, 0, 3)
  }
})

test('a thread that waits for the lock of an ended front thread continues', async () => {
  const memory = createConcurrencyMemory({ rows: 10, frontThreads: 4 })
  new Int32Array(memory.buffer)[0] = 2 * 4
  const data = {
    memory,
    control: newControl(),
    frontThread: 0,
    threads: 1,
    retained: 0,
    takes: 5,
    seed: 1,
  }
  const worker = newThread('concurrency-thread', data, [])
  const reported = once(worker, 'message')
  // The thread has reached the lock or not; either way it must go on.
  await once(worker, 'online')
  releaseEndedConcurrency(memory, 3)
  expect((await reported)[0]).toMatchObject({ over: 0 })
})

/** The model must detect each of these mutants. */
const MUTANTS: readonly (Edit & { readonly name: string })[] = [
  {
    name: 'a client has one more',
    file: 'rpc/limiter/shared-concurrency-limits.ts',
    find: 'rows.taken(known) >= perClient',
    replace: 'rows.taken(known) > perClient',
  },
  {
    name: 'a place comes back as often as it is given back',
    file: 'rpc/limiter/shared-concurrency-limits.ts',
    find: 'if (!isTaken) return\n',
    replace: '',
  },
  {
    name: 'the totals of an ended front thread stay',
    file: 'rpc/limiter/shared-concurrency-limits.ts',
    find: 'Atomics.store(totals, at, 0)',
    replace: 'void totals',
  },
  {
    name: 'what clients had of an ended front thread stays',
    file: 'rpc/limiter/shared-concurrency-limits.ts',
    find: '  rows.forgetFrontThread()\n',
    replace: '',
  },
  {
    name: 'rows that an ended front thread has left empty are not found',
    file: 'rpc/limiter/shared-concurrency-limits.ts',
    find: 'Atomics.store(new Int32Array(buffer), HAS_EMPTY, 1)',
    replace: 'void HAS_EMPTY',
  },
  {
    name: 'after an end inside, what the others have is forgotten as well',
    file: 'rpc/limiter/shared-concurrency-limits.ts',
    find: 'threadOf(frontThread), () => rows.mend())',
    replace: 'threadOf(frontThread), () => new Int32Array(buffer, 4).fill(0))',
  },
  {
    name: 'a kind takes the clients of another',
    file: 'rpc/limiter/shared-concurrency-limits.ts',
    find: 'HEAD_BYTES + 4 * 2 * kind, 2)',
    replace: 'HEAD_BYTES, 2)',
  },
]
test.each(MUTANTS)('the model finds this fault: $name', async (edit) => {
  const [{ fault }] = await once(
    newThread('concurrency-model', { concurrencyRuns: 300 }, [edit]),
    'message',
  )
  expect(fault).toMatch(/(given|total|here|full): /)
})
