/**
 * Polling filters of eth_newFilter and related methods. Each buffers events since its last poll,
 * within limits.
 */
import { randomBytes } from 'node:crypto'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { ConcurrencyLimit } from '../core/concurrency-limit.ts'
import { concurrencyLimitReached, filterNotFound } from '../core/errors.ts'
import type { Limits } from '../core/limits.ts'
import type { TransactionService } from '../core/ports.ts'
import { pooledText } from '../json/json.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'
import { type CanonicalEvent, type CanonicalFeed, logsOfEvent } from './canonical.ts'
import { createLogMatcher, heightsOf, type LogQuery } from './log-filter.ts'

export interface Filters {
  /** @throws {RpcError} if the client or the total is at its limit */
  addBlocks(client: string): string
  addLogs(client: string, query: LogQuery, wire: unknown): string
  /** @param isFull transactions as objects instead of hashes */
  addPending(client: string, isFull: boolean): string
  remove(id: string): boolean | Promise<boolean>
  /**
   * Returns the events since the last poll, as the JSON text of a list.
   * @throws {RpcError}
   */
  changes(id: string): string | Promise<string>
  /**
   * Returns the filter object of a log filter.
   * @throws {RpcError}
   */
  query(id: string): unknown
  readonly size: number
  readonly bytes: number
}
/** Filters of this thread, with synchronous results. */
export interface OwnFilters extends Filters {
  remove(id: string): boolean
  changes(id: string): string
}

type Filter = {
  readonly id: string
  readonly giveBack: () => void
  readonly query: unknown
  /** JSON texts. */
  unread: string[]
  bytes: number
  polledAt: number
  /** Removes the filter from its sources of events. */
  detach: () => void
}

/** Minimum milliseconds between searches for idle filters. */
const SWEEP_MS = 5_000

type FilterOptions = {
  readonly canonical: CanonicalFeed
  readonly transactions: TransactionService
  readonly limits: Pick<
    Limits,
    'filtersPerClient' | 'filtersTotal' | 'filterItems' | 'filterBytes' | 'filterIdleMs'
  >
  /** Prefix of all ids: an even number of hex digits (default: none). */
  readonly idPrefix?: string | undefined
  readonly concurrencyLimits: OpenConcurrencyLimit
  /** Monotonic milliseconds. */
  readonly now: () => number
}
export const createFilters = (options: FilterOptions): OwnFilters => new PolledFilters(options)

const ID_BYTES = 16

class PolledFilters implements OwnFilters {
  readonly #options: FilterOptions
  readonly #concurrencyLimits: ConcurrencyLimit
  readonly #filters = new Map<string, Filter>()
  readonly #ofBlocks = new Set<Filter>()
  readonly #ofPending = new Map<Filter, boolean>()
  readonly #ofLogs = createLogMatcher<Filter>()
  #bytes = 0
  #sweptAt: number
  #stopListening: (() => void) | undefined

