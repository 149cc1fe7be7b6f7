/** What clients may hold, over cells: exact to one place, whoever takes it and whenever a cell ends. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import { openOwnCaps } from '../../../rpc/seam/caps.ts'
import {
  type CapsMemory,
  capsOfEnded,
  createCapsMemory,
  type OpenCaps,
  openSharedCaps,
} from '../../../rpc/seam/shared-caps.ts'
import { checkCaps } from '../../fixtures/caps-model.ts'
import {
  type CapsSeen,
  type CapsThread,
  CONTROL_WORDS,
  THREAD_CLIENTS,
  THREAD_LIMITS,
} from '../../fixtures/caps-thread.ts'
import { type Edit, editedEnv, editedExecArgv } from '../../kit/edits.ts'

const THREADS = 3
const TAKES = 20_000
const ENDED = 10

const oneCell = (): OpenCaps => openSharedCaps(createCapsMemory({ rows: 10, cells: 1 }), 0)

describe.each([
  ['of a front alone', () => openOwnCaps],
  ['of one cell', oneCell],
])('caps %s', (_, open) => {
  /** A letter is a client that takes; a digit gives back what came at that place of the text; what is given is + and what is refused −. */
  const cases: [name: string, limits: [number, number], steps: string, said: string][] = [
    ['bound each client', [2, 9], 'aaab', '++-+'],
    ['bound all', [9, 3], 'aabc', '+++-'],
    ['have a place again that came back', [1, 9], 'aa0a', '+-+'],
    ['take a place back once', [2, 9], 'aa00aa', '+++-'],
    ['of none are none', [0, 9], 'a', '-'],
    ['of none of all are none', [9, 0], 'a', '-'],
    ['without a bound are given', [Infinity, Infinity], 'aaaa', '++++'],
  ]
  test.each(cases)('%s', (_name, [perClient, total], steps, said) => {
    const caps = open()('filters', { perClient, total })
    const places = new Map<number, (() => void) | undefined>()
    for (const [at, step] of [...steps].entries()) {
      if (/\d/.test(step)) places.get(Number(step))?.()
      else places.set(at, caps.take(step))
    }
    const found = [...places.values()].map((place) => (place === undefined ? '-' : '+'))
    expect(found.join('')).toBe(said)
    expect(caps.here).toBe(caps.total)
  })
})

describe('cells', () => {
  const limits = { perClient: 2, total: 3 }
  const openCells = (cells: number, rows = 10) => {
    const memory = createCapsMemory({ rows, cells })
    const open = Array.from({ length: cells }, (_, cell) => openSharedCaps(memory, cell))
    return { memory, open, filters: open.map((one) => one('filters', limits)) }
  }

  test('count a client together, and all', () => {
    const { filters } = openCells(3)
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
    expect(filters.map(({ here }) => here)).toEqual([0, 2, 1])
    expect(filters.map(({ total }) => total)).toEqual([3, 3, 3])
  })

  test('count each kind for itself', () => {
    const { open, filters } = openCells(2)
    const holds = open[1]!('holds', { perClient: 1, total: 1 })
    for (const client of ['a', 'a', 'b']) expect(filters[0]!.take(client)).toBeTypeOf('function')
    expect(holds.total).toBe(0)
    expect(holds.take('a')).toBeTypeOf('function')
    expect(holds.take('b')).toBe(undefined)
  })

  test('give nothing where no row is free, and again when one is', () => {
    const { filters } = openCells(2, 2)
    const giveBack = filters[0]!.take('a')
    filters[1]!.take('b')
    expect(filters[0]!.take('c')).toBe(undefined)
    expect(filters[0]!.total).toBe(2)
    giveBack!()
    expect(filters[1]!.take('c')).toBeTypeOf('function')
  })

  test('are those that the memory is for', () => {
    const { memory } = openCells(2)
    for (const cell of [-1, 2, 0.5])
      expect(() => openSharedCaps(memory, cell)).toThrow(`cell ${cell} of 2`)
  })
})

