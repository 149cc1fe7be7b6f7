/**
 * Writes fetched state into flat state, for keys that no row describes yet. A key without a row and
 * without a change has had one value since the first block. So a value read at any canonical head
 * is right for all of them. If an unpersisted block changed the key, that block's previous value is
 * stored instead.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { decodeHeader } from '../../primitives/header.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { EncodedDiff } from '../../state/diff.ts'
import { rowsOf } from '../../state/encoded-diff.ts'
import { latin1 } from '../../state/words.ts'
import { encodeNumber, originKey, slotKey } from '../blocks/block-codec.ts'
import { withChecksum } from '../blocks/flat-state.ts'
import { columnsOf, putNoStorage } from '../blocks/persist.ts'
import { openStore } from '../blocks/store.ts'
import type { Database, Entry, WriteBatch } from '../database/types.ts'
import type {
  FillRow,
  PersistenceRequest,
  PersistenceResponse,
  PersistenceWords,
  StoredHead,
  StoreReader,
} from '../types.ts'
import type { KnownBlock, KnownBlocks } from './blocks.ts'
import { type FetchedRows, hasHistory, openFetchedRows } from './fetched.ts'

export type FillRequest = Extract<PersistenceRequest, { readonly type: 'fill' }>

/** Rows of one request, which takes the persistence thread some ten milliseconds. */
export const MAX_FILL_ROWS = 2_048

type StateRow = Extract<FillRow, { readonly kind: 'account' | 'slot' }>
type HeaderRow = Extract<FillRow, { readonly kind: 'header' }>

export type FillOptions = {
  readonly database: Database
  readonly blocks: KnownBlocks
  readonly words: PersistenceWords
  /** The newest appended block. */
  readonly durable: () => KnownBlock
  /** Bound of the fetched rows; undefined: they are not deleted. */
  readonly lazyCacheBytes?: number | undefined
}

export class PersistenceFills {
  readonly #database: Database
  readonly #blocks: KnownBlocks
  readonly #store: StoreReader
  readonly #durable: () => KnownBlock
  readonly #fetched: FetchedRows
  readonly #changes = new WeakMap<KnownBlock, Changes>()

