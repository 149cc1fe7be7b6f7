/** A source: what a new replica is answered, read from the database of a running node. Nothing is written. */
import type { ForkTimes } from '../../chainspec/fork-times.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { decodeHead, decodeNumber, encodeNumber, tailKey } from '../blocks/block-codec.ts'
import { openStore } from '../blocks/store.ts'
import { META } from '../database/meta.ts'
import type { Database, Entry } from '../database/types.ts'
import { SCHEMA_VERSION } from '../directory/schema.ts'
import type { StoreReader } from '../types.ts'
import { type Asked, AskedError } from './asked.ts'
import { CHUNK_VERSION, checksumOfRows, encodeChunk } from './chunk.ts'
import { readPage } from './pages.ts'

export type SourceOptions = {
  readonly database: Pick<Database, 'get' | 'getMany' | 'scan' | 'range'>
  /** Of the marker of its directory. */
  readonly chainId: number
  readonly genesis: string
  /** A network's name; undefined: the chain is that of `genesisFile`. */
  readonly chain: string | undefined
  /** Fork times that the directory's marker holds. */
  readonly forkTimes?: ForkTimes | undefined
  /** The genesis.json. */
  readonly genesisFile: () => Bytes
  /** What blocks changed is kept as long as their history. */
  readonly keepsDiffs: boolean
  /** Of the rows of one answer, about. */
  readonly chunkBytes: number
}

/** What a block is sent as: the first byte of the key of each of its rows. */
export const BLOCK_ROWS = { header: 1, body: 2, tail: 3, receipts: 4, diff: 5 } as const

/** A copy begins so many blocks below the fold head, where they can be undone: a reorg of the source seldom reaches so deep. */
const MARGIN_BLOCKS = 32

export interface BootstrapSource {
  /** @throws {AskedError} {DatabaseError} */
  answer(asked: Asked): Bytes
}

export function openBootstrapSource(options: SourceOptions): BootstrapSource {
  const store = openStore(options.database as Database)
  return {
    answer(asked) {
      switch (asked.part) {
        case 'about':
          return encodeChunk(about(options, store), [])
        case 'genesis':
          return genesis(options, asked.at)
        case 'blocks':
          return blocks(options, store, asked.from)
        case 'rows':
          return rows(options, store, asked)
      }
    },
  }
}

function about({ database, ...known }: SourceOptions, store: StoreReader) {
  const { chainId, genesis, chain, forkTimes, keepsDiffs } = known
  const head = store.foldHead()
  let number = head.number
  while (
    number > Math.max(head.number - MARGIN_BLOCKS, firstBlock(database)) &&
    store.isUnfoldable(number - 1)
  )
    number--
  const hash = store.hashOfNumber(number)
  if (hash === undefined) throw new AskedError('the chain is being reorganised: ask again')
  return {
    version: CHUNK_VERSION,
    schema: SCHEMA_VERSION,
    isWhole: !store.isLazy(),
    ...{ chainId, genesis, chain, forkTimes },
    first: firstBlock(database),
    ...{ oldestState: store.oldestState(), keepsDiffs },
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

/** One at least, where there is one. Rows of a block lack what is not here: its diff, or all but the header of a block that was loaded. */
function blocks({ database, chunkBytes }: SourceOptions, store: StoreReader, from: number): Bytes {
  const found: Entry[] = []
  const head = store.foldHead().number
  let count = 0
  for (let bytes = 0; from + count <= head && bytes < chunkBytes && count < MOST_BLOCKS; count++) {
    const hash = database.get('numbers', encodeNumber(from + count))
    // An unfold has come in between: the next question finds another chain.
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
const MOST_BLOCKS = 1_024

function rows(
  { database, chunkBytes }: SourceOptions,
  store: StoreReader,
  asked: Extract<Asked, { part: 'rows' }>,
): Bytes {
  const { rows, next } = readPage(database, asked, chunkBytes)
  // After they were read: no later block is in them.
  const upTo = newestInState(database)
  const oldest = store.oldestState()
  const head = { next: next === undefined ? null : bytesToHex(next), upTo, oldest }
  const isSame =
    asked.known !== undefined && next === undefined && checksumOfRows(rows) === asked.known
  return isSame ? encodeChunk({ ...head, isSame }, []) : encodeChunk(head, rows)
}

/** The newest block whose changes flat state may have: that which is being folded, or was last. */
function newestInState(database: SourceOptions['database']): number {
  const folding = database.get('meta', META.folding)
  const folded = database.get('meta', META.foldHead)
  return Math.max(
    ...[folding, folded].map((row) => (row === undefined ? 0 : decodeHead(row).number)),
  )
}
