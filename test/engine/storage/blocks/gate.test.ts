/** A store that is shut for a while reads as many rows as it was told, and all of them afterwards. */
import { expect, test } from 'vitest'
import { gated, ShutError } from '../../../../engine/storage/blocks/gate.ts'
import { openStore } from '../../../../engine/storage/blocks/store.ts'
import { memoryDatabase } from '../../../../engine/storage/database/rocksdb.ts'

const HASH = new Uint8Array(32)
const ADDRESS = new Uint8Array(20)

test('rows and contracts are counted apart, of each run', () => {
  const gate = gated(openStore(memoryDatabase()))
  const { store } = gate
  const read = {
    row: () => store.flatAccount(ADDRESS),
    other: () => store.header(HASH),
    code: () => store.code(HASH),
    memory: () => store.isLazy(),
  }
  const all = (...names: (keyof typeof read)[]) => names.map((name) => read[name]())
  expect(all('row', 'other', 'code')).toEqual([undefined, undefined, undefined])
  const cases: [rows: number, codes: number, names: (keyof typeof read)[], wasMet: boolean][] = [
    [0, 0, ['memory'], false],
    [0, 0, ['row'], true],
    [0, 9, ['row'], true],
    [1, 0, ['other'], false],
    [1, 0, ['row', 'other'], true],
    [9, 0, ['row', 'code'], true],
    [2, 1, ['row', 'code', 'other'], false],
    [2, 1, ['code', 'code'], true],
  ]
  for (const [rows, codes, names, wasMet] of cases) {
    const run = () => gate.shutFor(() => all(...names), { rows, codes })
    if (wasMet) expect(run).toThrow(ShutError)
    else expect(run()).toHaveLength(names.length)
    expect(gate.wasMet).toBe(wasMet)
    expect(all('row', 'other', 'code')).toEqual([undefined, undefined, undefined])
  }
})