  constructor(options: FilterOptions) {
    const { limits } = options
    this.#options = options
    this.#concurrencyLimits = options.concurrencyLimits('filters', {
      perClient: limits.filtersPerClient,
      total: limits.filtersTotal,
    })
    this.#sweptAt = options.now()
  }

  get size(): number {
    return this.#filters.size
  }
  get bytes(): number {
    return this.#bytes
  }

  addBlocks(client: string): string {
    const filter = this.#add(client)
    this.#ofBlocks.add(filter)
    filter.detach = () => this.#ofBlocks.delete(filter)
    return filter.id
  }

  addLogs(client: string, query: LogQuery, wire: unknown): string {
    const heights = heightsOf(query)
    const filter = this.#add(client, wire)
    filter.detach = this.#ofLogs.add({ ...query, heights }, filter)
    return filter.id
  }

  addPending(client: string, isFull: boolean): string {
    const filter = this.#add(client)
    this.#ofPending.set(filter, isFull)
    filter.detach = () => this.#ofPending.delete(filter)
    return filter.id
  }

  remove(id: string): boolean {
    const filter = this.#filters.get(id)
    if (filter !== undefined) this.#remove(filter)
    return filter !== undefined
  }

  changes(id: string): string {
    this.#find(id)
    // A client may know a block's height before the publish notification arrives here.
    this.#options.canonical.catchUp()
    const filter = this.#find(id)
    const text = `[${filter.unread.join(',')}]`
    const bytes = filter.unread.reduce((sum, one) => sum + one.length, 0)
    filter.unread = []
    filter.bytes -= bytes
    this.#bytes -= bytes
    return text
  }

  query(id: string): unknown {
    const { query } = this.#find(id)
    if (query === undefined) throw filterNotFound()
    return query
  }

  #add(client: string, query?: unknown): Filter {
    const { canonical, limits, now, idPrefix = '' } = this.#options
    this.#sweep()
    const giveBack = this.#concurrencyLimits.take(client)
    if (giveBack === undefined)
      throw concurrencyLimitReached('too many filters', limits.filtersPerClient)
    // The filter gets new canonical blocks only.
    canonical.catchUp()
    this.#stopListening ??= this.#listen()
    const bytes = query === undefined ? 0 : JSON.stringify(query).length
    const random = randomBytes(ID_BYTES - idPrefix.length / 2).toString('hex')
    const id = `0x${idPrefix}${random}`
    const filter = { id, giveBack, query, unread: [], bytes, polledAt: now(), detach() {} }
    this.#filters.set(id, filter)
    this.#bytes += bytes
    return filter
  }

  #listen(): () => void {
    const { canonical, transactions } = this.#options
    const stopCanonical = canonical.listen(
      (event) => this.#onCanonical(event),
      () => this.#ofLogs.size > 0,
    )
    const stopPending = transactions.onPending((hash, transaction) => {
      const hashText = `"${bytesToHex(hash)}"`
      for (const [filter, isFull] of [...this.#ofPending])
        this.#put(filter, isFull ? pooledText(transaction) : hashText)
    })
    return () => {
      stopCanonical()
      stopPending()
    }
  }

  #onCanonical(event: CanonicalEvent): void {
    const { type, block } = event
    if (type === 'added')
      for (const filter of [...this.#ofBlocks]) this.#put(filter, `"${block.hash}"`)
    for (const log of logsOfEvent(event))
      for (const filter of [...this.#ofLogs.match(log, block.number)]) this.#put(filter, log.text)
    this.#sweep()
  }

  /**
   * Adds an entry. A filter without capacity is removed, so that the next poll fails instead of
   * missing an event.
   */
  #put(filter: Filter, text: string): void {
    const { limits } = this.#options
    const isFull =
      filter.unread.length >= limits.filterItems || this.#bytes + text.length > limits.filterBytes
    if (isFull) {
      this.#remove(filter)
      return
    }
    filter.unread.push(text)
    filter.bytes += text.length
    this.#bytes += text.length
  }

  #remove(filter: Filter): void {
    if (!this.#filters.delete(filter.id)) return
    filter.detach()
    filter.giveBack()
    this.#bytes -= filter.bytes
    if (this.#filters.size > 0) return
    this.#stopListening?.()
    this.#stopListening = undefined
  }

  #sweep(): void {
    const at = this.#options.now()
    if (at - this.#sweptAt < SWEEP_MS) return
    this.#sweptAt = at
    for (const filter of [...this.#filters.values()]) if (this.#isIdle(filter)) this.#remove(filter)
  }

  #find(id: string): Filter {
    const filter = this.#filters.get(id)
    if (filter === undefined || this.#isIdle(filter)) {
      if (filter !== undefined) this.#remove(filter)
      throw filterNotFound()
    }
    filter.polledAt = this.#options.now()
    return filter
  }

  #isIdle({ polledAt }: Filter): boolean {
    const { now, limits } = this.#options
    return now() - polledAt > limits.filterIdleMs
  }
}
