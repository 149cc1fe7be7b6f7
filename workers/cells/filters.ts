/** Filters of all cells: an id begins with the number of the cell that has it, and whoever is asked for it asks that one. */
import type { Filters, OwnFilters } from '../../rpc/events/filters.ts'
import type { FilterHome } from '../../rpc/rpc.ts'
import { errorOf, filterNotFound, RpcError } from '../../rpc/seam/errors.ts'
import type { Called } from './carried.ts'
import type { FilterAsked } from './messages.ts'

/** Hex digits of the cell in an id. */
const PREFIX_DIGITS = 2
const PREFIX_END = 2 + PREFIX_DIGITS

const prefixOf = (cell: number): string => cell.toString(16).padStart(PREFIX_DIGITS, '0')
/** undefined: no cell has given that id. */
const cellOf = (id: string): number | undefined => {
  const digits = id.slice(2, PREFIX_END)
  return /^[0-9a-f]{2}$/.test(digits) ? Number.parseInt(digits, 16) : undefined
}

/** @param pass asks another cell; undefined: it has ended, or does not answer */
export function filterHome(
  cell: number,
  pass: (cell: number, asked: FilterAsked) => Promise<Called | undefined>,
): FilterHome {
  async function elsewhere(action: FilterAsked['action'], id: string): Promise<unknown> {
    const of = cellOf(id)
    const called = of === undefined ? undefined : await pass(of, { action, id })
    if (called === undefined) throw filterNotFound()
    if ('error' in called) throw errorOf(called.error)
    return action === 'changes' ? called.result : JSON.parse(called.result)
  }
  const isOwn = (id: string) => cellOf(id) === cell
  return {
    idPrefix: prefixOf(cell),
    all: (own: OwnFilters): Filters => ({
      addBlocks: (client) => own.addBlocks(client),
      addLogs: (client, query, wire) => own.addLogs(client, query, wire),
      addPending: (client, isFull) => own.addPending(client, isFull),
      remove: (id) =>
        isOwn(id)
          ? own.remove(id)
          : elsewhere('remove', id).then(
              (isRemoved) => isRemoved === true,
              () => false,
            ),
      changes: (id) =>
        isOwn(id) ? own.changes(id) : (elsewhere('changes', id) as Promise<string>),
      query: (id) => (isOwn(id) ? own.query(id) : elsewhere('query', id)),
      get size() {
        return own.size
      },
      get bytes() {
        return own.bytes
      },
    }),
  }
}

/** What a filter of this thread says to another cell. */
export function askFilter(own: OwnFilters, { action, id }: FilterAsked): Called {
  try {
    return {
      result: action === 'changes' ? own.changes(id) : JSON.stringify(own[action](id)),
    }
  } catch (error) {
    if (error instanceof RpcError) return { error: error.toObject() }
    throw error
  }
}
