/**
 * Reads the rows of a flashblock's access list before the writer asks for them, so that they are in
 * the caches of the database. Nothing is fetched from an upstream, and nothing waits for it.
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

export type ReadAheadOptions = {
  readonly database: Pick<Database, 'getMany'>
  readonly bounds: AccessListBounds
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Resolves when the event loop has looked at everything else once. */
  readonly turn: () => Promise<unknown>
  readonly count: (what: FeedCount, by: number) => void
  /** Why a list is ignored. */
  readonly warn: (message: string) => void
}

/** Rows of one read: 64 take 6 ms from a disk, and the next frame can be taken after them. */
const ROWS = 64
/**
 * Rows that took less were in memory: the rest of the list is left to the writer, which has no use
 * of it.
 */
const DISK_MS_PER_ROW = 1 / 40
/** Keys that are not read again: those of the rules of an OP chain are in each list. */
const MAX_RECENT = 20_000

export class ReadAhead {
  readonly #options: ReadAheadOptions
  readonly #recent = new Set<string>()
  /** Counts lists: a newer one ends the reads of an older one. */
  #newest = 0

  constructor(options: ReadAheadOptions) {
    this.#options = options
  }

  /** Never rejects but for a bug. @param metadata of a flashblock that the writer has */
  async read(metadata: JsonObject | undefined): Promise<void> {
    const keys = metadata && this.#keysIn(metadata)
    if (keys === undefined) return
    const list = ++this.#newest
    const isNewest = () => list === this.#newest
    try {
      await this.#readRows('accounts', keys.accounts, isNewest)
      await this.#readRows('slots', keys.slots, isNewest)
    } catch (error) {
      // The node ends, or the writer finds the same fault and says so.
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
