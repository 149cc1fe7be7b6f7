/**
 * A new replica's side of a copy checks rows and blocks of a source. It commits each response with
 * the progress. Rows come from a moving state. Changes after the start are in the diffs of newer
 * blocks. They are taken back before the state is made (made-state.ts).
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { equalBytes } from '../../primitives/words.ts'
import { codesOf } from '../../state/encoded-diff.ts'
import {
  decodeNumber,
  encodeNumber,
  encodeTransactionLocation,
  numberThen,
  tailKey,
} from '../blocks/block-codec.ts'
import { logPostings } from '../blocks/log-index.ts'
import { decodeList } from '../database/lists.ts'
import { type LogLength, openLogLength } from '../database/log-length.ts'
import { META } from '../database/meta.ts'
import type { Database, Entry, WriteBatch } from '../database/types.ts'
import type { StoredBody, StoredHead } from '../types.ts'
import { ChunkError, checksumOfRows } from './chunk.ts'
import { type CopiedColumn, historyPrefix, type RowsRequest, rowsFault } from './columns.ts'
import {
  type BlockRules,
  type CopiedBlock,
  checkCopiedBlock,
  readCopiedBlocks,
} from './copied-block.ts'
import type { CopyRequest } from './copy-request.ts'
import {
  BootstrapError,
  clearRanges,
  newProgress,
  PARTS,
  type Part,
  type Progress,
  putProgress,
  putRange,
  rangeAt,
  readProgress,
} from './progress.ts'

/** The source's blocks have another parent than the replica's tip: the source was reorganised. */
export class ForkError extends Error {
  override name = 'ForkError'
}
/**
 * The source does not retain the diffs of newer blocks any more. The copy restarts at a later block
 * and checks all ranges again.
 */
export class GapError extends Error {
  override name = 'GapError'
}

export type Copy = {
  readonly progress: () => Progress | undefined
  /** Starts a copy in an empty database. */
  start(progress: Progress): void
  /** Takes over the progress after `makeState`. */
  made(progress: Progress): void
  /** The next range to request; undefined if there is none. */
  nextRows(): Extract<CopyRequest, { readonly part: 'rows' }> | undefined
  /**
   * Stores a response.
   * @throws {ChunkError} if the rows do not match the request
   */
  takeRows(request: RowsRequest, response: RowsResponse): void
  /**
   * Stores blocks of the chain up to the start.
   * @throws {ChunkError}
   */
  takeBlocks(rows: readonly Entry[], from: number): void
  /**
   * Stores newer blocks.
   * @throws {ChunkError} {ForkError} {GapError}
   */
  takeTip(rows: readonly Entry[]): void
  /** Restarts the copy at a later block; existing ranges are checked again. */
  restart(about: Pick<Progress, 'start' | 'oldest'>): void
  /**
   * Makes an older block the tip. State is requested again, because rows may have changes of the
   * dropped blocks.
   */
  goBack(to: StoredHead): void
  /** Requests all of the state again. */
  forgetState(): void
  readonly headerOf: (hash: Bytes) => Bytes | undefined
}
export type CopiedChain = Pick<ChainSpec, 'name' | 'genesisNumber' | 'genesisHash'>
export type RowsResponse = {
  readonly rows: readonly Entry[]
  readonly next: Bytes | undefined
  readonly upTo: number
  /** Oldest block whose state the source had after the read. */
  readonly oldest: number
  readonly isSame: boolean
}

