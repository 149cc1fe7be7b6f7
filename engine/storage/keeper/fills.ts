/**
 * What was fetched of the state goes into flat state, where nothing says more: a key without a row that no block has written has had one
 * value from the first block on, so that what was read at any canonical head is right for all of them. A block that is not folded
 * yet says itself what was before it, and that is what flat state needs.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { decodeHeader } from '../../primitives/header-codec.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { EncodedDiff } from '../../state/diff.ts'
import { rowsOf } from '../../state/encoded-diff.ts'
import { latin1 } from '../../state/words.ts'
import { encodeNumber, originKey, slotKey } from '../blocks/block-codec.ts'
import { withChecksum } from '../blocks/checked-row.ts'
import { columnsOf, putNoStorage } from '../blocks/fold.ts'
import { openStore } from '../blocks/store.ts'
import type { Database, Entry, WriteBatch } from '../database/types.ts'
import type {
  FillRow,
  KeeperAnswer,
  KeeperRequest,
  KeeperWords,
  StoredHead,
  StoreReader,
} from '../types.ts'
import type { KnownBlock, KnownBlocks } from './blocks.ts'
import { type FetchedRows, hasHistory, openFetchedRows } from './fetched.ts'

export type FillRequest = Extract<KeeperRequest, { readonly type: 'fill' }>

/** Of one request: some ten milliseconds of the keeper. */
export const MAX_FILL_ROWS = 2_048

type StateRow = Extract<FillRow, { readonly kind: 'account' | 'slot' }>
type HeaderRow = Extract<FillRow, { readonly kind: 'header' }>

export type FillOptions = {
  readonly database: Database
  readonly blocks: KnownBlocks
  readonly words: KeeperWords
  /** The newest appended block. */
  readonly durable: () => KnownBlock
  /** Of rows that were fetched; undefined: they stay. */
  readonly lazyCacheBytes?: number | undefined
}

export class KeeperFills {
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
      ...{ database, words, limitBytes: lazyCacheBytes },
      isUnfolded: (key) => this.#unfolded().some(({ before }) => before.has(latin1(key))),
    })
  }

  /** More was fetched than is kept. */
  isDue(): boolean {
    return this.#fetched.isDue()
  }

  shrink(): Generator<undefined, void> {
    return this.#fetched.shrink()
  }

  /** All in one commit. @throws {Error} for a whole directory, and for more rows than may be */
  answer({ request, block, rows }: FillRequest): KeeperAnswer {
    if (!this.#store.isLazy()) throw new Error('keeper: nothing is fetched for a whole directory')
    if (rows.length > MAX_FILL_ROWS)
      throw new Error(`keeper: ${rows.length} rows of state in a request, at most ${MAX_FILL_ROWS}`)
    const unfolded = this.#unfolded()
    const kept = this.#isCanonical(block) ? this.#put(rows, unfolded) : 0
    return { type: 'filled', request, kept, dropped: rows.length - kept }
  }

  #put(rows: readonly FillRow[], unfolded: readonly Changes[]): number {
    const batch = this.#database.batch()
    const put: Entry[] = []
    let kept = 0
    const state = rows.filter((row) => row.kind === 'account' || row.kind === 'slot')
    const isThere = this.#known(state)
    for (const [at, row] of state.entries()) {
      const isMarked = this.#mark(batch, row, unfolded)
      if (!isThere[at]) put.push(this.#putValue(batch, row, unfolded))
      if (isMarked || !isThere[at]) kept++
    }
    for (const row of rows)
      if (row.kind === 'code' && this.#store.code(row.hash) === undefined) {
        batch.put('code', row.hash, row.code)
        batch.put('code', originKey(row.hash), row.address)
        put.push({ key: row.hash, value: row.code })
        kept++
      }
    kept += this.#putHeaders(
      batch,
      rows.filter((row) => row.kind === 'header'),
    )
    if (batch.length === 0) return 0
    this.#fetched.add(batch, put)
    batch.commit()
    return kept
  }

  /** Which of them have a row, or had one that a block has replaced. */
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
      // A key that comes twice in a request.
      found.set(latin1(key), true)
      return isKnown
    })
  }

  /** The oldest block above the fold head that changed it knows what was before; it may be what was read is from after it. */
  #putValue(batch: WriteBatch, row: StateRow, unfolded: readonly Changes[]): Entry {
    const key = keyOf(row)
    const name = latin1(key)
    const first = unfolded.find(({ before }) => before.has(name))
    const value = first === undefined ? row.value : first.before.get(name)
    const stored = withChecksum(key, value ?? NO_BYTES)
    batch.put(columnsOf(key).flat, key, stored)
    return { key, value: stored }
  }

  /** Not while a block above the fold head has changed the storage: it may have emptied it. */
  #mark(batch: WriteBatch, row: StateRow, unfolded: readonly Changes[]): boolean {
    if (row.kind !== 'account' || !row.hasNoStorage) return false
    const name = latin1(row.address)
    if (unfolded.some(({ storages }) => storages.has(name))) return false
    if (this.#database.get('slots', row.address) !== undefined) return false
    putNoStorage(batch, row.address)
    return true
  }

  /** Those that their child names, which is stored or comes with them. */
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
    const folded = this.#store.hashOfNumber(number)
    const isState = number >= this.#store.lazyStart()!.block.number
    return isState && folded !== undefined && equalBytes(folded, hash)
  }

  /** Oldest first. */
  #unfolded(): readonly Changes[] {
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

/** What an unfolded block changes. */
type Changes = {
  /** By key: the value before the block. */
  readonly before: ReadonlyMap<string, Bytes | undefined>
  /** Addresses whose slots it changes. */
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