test('any history of takes, gives and ends is that of plain counts', () => checkCaps(500))

const newThread = (name: string, workerData: object, edits: readonly Edit[]): Worker => {
  const file = new URL(`../../fixtures/${name}.ts`, import.meta.url)
  const build = edits.length === 0 ? {} : { execArgv: [...editedExecArgv], env: editedEnv(edits) }
  return new Worker(file, { workerData, ...build })
}
const newControl = () => new Int32Array(new SharedArrayBuffer(4 * CONTROL_WORDS))

/** What threads at random do wrong together. @param kept a cell beside them has so many of each, so that no row comes or goes */
async function faultsOfThreads(seed: number, kept: 0 | 1, edits: readonly Edit[] = []) {
  const memory = createCapsMemory({ rows: 2 * THREAD_CLIENTS.length, cells: THREADS + 1 })
  const open = openSharedCaps(memory, THREADS)
  const both = (['filters', 'holds'] as const).map((kind) => open(kind, THREAD_LIMITS[kind]))
  const own = both.flatMap((caps) =>
    THREAD_CLIENTS.slice(0, kept * THREAD_CLIENTS.length).map((client) => caps.take(client)),
  )
  const shared = { memory, control: newControl(), threads: THREADS, kept, takes: TAKES }
  const seen = await Promise.all(
    Array.from({ length: THREADS }, async (_, cell) => {
      const data: CapsThread = { ...shared, cell, seed: seed + cell }
      return (await once(newThread('caps-thread', data, edits), 'message'))[0] as CapsSeen
    }),
  )
  const filled = seen[0]!.filled.map((_, at) =>
    seen.reduce<number>((sum, { filled }) => sum + filled[at]!, kept),
  )
  const filters = filled.slice(0, THREAD_CLIENTS.length)
  const holds = filled.slice(THREAD_CLIENTS.length)
  for (const giveBack of own) giveBack?.()
  const sum = (list: readonly number[]) => list.reduce((all, one) => all + one, 0)
  const found = {
    'a client has too many': sum(seen.map(({ over }) => over)) > 0,
    'a client has too many of the last': filters.some(
      (one) => one > THREAD_LIMITS.filters.perClient,
    ),
    'not all that all may have': sum(filters) !== THREAD_LIMITS.filters.total,
    'not all that each may have': holds.some((one) => one !== THREAD_LIMITS.holds.perClient),
    'something is left': both.some(({ total }) => total !== 0),
  }
  return Object.entries(found).flatMap(([fault, isSo]) => (isSo ? [fault] : []))
}

test('over threads nobody has too many, and every place is given', async () => {
  for (const seed of [100, 200]) {
    expect(await faultsOfThreads(seed, 0)).toEqual([])
    expect(await faultsOfThreads(seed, 1)).toEqual([])
  }
})

test('without the lock they have, and are not', async () => {
  const edits = [
    {
      file: 'rpc/seam/shared-rows.ts',
      find: 'let seen = Atomics.compareExchange(head, LOCK, OPEN, own)',
      replace: 'let seen = OPEN',
    },
    // Between the look and the count another thread has time for its own.
    {
      file: 'rpc/seam/shared-caps.ts',
      find: '      const row = known ?? rows.add(client)\n',
      replace: `      for (let n = 0; n < 500; n++) Atomics.load(rows.head, 0)
      const row = known ?? rows.add(client)\n`,
    },
  ]
  expect(await faultsOfThreads(1, 0, edits.slice(1))).toEqual([])
  const found: string[] = []
  // As often as it takes.
  for (let seed = 1; found.length === 0; seed += THREADS)
    found.push(...(await faultsOfThreads(seed, 1, edits)))
  expect(found).not.toEqual([])
})

/** All that a client of its own may have is there for it, and nothing of the others' is lost. */
function expectOnly(memory: CapsMemory, cell: number, held: number): void {
  const caps = openSharedCaps(memory, cell)('filters', THREAD_LIMITS.filters)
  expect(caps.total).toBe(held)
  const { total } = THREAD_LIMITS.filters
  const places = Array.from({ length: total + 1 }, (_, n) => caps.take(`${n}`))
  expect(places.filter((place) => place !== undefined)).toHaveLength(total - held)
  for (const giveBack of places) giveBack?.()
}

