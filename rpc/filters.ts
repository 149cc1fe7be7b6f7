/** Polling filters: eth_newFilter and its family. Each keeps what has come since its last poll, within bounds. */
import { randomBytes } from 'node:crypto'
import { bytesToHex } from '../engine/primitives/hex.ts'
import { type CanonicalEvent, type CanonicalFeed, logsOfEvent } from './canonical.ts'
import { createCaps } from './caps.ts'
import { capReached, filterNotFound } from './errors.ts'
import { pooledText } from './json.ts'
import type { Limits } from './limits.ts'
import { createLogMatcher, type LogQuery } from './log-filter.ts'
import type { PoolService } from './services.ts'

export interface Filters {
  /** @throws {RpcError} when the client, or all together, have too many. */
  addBlocks(client: string): string
  addLogs(client: string, query: LogQuery, wire: unknown): string
  /** @param isFull transactions as objects, else as hashes. */
  addPending(client: string, isFull: boolean): string
  remove(id: string): boolean
  /** What has come since the last poll, as the JSON text of a list. @throws {RpcError} */
  changes(id: string): string
  /** The filter object a log filter was made with. @throws {RpcError} */
  query(id: string): unknown
  readonly size: number
  readonly bytes: number
}

type Filter = {
  readonly id: string
  readonly giveBack: () => void
  readonly query: unknown
  /** JSON texts. */
  unread: string[]
  bytes: number
  polledAt: number
  /** Takes it out of where events come from. */
  detach: () => void
}

/** Filters nobody polls are looked for at most so often. */
const SWEEP_MS = 5_000
export function createFilters(options: {
  readonly canonical: CanonicalFeed
  readonly pool: PoolService
  readonly limits: Limits
  /** Monotonic milliseconds. */
  readonly now: () => number
}): Filters {
  const { canonical, pool, limits, now } = options
  const caps = createCaps({ perClient: limits.filtersPerClient, total: limits.filtersTotal })
  const filters = new Map<string, Filter>()
  const ofBlocks = new Set<Filter>()
  const ofPending = new Map<Filter, boolean>()
  const ofLogs = createLogMatcher<{ filter: Filter; isIn: (number: bigint) => boolean }>()
  let totalBytes = 0
  let sweptAt = now()
  let stopListening: (() => void) | undefined

  function add(client: string, query?: unknown): Filter {
    sweep()
    const giveBack = caps.take(client)
    if (giveBack === undefined) throw capReached('too many filters', limits.filtersPerClient)
    // From here on every new canonical block is of concern; what came before is not.
    canonical.catchUp()
    stopListening ??= startListening()
    const bytes = query === undefined ? 0 : JSON.stringify(query).length
    const id = `0x${randomBytes(16).toString('hex')}`
    const filter = { id, giveBack, query, unread: [], bytes, polledAt: now(), detach() {} }
    filters.set(id, filter)
    totalBytes += bytes
    return filter
  }

  function startListening(): () => void {
    const stopCanonical = canonical.listen(onCanonical, 'logs')
    const stopPending = pool.onPending((hash, transaction) => {
      const hashText = `"${bytesToHex(hash)}"`
      for (const [filter, isFull] of [...ofPending])
        put(filter, isFull ? pooledText(transaction) : hashText)
    })
    return () => {
      stopCanonical()
      stopPending()
    }
  }

  function onCanonical(event: CanonicalEvent): void {
    const { type, block } = event
    if (type === 'added') for (const filter of [...ofBlocks]) put(filter, `"${block.hash}"`)
    for (const log of logsOfEvent(event))
      for (const { filter, isIn } of [...ofLogs.match(log)])
        if (isIn(block.number)) put(filter, log.text)
    sweep()
  }

  /** An entry that does not fit takes its filter away: the next poll says so, instead of a silent gap. */
  function put(filter: Filter, text: string): void {
    if (
      filter.unread.length >= limits.filterItems ||
      totalBytes + text.length > limits.filterBytes
    ) {
      remove(filter)
      return
    }
    filter.unread.push(text)
    filter.bytes += text.length
    totalBytes += text.length
  }

  function remove(filter: Filter): void {
    if (!filters.delete(filter.id)) return
    filter.detach()
    filter.giveBack()
    totalBytes -= filter.bytes
    if (filters.size > 0) return
    stopListening?.()
    stopListening = undefined
  }

  function sweep(): void {
    const at = now()
    if (at - sweptAt < SWEEP_MS) return
    sweptAt = at
    for (const filter of [...filters.values()])
      if (at - filter.polledAt > limits.filterIdleMs) remove(filter)
  }

  function find(id: string): Filter {
    const filter = filters.get(id)
    if (filter === undefined || now() - filter.polledAt > limits.filterIdleMs) {
      if (filter !== undefined) remove(filter)
      throw filterNotFound()
    }
    filter.polledAt = now()
    return filter
  }

  return {
    addBlocks(client) {
      const filter = add(client)
      ofBlocks.add(filter)
      filter.detach = () => ofBlocks.delete(filter)
      return filter.id
    },
    addLogs(client, query, wire) {
      const filter = add(client, wire)
      filter.detach = ofLogs.add(query, { filter, isIn: rangeOf(query) })
      return filter.id
    },
    addPending(client, isFull) {
      const filter = add(client)
      ofPending.set(filter, isFull)
      filter.detach = () => ofPending.delete(filter)
      return filter.id
    },
    remove(id) {
      const filter = filters.get(id)
      if (filter !== undefined) remove(filter)
      return filter !== undefined
    },
    changes(id) {
      find(id)
      // A height that was announced may be ahead of its hint.
      canonical.catchUp()
      const filter = find(id)
      const text = `[${filter.unread.join(',')}]`
      const bytes = filter.unread.reduce((sum, one) => sum + one.length, 0)
      filter.unread = []
      filter.bytes -= bytes
      totalBytes -= bytes
      return text
    },
    query(id) {
      const { query } = find(id)
      if (query === undefined) throw filterNotFound()
      return query
    },
    get size() {
      return filters.size
    },
    get bytes() {
      return totalBytes
    },
  }
}

/** Heights a log filter named by number bound what it gets; tags do not. */
function rangeOf({ fromBlock, toBlock }: LogQuery): (number: bigint) => boolean {
  const from = fromBlock !== undefined && 'number' in fromBlock ? fromBlock.number : undefined
  const to = toBlock !== undefined && 'number' in toBlock ? toBlock.number : undefined
  return (number) => (from === undefined || number >= from) && (to === undefined || number <= to)
}
