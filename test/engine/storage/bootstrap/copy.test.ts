/**
 * A chain goes on while it is copied. Whatever happens between two responses, the copy has the
 * source's state at each block, or is refused.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { ChunkError } from '../../../../engine/storage/bootstrap/chunk.ts'
import {
  blocksFrom,
  type Copy,
  ForkError,
  GapError,
} from '../../../../engine/storage/bootstrap/copy.ts'
import { StateRootError } from '../../../../engine/storage/bootstrap/made-state.ts'
import { BootstrapError } from '../../../../engine/storage/bootstrap/progress.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'
import type { Database } from '../../../../engine/storage/database/types.ts'
import {
  CopiedChain,
  copyStep,
  finishCopy,
  openCopyOf,
  tipStep,
} from '../../../fixtures/copied-chain.ts'
import {
  actionsOf,
  GENESIS_NUMBER,
  hex,
  stateAt,
  worldState,
} from '../../../fixtures/persistence-chain.ts'

const grow = (chain: CopiedChain, blocks: number) => {
  for (let at = 0; at < blocks; at++) {
    chain.append(actionsOf(chain.chain.length))
    chain.settle()
  }
}

function expectEqual(chain: CopiedChain, database: Database, oldest = GENESIS_NUMBER): void {
  const store = openStore(database)
  const head = store.persistedHead()
  for (const { number, hash, world } of chain.chain) {
    if (number > head.number) break
    expect(hex(store.hashOfNumber(number)!)).toBe(hex(hash))
    if (number >= oldest) expect(stateAt(store, number)).toEqual(worldState(world))
  }
  const trie = store.trieAt(head.hash, { blocks: 0, bytes: 0 })
  expect(hex(trie.stateRoot)).toBe(hex(chain.chain[head.number - GENESIS_NUMBER]!.stateRoot))
}

/** Copies up to the end. */
function copyAll(chain: CopiedChain, database: Database): void {
  const copy = openCopyOf(chain, database)
  while (copyStep(chain, copy));
  finishCopy(copy, database)
}

const event = fc.oneof(
  { weight: 8, arbitrary: fc.constant('ask' as const) },
  { weight: 5, arbitrary: fc.constant('fold' as const) },
  { weight: 2, arbitrary: fc.constant('append' as const) },
  { weight: 3, arbitrary: fc.constant('tip' as const) },
  { weight: 1, arbitrary: fc.constant('kill' as const) },
)

test('a copy is right with any blocks, persist passes and kills between responses', () => {
  fc.assert(
    fc.property(
      fc.array(event, { maxLength: 120 }),
      fc.integer({ min: 60, max: 600 }),
      (events, chunkBytes) => {
        const chain = new CopiedChain(memoryDatabase(), { chunkBytes })
        grow(chain, 8)
        const database = memoryDatabase()
        let copy = openCopyOf(chain, database)
        for (const now of events) {
          if (now === 'append') chain.append(actionsOf(chain.chain.length))
          else if (now === 'fold') chain.step()
          else if (now === 'kill') copy = openCopyOf(chain, database)
          else if (now === 'ask') copyStep(chain, copy)
          // The undo window is short here, while a node has hundreds of blocks.
          if (now === 'tip' || chain.persisted - copy.progress()!.tip.number > 6)
            while (tipStep(chain, copy));
        }
        chain.settle()
        while (copyStep(chain, copy)) while (tipStep(chain, copy));
        finishCopy(copy, database)
        expect(openStore(database).persistedHead().number).toBe(copy.progress()!.tip.number)
        expectEqual(chain, database)
      },
    ),
    { numRuns: 60 },
  )
})

test('a copy resumes after a long break and skips what checksums show as unchanged', () => {
  const chain = new CopiedChain(memoryDatabase(), { chunkBytes: 120 })
  grow(chain, 6)
  const database = memoryDatabase()
  const copy = openCopyOf(chain, database)
  for (let at = 0; at < 9; at++) copyStep(chain, copy)
  grow(chain, 40)
  expect(() => tipStep(chain, copy)).toThrow(GapError)
  const { start, oldestState } = chain.about()
  copy.restart({ start, oldest: oldestState })
  let same = 0
  const count = (
    _: unknown,
    chunk: Parameters<Copy['takeRows']>[1] | { head: Record<string, unknown> },
  ) => {
    if ('head' in chunk && chunk.head['isSame'] === true) same++
    return chunk as never
  }
  while (copyStep(chain, copy, count));
  finishCopy(copy, database)
  expectEqual(chain, database)
  expect(same).toBeGreaterThan(0)
})

test('a copy of a source with limited history has the same history', () => {
  const chain = new CopiedChain(memoryDatabase(), { historyBlocks: 14 })
  grow(chain, 60)
  const database = memoryDatabase()
  copyAll(chain, database)
  const oldest = openStore(database).oldestState()
  expect(oldest).toBe(openStore(chain.database).oldestState())
  expectEqual(chain, database, oldest)
})