test('threads that are ended at any moment give all back, and keep nobody out', async () => {
  const memory = createCapsMemory({ rows: 70, cells: 3 })
  const own = openSharedCaps(memory, 0)('filters', THREAD_LIMITS.filters)
  expect([own.take('10.0.0.1'), own.take('10.0.0.1'), own.take('10.0.0.2')]).not.toContain(
    undefined,
  )
  for (let ended = 0; ended < ENDED; ended += 2) {
    const running = [1, 2].map((cell) => {
      const data = {
        memory,
        control: newControl(),
        cell,
        threads: 1,
        kept: 0,
        takes: 0,
        seed: ended + cell,
      }
      const all: CapsThread = { ...data, isEndless: true }
      return { cell, control: data.control, worker: newThread('caps-thread', all, []) }
    })
    for (const { control } of running) {
      // It has begun: the moment in which it is ended is any.
      const { async: isLater, value } = Atomics.waitAsync(control, 0, 0)
      if (isLater) await value
    }
    await Promise.all(running.map(({ worker }) => worker.terminate()))
    // In any order: the one that has the lock may be told of last.
    for (const { cell } of running.toReversed()) capsOfEnded(memory, cell)
    expectOnly(memory, 0, 3)
  }
})

test('who waits for a cell that ended goes on', async () => {
  const memory = createCapsMemory({ rows: 10, cells: 4 })
  new Int32Array(memory.buffer)[0] = 2 * 4
  const data = { memory, control: newControl(), cell: 0, threads: 1, kept: 0, takes: 5, seed: 1 }
  const worker = newThread('caps-thread', data, [])
  const told = once(worker, 'message')
  // It comes there or not yet: either way it is let in.
  await once(worker, 'online')
  capsOfEnded(memory, 3)
  expect((await told)[0]).toMatchObject({ over: 0 })
})

/** Each of them is seen by the model. */
const MUTANTS: readonly (Edit & { readonly name: string })[] = [
  {
    name: 'a client has one more',
    file: 'rpc/seam/shared-caps.ts',
    find: 'rows.held(known) >= perClient',
    replace: 'rows.held(known) > perClient',
  },
  {
    name: 'a place comes back as often as it is given back',
    file: 'rpc/seam/shared-caps.ts',
    find: 'if (!isHeld) return\n',
    replace: '',
  },
  {
    name: 'the totals of an ended cell stay',
    file: 'rpc/seam/shared-caps.ts',
    find: 'Atomics.store(totals, at, 0)',
    replace: 'void totals',
  },
  {
    name: 'what clients had of an ended cell stays',
    file: 'rpc/seam/shared-caps.ts',
    find: '  rows.forgetCell()\n',
    replace: '',
  },
  {
    name: 'rows that an ended cell has left empty are not found',
    file: 'rpc/seam/shared-caps.ts',
    find: 'Atomics.store(new Int32Array(buffer), HAS_EMPTY, 1)',
    replace: 'void HAS_EMPTY',
  },
  {
    name: 'after an end inside, what the others have is forgotten as well',
    file: 'rpc/seam/shared-caps.ts',
    find: 'threadOf(cell), () => rows.mend())',
    replace: 'threadOf(cell), () => new Int32Array(buffer, 4).fill(0))',
  },
  {
    name: 'a kind takes the clients of another',
    file: 'rpc/seam/shared-caps.ts',
    find: 'HEAD_BYTES + 4 * 2 * kind, 2)',
    replace: 'HEAD_BYTES, 2)',
  },
]
test.each(MUTANTS)('a fault is found: $name', async (edit) => {
  const [{ fault }] = await once(newThread('caps-model', { capsRuns: 300 }, [edit]), 'message')
  expect(fault).toMatch(/(given|total|here|full): /)
})
