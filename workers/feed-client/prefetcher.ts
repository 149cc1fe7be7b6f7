/**
 * Reads the rows of a flashblock's access list ahead of the writer, so that they are in the
 * database's caches. Nothing is fetched from an upstream, and no thread waits for the reads.
 */
import {
  type AccessKeys,
  type AccessListBounds,
  accessKeysIn,
  TOO_LARGE,
} from '../../engine/flashblocks/access-list.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { type JsonObject, Refusal } from '../../engine/primitives/json-fields.ts'
import { latin1 } from '../../engine/state/words.ts'
import { DatabaseError } from '../../engine/storage/database/options.ts'
import type { Database } from '../../engine/storage/database/types.ts'
import type { FeedCount } from './messages.ts'

export type PrefetcherOptions = {
  readonly database: Pick<Database, 'getMany'>
  readonly bounds: AccessListBounds
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Resolves after one turn of the event loop. */
  readonly turn: () => Promise<unknown>
  readonly count: (what: FeedCount, by: number) => void
  readonly warn: (message: string) => void
}

/** Rows of one read: 64 take 6 ms from a disk, and the next frame can be taken after them. */
const ROWS = 64
/**
 * Faster rows were in memory already; the rest of the list is skipped, because prefetching gains
 * nothing.
 */
const DISK_MS_PER_ROW = 1 / 40
/** Keys that are not read again, because each list of an OP chain has those of its rules. */
const MAX_RECENT = 20_000

export class Prefetcher {
  readonly #options: PrefetcherOptions
  readonly #recent = new Set<string>()
  /** Number of the newest list, which ends the reads of older ones. */
  #newest = 0

  constructor(options: PrefetcherOptions) {
    this.#options = options
  }

  /**
   * Reads the rows of an access list; rejects only after a bug.
   * @param metadata metadata of a flashblock that the writer has
   */
  async read(metadata: JsonObject | undefined): Promise<void> {
    const keys = metadata && this.#keysIn(metadata)
    if (keys === undefined) return
    const list = ++this.#newest
    const isNewest = () => list === this.#newest
    try {
      await this.#readRows('accounts', keys.accounts, isNewest)
      await this.#readRows('slots', keys.slots, isNewest)
    } catch (error) {
      // The node is stopping, or the writer will report the same fault.
      if (!(error instanceof DatabaseError)) throw error
    }
  }

  async #readRows(
    column: 'accounts' | 'slots',
    keys: readonly Bytes[],
    isNewest: () => boolean,
  ): Promise<void> {
    const { database, now, turn, count } = this.#options
    for (let at = 0; at < keys.length && isNewest(); at += ROWS) {
      const rows = keys.slice(at, at + ROWS).filter((key) => this.#isFresh(key))
      if (rows.length === 0) continue
      const startedMs = now()
      database.getMany(column, rows)
      count('rows_read_ahead', rows.length)
      if (now() - startedMs < rows.length * DISK_MS_PER_ROW) return
      await turn()
    }
  }

  #keysIn(metadata: JsonObject): AccessKeys | undefined {
    const { bounds, count, warn } = this.#options
    try {
      const keys = accessKeysIn(metadata, bounds)
      if (keys !== undefined) count('access_lists', 1)
      return keys
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      count(error.field === TOO_LARGE ? 'access_lists_too_large' : 'access_lists_malformed', 1)
      warn(`an access list is ignored: ${error.message}`)
      return undefined
    }
  }

  #isFresh(key: Bytes): boolean {
    const name = latin1(key)
    if (this.#recent.has(name)) return false
    if (this.#recent.size >= MAX_RECENT) this.#recent.clear()
    this.#recent.add(name)
    return true
  }
}
