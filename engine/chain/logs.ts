/**
 * Finds logs by block range: index and header blooms first, then the logs of the candidate blocks.
 * The index names candidates among persisted blocks; all blocks in diff layers are candidates.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { keccak256 } from '../primitives/keccak.ts'
import type { Log } from '../primitives/receipt.ts'
import { equalBytes } from '../primitives/words.ts'
import { LOG_SHARD_BLOCKS } from '../storage/blocks/log-index.ts'
import type { LogValues, ShardBits, StoreReader } from '../storage/types.ts'
import { searchRows } from './log-rows.ts'
import type {
  Block,
  BlockSpan,
  ChainView,
  FindLogs,
  FlashblockId,
  FoundLog,
  LogPattern,
  LogRows,
  LogSink,
} from './types.ts'

/** Finds logs. Blocks above the view's newest or below its earliest are left out. */
export const findLogs: FindLogs = (view, filter, { limits, sink }) => {
  const pattern = preparePattern(filter)
  const values = [filter.addresses, ...filter.topics]
  const range = { first: filter.fromBlock, last: filter.toBlock }
  const { firstTransaction = 0, toFlashblock } = filter
  let reads = 0
  let bytes = 0
  let logs = 0
  for (const { first, numbers } of view.logSpans(values, range)) {
    if (numbers.length === 0 && limits.isExpired())
      return { status: 'expired', firstLeftOut: first }
    for (const number of numbers) {
      if (limits.isExpired()) return { status: 'expired', firstLeftOut: number }
      const flashblockId = number === range.last ? toFlashblock : undefined
      const wanted = { pattern, first: number === range.first ? firstTransaction : 0 }
      const blockLogs = readBlockLogs(view, number, flashblockId)
      if (blockLogs === undefined || !mayMatch(blockLogs.bloom, pattern)) continue
      if (reads > 0 && reads >= limits.maxReads)
        return { status: 'tooMany', what: 'reads', found: logs, firstLeftOut: number }
      const found = search(blockLogs, wanted, sink)
      reads += found.receipts
      const count = logs + found.logs
      bytes += found.bytes
      const what = count > limits.maxLogs ? 'logs' : bytes > limits.maxBytes ? 'bytes' : undefined
      /*
       * The first block with logs is answered completely despite `maxLogs`. A block over `maxBytes`
       * is left out, unless it is the first.
       */
      const isLeftOut = logs > 0 || (what === 'bytes' && number > range.first)
      if (isLeftOut && what !== undefined)
        return { status: 'tooMany', what, found: count, firstLeftOut: number }
      logs = count
    }
  }
  return { status: 'found' }
}

type BlockLogs =
  | { readonly bloom: Bytes; readonly rows: LogRows }
  | { readonly bloom: Bytes; readonly rows: undefined; readonly block: Block }
type Wanted = { readonly pattern: PreparedPattern; readonly first: number }
type Searched = { readonly logs: number; readonly bytes: number; readonly receipts: number }

function readBlockLogs(
  view: ChainView,
  number: bigint,
  flashblockId: FlashblockId | undefined,
): BlockLogs | undefined {
  const rows = flashblockId === undefined ? view.logRows(number) : undefined
  if (rows !== undefined) return { bloom: rows.bloom, rows }
  const block = view.block(flashblockId === undefined ? { number } : { flashblock: flashblockId })
  return block && { bloom: block.logsBloom, rows, block }
}

function search(blockLogs: BlockLogs, wanted: Wanted, sink: LogSink): Searched {
  let logs = 0
  let bytes = 0
  const count = (dataBytes: number) => {
    logs++
    bytes += LOG_TEXT_BYTES + 2 * dataBytes
  }
  if (blockLogs.rows !== undefined) {
    const { rows } = blockLogs
    searchRows(rows, wanted, (row) => {
      count(row.dataEnd - row.data)
      sink.addRow(rows, row)
    })
    return { logs, bytes, receipts: rows.transactionCount }
  }
  const { found, receipts } = searchBlock(blockLogs.block, wanted)
  for (const one of found) {
    count(one.log.data.length)
    sink.add(one)
  }
  return { logs, bytes, receipts }
}

