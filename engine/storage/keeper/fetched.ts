/**
 * Bounds what was fetched of the state. Rows that no block has written can be fetched again: those that nobody has read go, by a hand
 * that goes round the columns and takes, at each row, the note that it was read since the last round ("clock", second chance).
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import { decodeNumber, encodeNumber, originKey, withNumber } from '../blocks/block-codec.ts'
import { columnsOf } from '../blocks/fold.ts'
import { META } from '../database/meta.ts'
import type { Database, Entry, WriteBatch } from '../database/types.ts'
import type { KeeperWords } from '../types.ts'

export type FetchedRows = {
  /** These rows are put into the batch. */
  add(batch: WriteBatch, rows: readonly Entry[]): void
  isDue(): boolean
  /** Each `next` looks at some rows, and one commit takes those that go. Ends when there is room again, or nothing more can go. */
  shrink(): Generator<undefined, void>
}

/** Rows looked at in one step: about a millisecond. */
const ROWS_IN_STEP = 64
/** What a row takes beside its key and value. */
const ROW_BYTES = 32
/** Down to so much of the bound: not again for every row that comes. */
const LEFT = 0.9
/** The first round may only take notes away. */
const ROUNDS = 2

const COLUMNS = ['accounts', 'slots', 'code'] as const
type Column = (typeof COLUMNS)[number]

export function openFetchedRows(options: {
  readonly database: Database
  readonly words: Pick<KeeperWords, 'takeRead'>
  /** Infinity: they are not bounded. */
  readonly limitBytes: number
  /** Whether a block that is not folded yet has changed it. */
  readonly isUnfolded: (key: Bytes) => boolean
}): FetchedRows {
  const { database, words, limitBytes } = options
  const row = database.get('meta', META.fetched)
  let bytes = row === undefined ? 0 : decodeNumber(row)
  /** When there was nothing more to take, it waits until so much is there. */
  let least = limitBytes
  /** Came while a round was under way. */
  let since = 0
  const note = (batch: WriteBatch) => batch.put('meta', META.fetched, encodeNumber(bytes))

  function* round(): Generator<undefined, { readonly isEnough: boolean }> {
    /** Of this round: what stays. What was written here since it came counts no more. */
    let staying = 0
    since = 0
    for (const column of COLUMNS)
      for (let from: Bytes = NO_BYTES; ; ) {
        const rows = database.range(column, { gte: from, lt: END, limit: ROWS_IN_STEP })
        const last = rows.at(-1)
        if (last === undefined) break
        from = successor(last.key)
        const batch = database.batch()
        for (const one of fetchedOf(column, rows, options)) {
          const { key } = one
          if (words.takeRead(key)) {
            staying += sizeOf(one)
            continue
          }
          batch.delete(column, key)
          // What is known of its storage goes with it.
          if (column === 'accounts') batch.delete('slots', key)
          bytes = Math.max(0, bytes - sizeOf(one))
        }
        note(batch)
        batch.commit()
        if (bytes <= limitBytes * LEFT) return { isEnough: true }
        yield
      }
    bytes = staying + since
    return { isEnough: false }
  }

  return {
    add(batch, rows) {
      for (const one of rows) {
        bytes += sizeOf(one)
        since += sizeOf(one)
      }
      note(batch)
    },
    isDue: () => bytes > least,
    *shrink() {
      for (let at = 0; at < ROUNDS; at++)
        if ((yield* round()).isEnough) {
          least = limitBytes
          return
        }
      // All of it is read again and again, or was written here.
      least = Math.max(limitBytes, bytes) + limitBytes * (1 - LEFT)
    },
  }
}

type Kept = Pick<Parameters<typeof openFetchedRows>[0], 'database' | 'isUnfolded'>

/** Of these rows those that were fetched, and not written here since. */
function fetchedOf(
  column: Column,
  rows: readonly Entry[],
  { database, isUnfolded }: Kept,
): readonly Entry[] {
  // Code that came with an account can be had from it again.
  if (column === 'code')
    return rows.filter(
      ({ key }) => key.length === HASH_BYTES && database.get('code', originKey(key)) !== undefined,
    )
  let address: Bytes = NO_BYTES
  let isMarked = false
  return rows.filter(({ key, value }) => {
    // A mark goes with its account.
    if (column === 'slots' && key.length === ADDRESS_BYTES) return false
    if (isUnfolded(key) || hasHistory(database, key)) return false
    if (column === 'accounts' || value.length === 0) return true
    // A slot of storage that was empty was written here, also where its history is pruned.
    const own = key.subarray(0, ADDRESS_BYTES)
    if (!equalBytes(own, address)) {
      address = own
      isMarked = database.get('slots', own) !== undefined
    }
    return !isMarked
  })
}

export function hasHistory(database: Database, key: Bytes): boolean {
  const range = { gte: withNumber(key, 0), lt: withNumber(key, Number.MAX_SAFE_INTEGER) }
  return database.range(columnsOf(key).history, { ...range, limit: 1 }).length > 0
}

const ADDRESS_BYTES = 20
const HASH_BYTES = 32
/** No key is above it. */
const END: Bytes = new Uint8Array(64).fill(0xff)

const sizeOf = ({ key, value }: Entry): number => key.length + value.length + ROW_BYTES

/** The first key above. */
function successor(key: Bytes): Bytes {
  const next = new Uint8Array(key.length + 1)
  next.set(key)
  return next
}
