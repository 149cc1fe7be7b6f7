/**
 * Memory that threads share, read in the source: on x64 a plain access between two atomic ones happens to keep its place, and elsewhere it
 * does not, so that no run of a test on x64 finds it.
 */
import { globSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'

const root = new URL('../../', import.meta.url)
const sourceOf = (path: string): string =>
  readFileSync(new URL(path, root), 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')

/**
 * Every file of the engine that uses Atomics, by what keeps its accesses in order. `turns`: readers look at a word before and after, and
 * take no lock. `published`: what one atomic word leads to is complete before it, and is not changed while anybody may read it.
 * `words`: each atomic word says all.
 */
const ORDER: Readonly<Record<string, 'turns' | 'published' | 'words'>> = {
  'engine/chain/reader.ts': 'words',
  'engine/storage/database/gate.ts': 'words',
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
  'engine/views/record.ts': 'published',
  'engine/views/table.ts': 'published',
}

test('each file of the engine that uses Atomics says what keeps its accesses in order', () => {
  const found = globSync('engine/**/*.ts', { cwd: root }).filter((path) =>
    /\bAtomics\./.test(sourceOf(path)),
  )
  expect(found.sort()).toEqual(Object.keys(ORDER).sort())
})

/** Accesses of shared arrays that are no call of Atomics; keys and values of a question belong to one thread. */
const plain = (source: string): string[] =>
  source
    .split('\n')
    .filter((line) => /\b(#?words|values|bounds|next|count|memory)\[/.test(line))
    .map((line) => line.trim())
const stores = (lines: readonly string[]): string[] =>
  lines.filter((line) => /\][!]? (=|\+=|-=) |\+\+(#?words|next)\[/.test(line))

describe('where readers take no lock', () => {
  test('the cache of the views has no plain access', () => {
    expect(plain(sourceOf('engine/views/cache.ts'))).toEqual([])
  })

  test('readers of rows have none but to the seeds, which are written once before any thread has them', () => {
    const [reader, writer] = sourceOf('engine/txpool/shared/rows.ts').split('  open(): number {')
    const ofReader = plain(reader!).filter((line) => !line.includes('[SEEDS + 2 * word'))
    expect(ofReader).toEqual([])
    // What only the writer reads is its own.
    const ofWriter = stores(plain(writer!)).filter((line) => !/words\[(FREE|FRESH)\]/.test(line))
    expect(ofWriter).toEqual([])
  })

  test('readers of runs have none', () => {
    const source = sourceOf('engine/txpool/shared/runs.ts')
    const reader = source.slice(source.indexOf('    after('), source.indexOf('    add('))
    expect(reader).toContain('isSame()')
    expect(plain(reader)).toEqual([])
    expect(stores(plain(source)).filter((line) => !/next\[(FREE|fresh)\]/.test(line))).toEqual([])
  })

  test('what the front reads of a task that still runs is stored atomically', () => {
    const source = sourceOf('workers/pool/task-memory.ts')
    const reply = source.slice(source.indexOf('export function writeReply'))
    expect(reply).not.toMatch(/\[(line|lineOf\(index\)) \+ (STATUS|MICROS)\] =/)
  })
})

test('a plain access is found', () => {
  expect(plain('const count = words[entry + COUNT]!\nAtomics.load(words, at)')).toHaveLength(1)
  expect(stores(plain('words[at] = 1\nconst a = words[at]!\nnext[run] = first'))).toHaveLength(2)
})
