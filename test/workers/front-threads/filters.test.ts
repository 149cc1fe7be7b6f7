import { describe, expect, test } from 'vitest'
import { filterNotFound } from '../../../rpc/core/errors.ts'
import type { OwnFilters } from '../../../rpc/events/filters.ts'
import { filterHome, requestFilter } from '../../../workers/front-threads/filters.ts'
import type { FilterRequest } from '../../../workers/front-threads/messages.ts'

/** Makes one front thread's filters with these ids, each with an entry. */
function ownFilters(ids: readonly string[]): OwnFilters {
  const ownIds = new Set(ids)
  const find = (id: string) => {
    if (!ownIds.has(id)) throw filterNotFound()
  }
  return {
    addBlocks: () => '',
    addLogs: () => '',
    addPending: () => '',
    remove: (id) => ownIds.delete(id),
    changes(id) {
      find(id)
      return `["${id}"]`
    },
    query(id) {
      find(id)
      return { address: id }
    },
    get size() {
      return ownIds.size
    },
    bytes: 0,
  }
}

/** Makes two front threads that forward to each other. */
function world() {
  const own = new Map([
    [1, ownFilters(['0x01aa'])],
    [2, ownFilters(['0x02bb'])],
  ])
  const passed: number[] = []
  const pass = async (frontThread: number, request: FilterRequest) => {
    passed.push(frontThread)
    const filters = own.get(frontThread)
    return filters && requestFilter(filters, request)
  }
  const [first, second] = [1, 2].map((frontThread) =>
    filterHome(frontThread, pass).all(own.get(frontThread)!),
  )
  return { first: first!, second: second!, passed }
}

describe('a filter on several front threads', () => {
  test('has an id with the number of its front thread', () => {
    expect(
      [1, 31, 255].map((frontThread) => filterHome(frontThread, async () => undefined).idPrefix),
    ).toEqual(['01', '1f', 'ff'])
  })

  test('is read locally, or on the front thread that has it', async () => {
    const { first, second, passed } = world()
    expect(first.changes('0x01aa')).toBe('["0x01aa"]')
    expect(passed).toEqual([])
    expect(await second.changes('0x01aa')).toBe('["0x01aa"]')
    expect(await second.query('0x01aa')).toEqual({ address: '0x01aa' })
    expect(passed).toEqual([1, 1])
    expect(await second.remove('0x01aa')).toBe(true)
    expect(await second.remove('0x01aa')).toBe(false)
  })

  test.each(['0x01cc', '0x09aa', '0x', '', 'zz', '0xzz11'])(
    'with the unknown id %j is not found',
    async (id) => {
      const { second } = world()
      await expect((async () => second.changes(id))()).rejects.toThrow('filter not found')
      await expect((async () => second.query(id))()).rejects.toThrow('filter not found')
      expect(await second.remove(id)).toBe(false)
    },
  )
})