export function openCopy(inner: Database, chain: CopiedChain, rules: BlockRules): Copy {
  const log = openLogLength(inner)
  const { database } = log
  let progress = readProgress(database)
  const commit = (batch: WriteBatch, next: Progress) => {
    putProgress(batch, next)
    batch.commit()
    progress = next
    shorten(log)
  }
  const now = (): Progress => {
    if (progress === undefined) throw new Error('no copy was begun')
    return progress
  }
  return {
    progress: () => progress,
    headerOf: (hash) => database.get('headers', hash),
    start(next) {
      const batch = database.batch()
      batch.put('meta', META.importing, new Uint8Array(1))
      commit(batch, next)
    },
    made(next) {
      progress = next
    },
    restart(about) {
      const batch = database.batch()
      const { start, above, at } = now()
      // A row of a height says that its block can be unwound, which is wrong below the new start.
      for (const { key } of database.scan('heights', { gte: NO_BYTES, lt: END })) {
        batch.delete('heights', key)
        batch.delete('diffs', key.slice(8))
      }
      const hasHistory = at.accountHistory === undefined && at.slotHistory === undefined
      const next = newProgress({ ...now(), ...about }, hasHistory ? start.number : above)
      const blocks = at.blocks ?? encodeNumber(start.number + 1)
      commit(batch, { ...next, at: { ...next.at, blocks } })
    },
    nextRows: () => nextRows(database, now()),
    takeRows(request, response) {
      const batch = database.batch()
      putRows(database, batch, request, response)
      const before = now()
      const at = { ...before.at, [request.column]: response.next ?? request.to }
      const upTo = Math.max(before.upTo, response.upTo)
      commit(batch, { ...before, at, upTo, oldest: Math.max(before.oldest, response.oldest) })
    },
    takeBlocks(rows, from) {
      const batch = database.batch()
      const at = putBlocks({ database, chain, rules }, batch, { rows, from, progress: now() })
      commit(batch, { ...now(), at: { ...now().at, blocks: at } })
    },
    takeTip(rows) {
      const batch = database.batch()
      const tip = putTip({ chain, rules }, batch, { rows, progress: now() })
      commit(batch, { ...now(), tip })
    },
    goBack(to) {
      const at = { ...now().at, accounts: NO_BYTES, slots: NO_BYTES }
      commit(database.batch(), { ...now(), tip: to, at })
    },
    forgetState() {
      const batch = database.batch()
      clearRanges(database, batch)
      const at = { ...now().at, code: NO_BYTES, accounts: NO_BYTES, slots: NO_BYTES }
      commit(batch, { ...now(), at })
    },
  }
}

function shorten(log: LogLength): void {
  for (const _ of log.shorten());
}

type Columns = Exclude<Part, 'blocks'>
const COLUMNS = PARTS.filter((part): part is Columns => part !== 'blocks')

function nextRows(database: Database, { at, above, oldest, start }: Progress) {
  const column = COLUMNS.find((name) => at[name] !== undefined)
  if (column === undefined) return undefined
  const from = at[column]!
  const limits = {
    above: historyPrefix(column) === undefined ? 0 : Math.max(above, oldest),
    upTo: start.number,
  }
  if (historyPrefix(column) !== undefined)
    return { part: 'rows', column, from, to: undefined, known: undefined, ...limits } as const
  const { known, next } = rangeAt(database, column, from)
  return {
    part: 'rows',
    column,
    from,
    to: known?.to ?? next,
    known: known?.checksum,
    ...limits,
  } as const
}

function putRows(
  database: Database,
  batch: WriteBatch,
  request: RowsRequest,
  response: RowsResponse,
): void {
  const { column, from, to } = request
  const { rows, next, isSame } = response
  if (isSame) {
    if (next !== undefined || rows.length > 0)
      throw new ChunkError(`a range of ${column} is the same, and is not`)
    return
  }
  const end = next ?? to
  const fault = rowsFault(rows, request)
  if (fault !== undefined) throw new ChunkError(fault)
  const isPast = rows.length > 0 && next !== undefined && !isAbove(next, rows.at(-1)!.key)
  if (isPast || (next !== undefined && !isAbove(next, from)))
    throw new ChunkError(`the rest of ${column} begins at ${bytesToHex(next!)}, which was passed`)
  if (historyPrefix(column) === undefined) {
    // Rows of this range may be deleted at the source by now.
    for (const { key } of database.scan(column, { gte: from, lt: end ?? END, isOnce: true }))
      batch.delete(column, key)
    putRange(batch, column as CopiedColumn, { from, to: end, checksum: checksumOfRows(rows) })
  }
  for (const { key, value } of rows) batch.put(column, key, value)
}
const END: Bytes = new Uint8Array(80).fill(0xff)
const isAbove = (a: Bytes, b: Bytes): boolean => Buffer.compare(a, b) > 0

