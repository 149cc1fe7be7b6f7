/** The database interface over maps: sorted keys, atomic batches, one thread. */
import type { Bytes } from '../../primitives/bytes.ts'
import { concatBytes } from '../../primitives/words.ts'
import { fromLatin1, latin1 } from '../../state/words.ts'
import { COLUMN_NAMES, type ColumnName, checkMerge } from './columns.ts'
import { DatabaseError } from './options.ts'
import type { Database, Entry, Range, WriteBatch } from './types.ts'

export function createMemoryDatabase(): Database {
  const columns = new Map<ColumnName, SortedMap>(COLUMN_NAMES.map((name) => [name, sortedMap()]))
  let isOpen = true
  let sequence = 0

  const find = (column: ColumnName): SortedMap => {
    if (!isOpen) throw new DatabaseError('closed', 'the database is closed')
    const found = columns.get(column)
    if (found === undefined) throw new DatabaseError('invalid', `unknown column "${column}"`)
    return found
  }
  const range = (column: ColumnName, { gte, lt, reverse }: Range, limit: number): Entry[] => {
    if (!(limit >= 1)) throw new DatabaseError('invalid', `limit ${limit} is not positive`)
    const map = find(column)
    const keys = map.between(checkedKey(gte), checkedKey(lt))
    if (reverse) keys.reverse()
    return keys
      .slice(0, limit)
      .map((key) => ({ key: fromLatin1(key), value: map.get(key)!.slice() }))
  }

  return {
    get: (column, key) => find(column).get(checkedKey(key))?.slice(),
    getMany(column, keys) {
      const map = find(column)
      return keys.map((key) => map.get(checkedKey(key))?.slice())
    },
    range: (column, { limit, ...bounds }) => range(column, bounds, limit),
    *scan(column, bounds) {
      yield* range(column, bounds, Number.POSITIVE_INFINITY)
    },
    batch: () =>
      memoryBatch(find, (writes) => {
        sequence += writes
      }),
    clear(column) {
      find(column)
      columns.set(column, sortedMap())
    },
    flush: () => {
      find('meta')
    },
    sync: async () => {
      find('meta')
    },
    stats: () => ({
      sequence,
      backgroundErrors: 0,
      isWriteStopped: false,
      delayedWriteRate: 0,
      runningCompactions: 0,
    }),
    logBytes: async () => 0,
    share() {
      throw new DatabaseError('invalid', 'a memory database lives in one thread')
    },
    threadEnded: () => {},
    async close() {
      isOpen = false
    },
  }
}

function memoryBatch(
  find: (column: ColumnName) => SortedMap,
  onCommit: (writes: number) => void,
): WriteBatch {
  let writes: {
    readonly column: ColumnName
    readonly key: string
    readonly value: Bytes | undefined
    readonly isMerge?: true
  }[] = []
  return {
    put(column, key, value) {
      find(column)
      writes.push({ column, key: checkedKey(key), value: value.slice() })
    },
    delete(column, key) {
      find(column)
      writes.push({ column, key: checkedKey(key), value: undefined })
    },
    merge(column, key, value) {
      checkMerge(column)
      writes.push({ column, key: checkedKey(key), value: value.slice(), isMerge: true })
    },
    get length() {
      return writes.length
    },
    commit({ isRetained = false } = {}) {
      for (const { column, key, value, isMerge } of writes) {
        const map = find(column)
        const before = isMerge ? map.get(key) : undefined
        map.set(key, before && value ? concatBytes(before, value) : value)
      }
      onCommit(writes.length)
      if (!isRetained) writes = []
    },
  }
}

type SortedMap = {
  get(key: string): Bytes | undefined
  /** undefined removes. */
  set(key: string, value: Bytes | undefined): void
  between(gte: string, lt: string): string[]
}

/** Keys are sorted when a range needs them. Strings of one byte per character sort as bytes do. */
function sortedMap(): SortedMap {
  const values = new Map<string, Bytes>()
  let sorted: string[] | undefined
  const firstNotBelow = (keys: readonly string[], key: string): number => {
    let low = 0
    let high = keys.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (keys[middle]! < key) low = middle + 1
      else high = middle
    }
    return low
  }
  return {
    get: (key) => values.get(key),
    set(key, value) {
      if (values.has(key) !== (value !== undefined)) sorted = undefined
      if (value === undefined) values.delete(key)
      else values.set(key, value)
    },
    between(gte, lt) {
      sorted ??= [...values.keys()].sort((a, b) => (a < b ? -1 : 1))
      return sorted.slice(firstNotBelow(sorted, gte), firstNotBelow(sorted, lt))
    },
  }
}

function checkedKey(key: Bytes): string {
  if (!(key instanceof Uint8Array)) throw new DatabaseError('invalid', 'a key must be bytes')
  return latin1(key)
}
