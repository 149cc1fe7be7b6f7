/** Logs by block range: the index and header blooms first, then the logs of the blocks that may have some, of folded blocks in the form they are stored in. */
import type { Bytes } from '../primitives/bytes.ts'
import { keccak256 } from '../primitives/keccak.ts'
import type { Log } from '../primitives/receipt.ts'
import { equalBytes } from '../primitives/words.ts'
import { searchRows } from './log-rows.ts'
import type {
  Block,
  ChainView,
  FindLogs,
  FlashblockPlace,
  FoundLog,
  LogPattern,
  LogRows,
  LogSink,
} from './types.ts'

/** Blocks above the view's newest or below its earliest are left out. */
export const findLogs: FindLogs = (view, filter, { limits, sink }) => {
  const pattern = preparePattern(filter)
  const values = [filter.addresses, ...filter.topics]
  const range = { first: filter.fromBlock, last: filter.toBlock }
  const { firstTransaction = 0, toPlace } = filter
  let reads = 0
  let bytes = 0
  let logs = 0
  for (const { first, numbers } of view.logSpans(values, range)) {
    if (numbers.length === 0 && limits.isExpired())
      return { status: 'expired', firstLeftOut: first }
    for (const number of numbers) {
      if (limits.isExpired()) return { status: 'expired', firstLeftOut: number }
      const place = number === range.last ? toPlace : undefined
      const wanted = { pattern, first: number === range.first ? firstTransaction : 0 }
      const looked = lookAt(view, number, place)
      if (looked === undefined || !mayMatch(looked.bloom, pattern)) continue
      if (reads > 0 && reads >= limits.maxReads)
        return { status: 'tooMany', what: 'reads', found: logs, firstLeftOut: number }
      const found = search(looked, wanted, sink)
      reads += found.receipts
      const count = logs + found.logs
      bytes += found.bytes
      const what = count > limits.maxLogs ? 'logs' : bytes > limits.maxBytes ? 'bytes' : undefined
      // A block that has more logs than may be is answered whole; one with more bytes can not be, but the blocks before it can.
      const isLeftOut = logs > 0 || (what === 'bytes' && number > range.first)
      if (isLeftOut && what !== undefined)
        return { status: 'tooMany', what, found: count, firstLeftOut: number }
      logs = count
    }
  }
  return { status: 'found' }
}

type Looked =
  | { readonly bloom: Bytes; readonly rows: LogRows }
  | { readonly bloom: Bytes; readonly rows: undefined; readonly block: Block }
type Wanted = { readonly pattern: PreparedPattern; readonly first: number }
type Searched = { readonly logs: number; readonly bytes: number; readonly receipts: number }

/** undefined: no such block. */
function lookAt(
  view: ChainView,
  number: bigint,
  place: FlashblockPlace | undefined,
): Looked | undefined {
  const rows = place === undefined ? view.logRows(number) : undefined
  if (rows !== undefined) return { bloom: rows.bloom, rows }
  const block = view.block(place === undefined ? { number } : { flashblock: place })
  return block && { bloom: block.logsBloom, rows, block }
}

function search(looked: Looked, wanted: Wanted, sink: LogSink): Searched {
  let logs = 0
  let bytes = 0
  const count = (dataBytes: number) => {
    logs++
    bytes += LOG_TEXT_BYTES + 2 * dataBytes
  }
  if (looked.rows !== undefined) {
    const { rows } = looked
    searchRows(rows, wanted, (row) => {
      count(row.dataEnd - row.data)
      sink.addRow(rows, row)
    })
    return { logs, bytes, receipts: rows.transactionCount }
  }
  const { found, receipts } = searchBlock(looked.block, wanted)
  for (const one of found) {
    count(one.log.data.length)
    sink.add(one)
  }
  return { logs, bytes, receipts }
}

/** Of a log with four topics, its data aside. */
const LOG_TEXT_BYTES = 800

/** Logs of one block that match, in order. */
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
        const place = { transactionIndex: index, logIndex: firstLog + at }
        found.push({ log, block, transactionHash: hash, ...place })
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

/** Never without a bit in the bloom: there is no log then. */
function mayMatch(bloom: Bytes, { bits }: PreparedPattern): boolean {
  if (bits.length === 0) return bloom.some((byte) => byte !== 0)
  return bits.every((group) =>
    group.some((alternative) =>
      alternative.every((bit) => (bloom[255 - (bit >> 3)]! & (1 << (bit & 7))) !== 0),
    ),
  )
}

/** Positions of a value in a bloom: the low 11 bits of the first three 16-bit words of its hash. */
function bitsOf(value: Bytes): readonly number[] {
  const hash = keccak256(value)
  return [0, 2, 4].map((at) => ((hash[at]! << 8) | hash[at + 1]!) & 2047)
}