type Around = {
  readonly database: Database
  readonly chain: CopiedChain
  readonly rules: BlockRules
}
type Came = { readonly rows: readonly Entry[]; readonly from: number; readonly progress: Progress }

/**
 * Puts blocks into the batch. Returns the key of the next block; undefined once the start is
 * reached.
 */
function putBlocks(
  around: Around,
  batch: WriteBatch,
  { rows, from, progress }: Came,
): Bytes | undefined {
  const { database, chain, rules } = around
  const { start, first } = progress
  let parent = from === first ? undefined : database.get('numbers', encodeNumber(from - 1))
  for (const block of checked(() => readCopiedBlocks(rows, from))) {
    const { number, hash } = block
    if (number > start.number) return undefined
    const isGenesis = BigInt(number) === chain.genesisNumber
    if (parent !== undefined && !equalBytes(block.parentHash, parent))
      throw new ChunkError(`block ${number} does not stand on block ${number - 1}`)
    if (isGenesis && !equalBytes(hash, chain.genesisHash))
      throw new ChunkError(`its first block is ${bytesToHex(hash)}, not that of ${chain.name}`)
    if (number === start.number && !equalBytes(hash, start.hash))
      throw new BootstrapError(
        `the source has another block ${number} than when the copy began: remove the directory, and run the same command again`,
      )
    const isBare = number === first && !isGenesis
    const body = checked(() => checkCopiedBlock(block, rules, { isBare, isGenesis }))
    putContents(batch, block)
    if (body !== undefined) putIndexes(batch, block, body)
    if (progress.keepsDiffs && block.diff !== undefined) batch.put('diffs', hash, block.diff)
    batch.put('numbers', encodeNumber(number), hash)
    parent = hash
    if (number === start.number) return undefined
    from = number + 1
  }
  return encodeNumber(from)
}

function putTip(
  { chain, rules }: Omit<Around, 'database'>,
  batch: WriteBatch,
  { rows, progress }: Omit<Came, 'from'>,
): StoredHead {
  let { tip } = progress
  for (const block of checked(() => readCopiedBlocks(rows, tip.number + 1))) {
    const { number, hash, diff } = block
    if (!equalBytes(block.parentHash, tip.hash)) {
      if (tip === progress.tip) throw new ForkError(`block ${number} stands on another block`)
      throw new ChunkError(`block ${number} does not stand on block ${number - 1}`)
    }
    if (diff === undefined) throw new GapError(`block ${number} came without what it changed`)
    const isGenesis = BigInt(number) === chain.genesisNumber
    checked(() => checkCopiedBlock(block, rules, { isBare: false, isGenesis }))
    putContents(batch, block)
    batch.put('diffs', hash, diff)
    batch.put('heights', numberThen(number, hash), NO_BYTES)
    for (const code of codesOf(diff)) batch.put('code', code.hash, code.code)
    tip = { number, hash }
  }
  return tip
}

function putContents(batch: WriteBatch, { hash, header, body, tail, receipts }: CopiedBlock): void {
  batch.put('headers', hash, header)
  if (body !== undefined) batch.put('bodies', hash, body)
  if (tail !== undefined) batch.put('bodies', tailKey(hash), tail)
  if (receipts !== undefined) batch.put('receipts', hash, receipts)
}

function putIndexes(batch: WriteBatch, { number, receipts }: CopiedBlock, body: StoredBody): void {
  for (const [index, { hash }] of body.transactions.entries())
    batch.put('transactions', hash, encodeTransactionLocation({ blockNumber: number, index }))
  for (const { key, value } of logPostings(number, decodeList(receipts!)))
    batch.merge('logs', key, value)
}

/** Turns an error of a decoder or a check into a ChunkError. */
function checked<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new ChunkError((error as Error).message)
  }
}

/** Height of the next block to request; undefined if all are copied. */
export const blocksFrom = ({ at, first }: Progress): number | undefined =>
  at.blocks === undefined ? undefined : at.blocks.length === 0 ? first : decodeNumber(at.blocks)