  constructor(options: FillOptions) {
    const { database, words, lazyCacheBytes = Number.POSITIVE_INFINITY } = options
    this.#database = database
    this.#blocks = options.blocks
    this.#durable = options.durable
    this.#store = openStore(database)
    this.#fetched = openFetchedRows({
      database,
      words,
      limitBytes: lazyCacheBytes,
      isUnpersisted: (key) => this.#unpersisted().some(({ before }) => before.has(latin1(key))),
    })
  }

  /** Whether the fetched rows exceed their bound. */
  isDue(): boolean {
    return this.#fetched.isDue()
  }

  shrink(): Generator<undefined, void> {
    return this.#fetched.shrink()
  }

  /**
   * Writes the rows of a request in one commit.
   * @throws {Error} for a directory with full state, and for too many rows
   */
  respond({ request, block, rows }: FillRequest): PersistenceResponse {
    if (!this.#store.isLazy())
      throw new Error('persistence: nothing is fetched for a whole directory')
    if (rows.length > MAX_FILL_ROWS)
      throw new Error(
        `persistence: ${rows.length} rows of state in a request, at most ${MAX_FILL_ROWS}`,
      )
    const unpersisted = this.#unpersisted()
    const written = this.#isCanonical(block) ? this.#put(rows, unpersisted) : 0
    return { type: 'filled', request, written, dropped: rows.length - written }
  }

  #put(rows: readonly FillRow[], unpersisted: readonly Changes[]): number {
    const batch = this.#database.batch()
    const put: Entry[] = []
    let written = 0
    const state = rows.filter((row) => row.kind === 'account' || row.kind === 'slot')
    const isThere = this.#known(state)
    for (const [at, row] of state.entries()) {
      const isMarked = this.#mark(batch, row, unpersisted)
      if (!isThere[at]) put.push(this.#putValue(batch, row, unpersisted))
      if (isMarked || !isThere[at]) written++
    }
    for (const row of rows)
      if (row.kind === 'code' && this.#store.code(row.hash) === undefined) {
        batch.put('code', row.hash, row.code)
        batch.put('code', originKey(row.hash), row.address)
        put.push({ key: row.hash, value: row.code })
        written++
      }
    written += this.#putHeaders(
      batch,
      rows.filter((row) => row.kind === 'header'),
    )
    if (batch.length === 0) return 0
    this.#fetched.add(batch, put)
    batch.commit()
    return written
  }

  /** For each row, whether its key has a row, or had one that a block has replaced. */
  #known(rows: readonly StateRow[]): readonly boolean[] {
    const keys = rows.map(keyOf)
    const found = new Map<string, boolean>()
    for (const column of ['accounts', 'slots'] as const) {
      const own = keys.filter((key) => columnsOf(key).flat === column)
      const values = this.#database.getMany(column, own)
      for (const [at, key] of own.entries()) found.set(latin1(key), values[at] !== undefined)
    }
    return keys.map((key) => {
      const isKnown = found.get(latin1(key))! || hasHistory(this.#database, key)
      // The key may come twice in a request.
      found.set(latin1(key), true)
      return isKnown
    })
  }

  /**
   * Puts the value into flat state. The fetched value may be newer than an unpersisted block that
   * changed the key. Then the oldest such block's previous value is stored.
   */
  #putValue(batch: WriteBatch, row: StateRow, unpersisted: readonly Changes[]): Entry {
    const key = keyOf(row)
    const name = latin1(key)
    const first = unpersisted.find(({ before }) => before.has(name))
    const value = first === undefined ? row.value : first.before.get(name)
    const stored = withChecksum(key, value ?? NO_BYTES)
    batch.put(columnsOf(key).flat, key, stored)
    return { key, value: stored }
  }

  /**
   * Marks an account without storage. An account whose slots an unpersisted block changes is left
   * out, because that block may have emptied them.
   */
  #mark(batch: WriteBatch, row: StateRow, unpersisted: readonly Changes[]): boolean {
    if (row.kind !== 'account' || !row.hasNoStorage) return false
    const name = latin1(row.address)
    if (unpersisted.some(({ storages }) => storages.has(name))) return false
    if (this.#database.get('slots', row.address) !== undefined) return false
    putNoStorage(batch, row.address)
    return true
  }

  /**
   * Stores headers whose child is stored, or comes in the same request, and names them as parent.
   */
  #putHeaders(batch: WriteBatch, rows: readonly HeaderRow[]): number {
    const put = new Map<number, Bytes>()
    for (const { number, header } of [...rows].sort((a, b) => b.number - a.number)) {
      if (put.has(number) || this.#store.hashOfNumber(number) !== undefined) continue
      const child = put.get(number + 1) ?? this.#headerAt(number + 1)
      const hash = keccak256(header)
      if (child === undefined || !equalBytes(decodeHeader(child).parentHash, hash)) continue
      batch.put('headers', hash, header)
      batch.put('numbers', encodeNumber(number), hash)
      put.set(number, header)
    }
    return put.size
  }

  #headerAt(number: number): Bytes | undefined {
    const hash = this.#store.hashOfNumber(number)
    return hash && this.#store.header(hash)
  }

  #isCanonical({ number, hash }: StoredHead): boolean {
    for (let at: KnownBlock | undefined = this.#durable(); at !== undefined; at = at.parent)
      if (at.appended!.number === number) return equalBytes(at.appended!.hash, hash)
    const persisted = this.#store.hashOfNumber(number)
    const isState = number >= this.#store.lazyStart()!.block.number
    return isState && persisted !== undefined && equalBytes(persisted, hash)
  }

  /** Changes of the unpersisted blocks, oldest first. */
  #unpersisted(): readonly Changes[] {
    const found: Changes[] = []
    for (let at = this.#durable(); at !== this.#blocks.base; at = at.parent!)
      found.push(this.#changesOf(at))
    return found.reverse()
  }

  #changesOf(block: KnownBlock): Changes {
    let changes = this.#changes.get(block)
    if (changes === undefined) {
      const { hash, number } = block.appended!
      const diff = block.diff ?? this.#store.encodedDiff(hash)
      if (diff === undefined) throw new Error(`block ${number}: its diff is not stored`)
      changes = changesIn(diff)
      this.#changes.set(block, changes)
    }
    return changes
  }
}

type Changes = {
  /** Values before the block, by key. */
  readonly before: ReadonlyMap<string, Bytes | undefined>
  /** Addresses whose slots the block changes. */
  readonly storages: ReadonlySet<string>
}

function changesIn(diff: EncodedDiff): Changes {
  const before = new Map<string, Bytes | undefined>()
  const storages = new Set<string>()
  for (const row of rowsOf(diff)) {
    const name = latin1(row.key)
    before.set(name, row.before)
    if (row.key.length > ADDRESS_BYTES) storages.add(name.slice(0, ADDRESS_BYTES))
  }
  return { before, storages }
}

const ADDRESS_BYTES = 20

const keyOf = (row: StateRow): Bytes =>
  row.kind === 'account' ? row.address : slotKey(row.address, row.key)
