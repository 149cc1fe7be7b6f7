/**
 * A new replica's side: rows and blocks of a source are checked and written, each answer with how far the copy has come in one commit.
 * Rows come from a state that moves: what differs in them between the start and the newest block is in what these blocks changed, and is
 * taken back before the state is made (made-state.ts).
 */
import type { ChainSpec } from '../../chainspec/types.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { equalBytes } from '../../primitives/words.ts'
import { codesOf } from '../../state/encoded-diff.ts'
import {
  decodeNumber,
  encodeNumber,
  encodePlace,
  numberThen,
  tailKey,
} from '../blocks/block-codec.ts'
import { logPostings } from '../blocks/log-index.ts'
import { decodeList } from '../database/lists.ts'
import { type LogLength, openLogLength } from '../database/log-length.ts'
import { META } from '../database/meta.ts'
import type { Database, Entry, WriteBatch } from '../database/types.ts'
import type { StoredBody, StoredHead } from '../types.ts'
import type { Asked } from './asked.ts'
import { ChunkError, checksumOfRows } from './chunk.ts'
import { type AskedRows, type CopiedColumn, historyPrefix, rowsFault } from './columns.ts'
import {
  type BlockRules,
  type CopiedBlock,
  checkCopiedBlock,
  readCopiedBlocks,
} from './copied-block.ts'
import { BootstrapError } from './fault.ts'
import {
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

/** Blocks of the source stand on another one than is here: it was reorganised. */
export class ForkError extends Error {
  override name = 'ForkError'
}
/** What newer blocks changed is not kept at the source any more: the copy begins at a later block, and looks at all ranges again. */
export class GapError extends Error {
  override name = 'GapError'
}

export type Copy = {
  readonly progress: () => Progress | undefined
  /** In a database that holds nothing. */
  begin(progress: Progress): void
  /** The state is made of what came, by `makeState`. */
  made(progress: Progress): void
  /** The next range to be asked for; undefined: there is none. */
  nextRows(): Extract<Asked, { readonly part: 'rows' }> | undefined
  /** @throws {ChunkError} where they are not what was asked for */
  takeRows(asked: AskedRows, answer: RowsAnswer): void
  /** Blocks of the chain up to the start. @throws {ChunkError} */
  takeBlocks(rows: readonly Entry[], from: number): void
  /** Newer ones. @throws {ChunkError} {ForkError} {GapError} */
  takeTip(rows: readonly Entry[]): void
  /** The copy goes on with a later block: what is here is looked at again. */
  beginAnew(about: Pick<Progress, 'start' | 'oldest'>): void
  /** The newest block that is here is an older one: rows may have what the others changed. */
  goBack(to: StoredHead): void
  /** Everything of the state is asked for again. */
  forgetState(): void
  readonly headerOf: (hash: Bytes) => Bytes | undefined
}
export type CopiedChain = Pick<ChainSpec, 'name' | 'genesisNumber' | 'genesisHash'>
export type RowsAnswer = {
  readonly rows: readonly Entry[]
  readonly next: Bytes | undefined
  readonly upTo: number
  /** Oldest block whose state the source had afterwards. */
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
    begin(next) {
      const batch = database.batch()
      batch.put('meta', META.importing, new Uint8Array(1))
      commit(batch, next)
    },
    made(next) {
      progress = next
    },
    beginAnew(about) {
      const batch = database.batch()
      const { start, above, at } = now()
      // Above the start they said what can be undone.
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
    takeRows(asked, answer) {
      const batch = database.batch()
      putRows(database, batch, asked, answer)
      const before = now()
      const at = { ...before.at, [asked.column]: answer.next ?? asked.to }
      const upTo = Math.max(before.upTo, answer.upTo)
      commit(batch, { ...before, at, upTo, oldest: Math.max(before.oldest, answer.oldest) })
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
  asked: AskedRows,
  answer: RowsAnswer,
): void {
  const { column, from, to } = asked
  const { rows, next, isSame } = answer
  if (isSame) {
    if (next !== undefined || rows.length > 0)
      throw new ChunkError(`a range of ${column} is the same, and is not`)
    return
  }
  const end = next ?? to
  const fault = rowsFault(rows, asked)
  if (fault !== undefined) throw new ChunkError(fault)
  const isPast = rows.length > 0 && next !== undefined && !isAbove(next, rows.at(-1)!.key)
  if (isPast || (next !== undefined && !isAbove(next, from)))
    throw new ChunkError(`the rest of ${column} begins at ${bytesToHex(next!)}, which was passed`)
  if (historyPrefix(column) === undefined) {
    // What was here of the range may be gone at the source.
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

/** Where the next ones begin; undefined: the start is among them. */
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
    batch.put('transactions', hash, encodePlace({ blockNumber: number, index }))
  for (const { key, value } of logPostings(number, decodeList(receipts!)))
    batch.merge('logs', key, value)
}

/** What a decoder or a check has against what came. */
function checked<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new ChunkError((error as Error).message)
  }
}

/** Where the blocks go on. */
export const blocksFrom = ({ at, first }: Progress): number | undefined =>
  at.blocks === undefined ? undefined : at.blocks.length === 0 ? first : decodeNumber(at.blocks)
