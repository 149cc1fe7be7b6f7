/**
 * These tests read the source of modules whose memory is shared by threads. On x64 a plain access
 * between two atomic accesses happens to stay in order, but elsewhere it does not. No run on x64
 * can find such a mistake.
 */
import { globSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'

const root = new URL('../../', import.meta.url)
const sourceOf = (path: string): string =>
  readFileSync(new URL(path, root), 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')

/**
 * Every file of the engine that uses Atomics is listed with the rule that keeps its accesses in
 * order.
 * `turns`: readers compare a word before and after the read, and take no lock.
 * `published`: the data behind an atomic word is complete before the word is stored. The data does
 * not change while anybody may read it.
 * `words`: each atomic word is complete information by itself.
 */
const ORDER: Readonly<Record<string, 'turns' | 'published' | 'words'>> = {
  'engine/chain/reader.ts': 'words',
  'engine/storage/database/read-barrier.ts': 'words',
  'engine/txpool/shared/reader.ts': 'turns',
  'engine/txpool/shared/rows.ts': 'turns',
  'engine/txpool/shared/runs.ts': 'turns',
  'engine/txpool/shared/writer.ts': 'turns',
  'engine/views/arena.ts': 'words',
  'engine/views/cache.ts': 'turns',
  'engine/views/lease.ts': 'words',
  'engine/views/pages.ts': 'words',
  'engine/views/publisher.ts': 'words',
  'engine/views/reader.ts': 'words',
  'engine/views/chain-snapshot.ts': 'published',
  'engine/views/diff-layer.ts': 'published',
}

test('each file of the engine that uses Atomics is listed with its rule of order', () => {
  const found = globSync('engine/**/*.ts', { cwd: root }).filter((path) =>
    /\bAtomics\./.test(sourceOf(path)),
  )
  expect(found.sort()).toEqual(Object.keys(ORDER).sort())
})

/**
 * Finds accesses to shared arrays that do not go through Atomics. The keys and values of a query
 * belong to one thread.
 */
const plain = (source: string): string[] =>
  source
    .split('\n')
    .filter((line) => /\b(#?words|values|bounds|next|count|memory)\[/.test(line))
    .map((line) => line.trim())
const stores = (lines: readonly string[]): string[] =>
  lines.filter((line) => /\][!]? (=|\+=|-=) |\+\+(#?words|next)\[/.test(line))

describe('memory that is read without a lock', () => {
  test('has no plain access in the cache of the views', () => {
    expect(plain(sourceOf('engine/views/cache.ts'))).toEqual([])
  })

  test('has no plain read of rows, except of seeds that never change', () => {
    const [reader, writer] = sourceOf('engine/txpool/shared/rows.ts').split('  open(): number {')
    const ofReader = plain(reader!).filter((line) => !line.includes('[SEEDS + 2 * word'))
    expect(ofReader).toEqual([])
    // Words that only the writer reads belong to the writer.
    const ofWriter = stores(plain(writer!)).filter((line) => !/words\[(FREE|FRESH)\]/.test(line))
    expect(ofWriter).toEqual([])
  })

  test('has no plain read of runs', () => {
    const source = sourceOf('engine/txpool/shared/runs.ts')
    const reader = source.slice(source.indexOf('    after('), source.indexOf('    add('))
    expect(reader).toContain('isSame()')
    expect(plain(reader)).toEqual([])
    expect(stores(plain(source)).filter((line) => !/next\[(FREE|fresh)\]/.test(line))).toEqual([])
  })

  test('has no plain store of task fields that the front reads during the task', () => {
    const source = sourceOf('workers/pool/task-memory.ts')
    const reply = source.slice(source.indexOf('export function writeReply'))
    expect(reply).not.toMatch(/\[(line|lineOf\(index\)) \+ (STATUS|MICROS)\] =/)
  })
})

test('the search finds plain accesses and stores', () => {
  expect(plain('const count = words[entry + COUNT]!\nAtomics.load(words, at)')).toHaveLength(1)
  expect(stores(plain('words[at] = 1\nconst a = words[at]!\nnext[run] = first'))).toHaveLength(2)
})