/** Size of the JSON text of a log with four topics, without its data. */
const LOG_TEXT_BYTES = 800

/** Returns the matching logs of one block, in order. */
export const logsIn = (block: Block, pattern: PreparedPattern): readonly FoundLog[] =>
  mayMatch(block.logsBloom, pattern) ? searchBlock(block, { pattern, first: 0 }).found : []

function searchBlock(
  block: Block,
  { pattern, first }: Wanted,
): { readonly found: readonly FoundLog[]; readonly receipts: number } {
  const found: FoundLog[] = []
  let firstLog = 0
  const summaries = block.logSummaries()
  for (const [index, { bloom, count }] of summaries.entries()) {
    if (index >= first && count > 0 && mayMatch(bloom, pattern)) {
      let hash: Bytes | undefined
      for (const [at, log] of block.receipt(index)!.logs.entries()) {
        if (!matches(log, pattern)) continue
        hash ??= block.transactionHash(index)!
        const location = { transactionIndex: index, logIndex: firstLog + at }
        found.push({ log, block, transactionHash: hash, ...location })
      }
    }
    firstLog += count
  }
  return { found, receipts: summaries.length }
}

/** A pattern with the bloom bits of each value. */
export type PreparedPattern = LogPattern & {
  /** Groups of alternatives: a bloom must have all bits of one alternative in every group. */
  readonly bits: readonly (readonly (readonly number[])[])[]
}

export function preparePattern(pattern: LogPattern): PreparedPattern {
  const groups = [pattern.addresses, ...pattern.topics].filter((group) => group.length > 0)
  return { ...pattern, bits: groups.map((group) => group.map(bitsOf)) }
}

export function matches(log: Log, { addresses, topics }: LogPattern): boolean {
  if (topics.length > log.topics.length) return false
  const isOne = (value: Bytes, alternatives: readonly Bytes[]) =>
    alternatives.length === 0 || alternatives.some((each) => equalBytes(each, value))
  return isOne(log.address, addresses) && topics.every((group, at) => isOne(log.topics[at]!, group))
}

/** Returns whether the bloom allows a match. An empty bloom means that there is no log. */
function mayMatch(bloom: Bytes, { bits }: PreparedPattern): boolean {
  if (bits.length === 0) return bloom.some((byte) => byte !== 0)
  return bits.every((group) =>
    group.some((alternative) =>
      alternative.every((bit) => (bloom[255 - (bit >> 3)]! & (1 << (bit & 7))) !== 0),
    ),
  )
}

/**
 * Returns the positions of a value in a bloom: the low 11 bits of the first three 16-bit words of
 * its hash.
 */
function bitsOf(value: Bytes): readonly number[] {
  const hash = keccak256(value)
  return [0, 2, 4].map((at) => ((hash[at]! << 8) | hash[at + 1]!) & 2047)
}

/**
 * Yields consecutive spans from `first` to `last`, each with its candidates in order.
 * An index row may include blocks that were persisted or unwound since. The caller reads every
 * candidate through a view, which knows its own chain.
 */
export function* logSpans(
  { store, base }: { readonly store: Pick<StoreReader, 'logBlocks'>; readonly base: number },
  values: LogValues,
  { first, last }: { readonly first: number; readonly last: number },
): Generator<BlockSpan, void> {
  const isIndexed = values.some((group) => group.length > 0)
  for (let from = first; from <= last; ) {
    const shard = Math.floor(from / LOG_SHARD_BLOCKS)
    const end = (shard + 1) * LOG_SHARD_BLOCKS - 1
    const isInIndex = isIndexed && from <= base
    const to = Math.min(end, last, isInIndex ? base : last)
    const bits = isInIndex ? store.logBlocks(values, shard) : undefined
    yield { first: BigInt(from), numbers: candidates(bits, from, to) }
    from = to + 1
  }
}

function candidates(bits: ShardBits | undefined, from: number, to: number): readonly bigint[] {
  const numbers: bigint[] = []
  for (let number = from; number <= to; number++) {
    const offset = number % LOG_SHARD_BLOCKS
    if (bits === undefined || (bits[offset >> 5]! & (1 << (offset & 31))) !== 0)
      numbers.push(BigInt(number))
  }
  return numbers
}
