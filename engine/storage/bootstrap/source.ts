/** A source serves a new replica from the database of a running node, and writes nothing. */
import type { ForkTimes } from '../../chainspec/fork-times.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { decodeHead, decodeNumber, encodeNumber, tailKey } from '../blocks/block-codec.ts'
import { openStore } from '../blocks/store.ts'
import { META } from '../database/meta.ts'
import type { Database, Entry } from '../database/types.ts'
import { SCHEMA_VERSION } from '../directory/schema.ts'
import type { StoreReader } from '../types.ts'
import { CHUNK_VERSION, checksumOfRows, encodeChunk } from './chunk.ts'
import { type CopyRequest, CopyRequestError } from './copy-request.ts'
import { readPage } from './pages.ts'

export type SourceOptions = {
  readonly database: Pick<Database, 'get' | 'getMany' | 'scan' | 'range'>
  /** Chain id and genesis of the directory's marker. */
  readonly chainId: number
  readonly genesis: string
  /** Name of a network; undefined: the chain is that of `genesisFile`. */
  readonly chain: string | undefined
  /** Fork times of the directory's marker. */
  readonly forkTimes?: ForkTimes | undefined
  readonly genesisFile: () => Bytes
  /** Diffs are retained as long as history. */
  readonly keepsDiffs: boolean
  /** Approximate bytes of rows in one response. */
  readonly chunkBytes: number
}

/** Kinds of a block's rows, which are the only byte of their keys. */
export const BLOCK_ROWS = { header: 1, body: 2, tail: 3, receipts: 4, diff: 5 } as const

/**
 * A copy starts up to this many blocks below the persisted head, as far down as an unwind can
 * reach. Reorgs of the source are seldom deeper.
 */
const MARGIN_BLOCKS = 32

export interface BootstrapSource {
  /**
   * Responds to one request.
   * @throws {CopyRequestError} {DatabaseError}
   */
  respond(request: CopyRequest): Bytes
}

export function openBootstrapSource(options: SourceOptions): BootstrapSource {
  const store = openStore(options.database as Database)
  return {
    respond(request) {
      switch (request.part) {
        case 'about':
          return encodeChunk(about(options, store), [])
        case 'genesis':
          return genesis(options, request.at)
        case 'blocks':
          return blocks(options, store, request.from)
        case 'rows':
          return rows(options, store, request)
      }
    },
  }
}

function about({ database, ...known }: SourceOptions, store: StoreReader) {
  const { chainId, genesis, chain, forkTimes, keepsDiffs } = known
  const head = store.persistedHead()
  let number = head.number
  while (
    number > Math.max(head.number - MARGIN_BLOCKS, firstBlock(database)) &&
    store.canUnwindTo(number - 1)
  )
    number--
  const hash = store.hashOfNumber(number)
  if (hash === undefined) throw new CopyRequestError('the chain is being reorganised: ask again')
  return {
    version: CHUNK_VERSION,
    schema: SCHEMA_VERSION,
    isWhole: !store.isLazy(),
    chainId,
    genesis,
    chain,
    forkTimes,
    first: firstBlock(database),
    oldestState: store.oldestState(),
    keepsDiffs,
    start: { number, hash: bytesToHex(hash) },
    head: head.number,
  }
}

function firstBlock(database: SourceOptions['database']): number {
  const [first] = database.range('numbers', { ...NUMBERS, limit: 1 })
  return first === undefined ? 0 : decodeNumber(first.key)
}
const NUMBERS = { gte: NO_BYTES, lt: new Uint8Array(9).fill(0xff) }

function genesis({ genesisFile, chunkBytes }: SourceOptions, at: number): Bytes {
  const file = genesisFile()
  const value = file.subarray(at, at + chunkBytes)
  return encodeChunk({ size: file.length }, [{ key: NO_BYTES, value }])
}

/**
 * Sends at least one block if there is one. Missing rows are left out: the diff, or all but the
 * header of an imported block.
 */
function blocks({ database, chunkBytes }: SourceOptions, store: StoreReader, from: number): Bytes {
  const found: Entry[] = []
  const head = store.persistedHead().number
  let count = 0
  for (let bytes = 0; from + count <= head && bytes < chunkBytes && count < MAX_BLOCKS; count++) {
    const hash = database.get('numbers', encodeNumber(from + count))
    // An unwind came in between; the next request sees the other chain.
    if (hash === undefined) break
    const before = found.length
    const put = (kind: number, value: Bytes | undefined) => {
      if (value !== undefined) found.push({ key: Uint8Array.of(kind), value })
    }
    put(BLOCK_ROWS.header, database.get('headers', hash))
    put(BLOCK_ROWS.body, database.get('bodies', hash))
    put(BLOCK_ROWS.tail, database.get('bodies', tailKey(hash)))
    put(BLOCK_ROWS.receipts, database.get('receipts', hash))
    put(BLOCK_ROWS.diff, database.get('diffs', hash))
    for (const { value } of found.slice(before)) bytes += value.length
  }
  return encodeChunk({ from, count, head }, found)
}
const MAX_BLOCKS = 1_024

function rows(
  { database, chunkBytes }: SourceOptions,
  store: StoreReader,
  request: Extract<CopyRequest, { part: 'rows' }>,
): Bytes {
  const { rows, next } = readPage(database, request, chunkBytes)
  // The newest block is read after the rows, so that no row has changes of a later block.
  const upTo = newestInState(database)
  const oldest = store.oldestState()
  const head = { next: next === undefined ? null : bytesToHex(next), upTo, oldest }
  const isSame =
    request.known !== undefined && next === undefined && checksumOfRows(rows) === request.known
  return isSame ? encodeChunk({ ...head, isSame }, []) : encodeChunk(head, rows)
}

/**
 * The newest block whose changes flat state may have: the one being persisted, or the last
 * persisted one.
 */
function newestInState(database: SourceOptions['database']): number {
  const persisting = database.get('meta', META.persisting)
  const persisted = database.get('meta', META.persistedHead)
  return Math.max(
    ...[persisting, persisted].map((row) => (row === undefined ? 0 : decodeHead(row).number)),
  )
}