describe('a copy refuses', () => {
  const started = () => {
    const chain = new CopiedChain()
    grow(chain, 20)
    const database = memoryDatabase()
    return { chain, database, copy: openCopyOf(chain, database) }
  }
  /** Copies until the spoiler reports a change. */
  function spoiled(
    change: (
      chunk: { rows: { key: Uint8Array; value: Uint8Array }[] },
      request: { part: string; column?: string },
    ) => boolean,
  ) {
    const { chain, database, copy } = started()
    let isDone = false
    while (
      copyStep(chain, copy, (request, chunk) => {
        if (isDone) return chunk
        const rows = chunk.rows.map(({ key, value }) => ({
          key: key.slice(),
          value: value.slice(),
        }))
        isDone = change({ rows }, request)
        return isDone ? { ...chunk, rows: rows as never } : chunk
      })
    );
    expect(isDone).toBe(true)
    finishCopy(copy, database)
  }
  const rowsOf =
    (column: string) =>
    (request: { part: string; column?: string }, rows: readonly unknown[], min = 1) =>
      request.part === 'rows' && request.column === column && rows.length >= min

  test('a row that is out of order', () =>
    expect(() =>
      spoiled(({ rows }, request) => {
        if (!rowsOf('accounts')(request, rows, 2)) return false
        rows.reverse()
        return true
      }),
    ).toThrow(ChunkError))
  test('a key or a value of another length', () => {
    for (const field of ['key', 'value'] as const)
      expect(() =>
        spoiled(({ rows }, request) => {
          if (!rowsOf('slots')(request, rows)) return false
          rows[0] = { ...rows[0]!, [field]: new Uint8Array(7) }
          return true
        }),
      ).toThrow(ChunkError)
  })
  test('history of a block that was not requested', () =>
    expect(() =>
      spoiled(({ rows }, request) => {
        if (!rowsOf('accountHistory')(request, rows)) return false
        rows.at(-1)!.key.fill(0x7f, 22)
        return true
      }),
    ).toThrow(ChunkError))
  test('code with another hash', () =>
    expect(() =>
      spoiled(({ rows }, request) => {
        if (!rowsOf('code')(request, rows)) return false
        rows[0]!.value[0]! ^= 1
        return true
      }),
    ).toThrow(ChunkError))
  test('a header, a body or receipts that are not those of the chain', () => {
    for (const kind of [1, 2, 4])
      expect(
        () =>
          spoiled(({ rows }, request) => {
            const row = rows.find(({ key }) => key[0] === kind)
            if (request.part !== 'blocks' || row === undefined) return false
            row.value[row.value.length - 1]! ^= 1
            return true
          }),
        String(kind),
      ).toThrow(ChunkError)
  })
  test('a changed balance, by the root of the state', () =>
    expect(() =>
      spoiled(({ rows }, request) => {
        if (!rowsOf('accounts')(request, rows)) return false
        rows[0]!.value[39]! ^= 1
        return true
      }),
    ).toThrow(StateRootError))
  test('a state without one account, by its root', () =>
    expect(() =>
      spoiled(({ rows }, request) => {
        if (!rowsOf('accounts')(request, rows)) return false
        rows.shift()
        return true
      }),
    ).toThrow(StateRootError))

  test('a chain that differs from the one of its start', () => {
    const { copy } = started()
    const other = new CopiedChain()
    for (let at = 0; at < 20; at++) {
      other.append(actionsOf(at + 100))
      other.settle()
    }
    expect(() => tipStep(other, copy)).toThrow(ForkError)
    expect(() => {
      for (let from = GENESIS_NUMBER; ; from = blocksFrom(copy.progress()!)!)
        copy.takeBlocks(other.request({ part: 'blocks', from }).rows, from)
    }).toThrow(BootstrapError)
  })
})

test('a refused state is copied again', () => {
  const chain = new CopiedChain()
  grow(chain, 20)
  const database = memoryDatabase()
  const copy = openCopyOf(chain, database)
  while (copyStep(chain, copy));
  const [row] = database.range('accounts', {
    gte: new Uint8Array(0),
    lt: new Uint8Array(21).fill(255),
    limit: 1,
  })
  const batch = database.batch()
  batch.delete('accounts', row!.key)
  batch.commit()
  expect(() => finishCopy(copy, database)).toThrow(StateRootError)
  copy.forgetState()
  while (copyStep(chain, copy));
  finishCopy(copy, database)
  expectEqual(chain, database)
})

test('a copy continues after a cut while it builds state or persists blocks', () => {
  for (let cut = 0, isCut = true; isCut; cut++) {
    const chain = new CopiedChain()
    grow(chain, 12)
    const database = memoryDatabase()
    let copy = openCopyOf(chain, database)
    while (copyStep(chain, copy));
    grow(chain, 4)
    while (tipStep(chain, copy));
    isCut = !finishCopy(copy, database, cut)
    copy = openCopyOf(chain, database)
    if (isCut) expect(finishCopy(copy, database)).toBe(true)
    expectEqual(chain, database)
    expect(openStore(database).persistedHead().number).toBe(chain.persisted)
  }
})

test('a copy checks again what its source changed in a reorg', () => {
  const chain = new CopiedChain(memoryDatabase(), { chunkBytes: 200 })
  grow(chain, 16)
  const database = memoryDatabase()
  const copy = openCopyOf(chain, database)
  for (let at = 0; at < 12; at++) copyStep(chain, copy)
  while (tipStep(chain, copy));
  const { tip } = copy.progress()!
  const to = tip.number - 2
  chain.reorg(to)
  for (let at = 0; at < 6; at++) {
    chain.append(actionsOf(at + 500))
    chain.settle()
  }
  expect(() => tipStep(chain, copy)).toThrow(ForkError)
  copy.goBack({ number: to, hash: chain.chain[to - GENESIS_NUMBER]!.hash })
  while (copyStep(chain, copy));
  finishCopy(copy, database)
  expectEqual(chain, database)
})
