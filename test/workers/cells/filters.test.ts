import { describe, expect, test } from 'vitest'
import type { OwnFilters } from '../../../rpc/events/filters.ts'
import { filterNotFound } from '../../../rpc/seam/errors.ts'
import { askFilter, filterHome } from '../../../workers/cells/filters.ts'
import type { FilterAsked } from '../../../workers/cells/messages.ts'

/** Filters of one cell: these ids, each with an entry. */
function ownFilters(ids: readonly string[]): OwnFilters {
  const held = new Set(ids)
  const find = (id: string) => {
    if (!held.has(id)) throw filterNotFound()
  }
  return {
    ...{ addBlocks: () => '', addLogs: () => '', addPending: () => '' },
    remove: (id) => held.delete(id),
    changes(id) {
      find(id)
      return `["${id}"]`
    },
    query(id) {
      find(id)
      return { address: id }
    },
    get size() {
      return held.size
    },
    bytes: 0,
  }
}

/** Two cells that pass on to each other. */
function world() {
  const own = new Map([
    [1, ownFilters(['0x01aa'])],
    [2, ownFilters(['0x02bb'])],
  ])
  const passed: number[] = []
  const pass = async (cell: number, asked: FilterAsked) => {
    passed.push(cell)
    const filters = own.get(cell)
    return filters && askFilter(filters, asked)
  }
  const [first, second] = [1, 2].map((cell) => filterHome(cell, pass).all(own.get(cell)!))
  return { first: first!, second: second!, passed }
}

describe('filters of several cells', () => {
  test('an id begins with the number of its cell', () => {
    expect([1, 31, 255].map((cell) => filterHome(cell, async () => undefined).idPrefix)).toEqual([
      '01',
      '1f',
      'ff',
    ])
  })

  test('own ones are asked at once, others where they are', async () => {
    const { first, second, passed } = world()
    expect(first.changes('0x01aa')).toBe('["0x01aa"]')
    expect(passed).toEqual([])
    expect(await second.changes('0x01aa')).toBe('["0x01aa"]')
    expect(await second.query('0x01aa')).toEqual({ address: '0x01aa' })
    expect(passed).toEqual([1, 1])
    expect(await second.remove('0x01aa')).toBe(true)
    expect(await second.remove('0x01aa')).toBe(false)
  })

  test.each(['0x01cc', '0x09aa', '0x', '', 'zz', '0xzz11'])('%j is not found', async (id) => {
    const { second } = world()
    await expect((async () => second.changes(id))()).rejects.toThrow('filter not found')
    await expect((async () => second.query(id))()).rejects.toThrow('filter not found')
    expect(await second.remove(id)).toBe(false)
  })
})
