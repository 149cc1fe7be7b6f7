/**
 * Filters of all front threads. An id starts with the number of its front thread, which gets the
 * requests for it.
 */

import { errorOf, filterNotFound, RpcError } from '../../rpc/core/errors.ts'
import type { Filters, OwnFilters } from '../../rpc/events/filters.ts'
import type { FilterHome } from '../../rpc/rpc.ts'
import type { Called } from './carried.ts'
import type { FilterRequest } from './messages.ts'

/** Hex digits of the front thread's number in an id. */
const PREFIX_DIGITS = 2
const PREFIX_END = 2 + PREFIX_DIGITS

const prefixOf = (frontThread: number): string =>
  frontThread.toString(16).padStart(PREFIX_DIGITS, '0')
/** Returns undefined if no front thread has issued the id. */
const frontThreadOf = (id: string): number | undefined => {
  const digits = id.slice(2, PREFIX_END)
  return /^[0-9a-f]{2}$/.test(digits) ? Number.parseInt(digits, 16) : undefined
}

/**
 * @param pass sends a request to another front thread; undefined if it has ended or does not
 * respond
 */
export function filterHome(
  frontThread: number,
  pass: (frontThread: number, request: FilterRequest) => Promise<Called | undefined>,
): FilterHome {
  async function elsewhere(action: FilterRequest['action'], id: string): Promise<unknown> {
    const of = frontThreadOf(id)
    const called = of === undefined ? undefined : await pass(of, { action, id })
    if (called === undefined) throw filterNotFound()
    if ('error' in called) throw errorOf(called.error)
    return action === 'changes' ? called.result : JSON.parse(called.result)
  }
  const isOwn = (id: string) => frontThreadOf(id) === frontThread
  return {
    idPrefix: prefixOf(frontThread),
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

/** Runs a request of another front thread on a filter of this thread. */
export function requestFilter(own: OwnFilters, { action, id }: FilterRequest): Called {
  try {
    return {
      result: action === 'changes' ? own.changes(id) : JSON.stringify(own[action](id)),
    }
  } catch (error) {
    if (error instanceof RpcError) return { error: error.toObject() }
    throw error
  }
}
