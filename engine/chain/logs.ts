/** Logs by block range: the index and header blooms first, then receipts of the blocks that may have some. Folded blocks and tables look alike. */
import type { Bytes } from '../primitives/bytes.ts'
import { keccak256 } from '../primitives/keccak.ts'
import type { Log } from '../primitives/receipt.ts'
import { equalBytes } from '../primitives/words.ts'
import type { Block, FindLogs, FoundLog, LogFilter } from './types.ts'

/** What a log must have, of a filter. */
export type LogPattern = Pick<LogFilter, 'addresses' | 'topics'>

/** Blocks above the view's newest or below its earliest are left out. */
export const findLogs: FindLogs = (view, filter, limits) => {
  const pattern = preparePattern(filter)
  const logs: FoundLog[] = []
  const values = [filter.addresses, ...filter.topics]
  const range = { first: filter.fromBlock, last: filter.toBlock }
  const { firstTransaction = 0, toPlace } = filter
  let reads = 0
  let bytes = 0
  for (const { first, numbers } of view.logSpans(values, range)) {
    if (numbers.length === 0 && limits.isExpired())
      return { status: 'expired', firstLeftOut: first }
    for (const number of numbers) {
      if (limits.isExpired()) return { status: 'expired', firstLeftOut: number }
      const isLast = number === range.last && toPlace !== undefined
      const block = view.block(isLast ? { flashblock: toPlace } : { number })
      if (block === undefined || !mayMatch(block.logsBloom, pattern)) continue
      if (reads > 0 && reads >= limits.maxReads)
        return { status: 'tooMany', what: 'reads', found: logs.length, firstLeftOut: number }
      const { found, receipts } = search(
        block,
        pattern,
        number === range.first ? firstTransaction : 0,
      )
      reads += receipts
      const count = logs.length + found.length
      bytes += found.reduce((sum, { log }) => sum + LOG_TEXT_BYTES + 2 * log.data.length, 0)
      const what = count > limits.maxLogs ? 'logs' : bytes > limits.maxBytes ? 'bytes' : undefined
      // A block that has more logs than may be is answered whole; one with more bytes can not be, but the blocks before it can.
      const isLeftOut = logs.length > 0 || (what === 'bytes' && number > range.first)
      if (isLeftOut && what !== undefined)
        return { status: 'tooMany', what, found: count, firstLeftOut: number }
      for (const log of found) logs.push(log)
    }
  }
  return { status: 'found', logs }
}

/** Of a log with four topics, its data aside. */
const LOG_TEXT_BYTES = 800

/** Logs of one block that match, in order. */
export const logsIn = (block: Block, pattern: PreparedPattern): readonly FoundLog[] =>
  mayMatch(block.logsBloom, pattern) ? search(block, pattern, 0).found : []

function search(
  block: Block,
  pattern: PreparedPattern,
  firstTransaction: number,
): { readonly found: readonly FoundLog[]; readonly receipts: number } {
  const found: FoundLog[] = []
  let firstLog = 0
  const summaries = block.logSummaries()
  for (const [index, { bloom, count }] of summaries.entries()) {
    if (index >= firstTransaction && count > 0 && mayMatch(bloom, pattern)) {
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
