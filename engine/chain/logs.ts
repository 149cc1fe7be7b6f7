/** Logs by block range: header blooms first, receipts of the blocks that may have some. Folded blocks and tables look alike here. */
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
  const first = filter.fromBlock > view.earliest ? filter.fromBlock : view.earliest
  const last = filter.toBlock < view.pending.number ? filter.toBlock : view.pending.number
  for (let number = first; number <= last; number++) {
    if (limits.isExpired()) return { status: 'expired', firstLeftOut: number }
    const block = view.block({ number })
    if (block === undefined) continue
    const found = logsIn(block, pattern)
    if (logs.length > 0 && logs.length + found.length > limits.maxLogs)
      return { status: 'tooMany', found: logs.length + found.length, firstLeftOut: number }
    for (const log of found) logs.push(log)
  }
  return { status: 'found', logs }
}

/** Logs of one block that match, in order. `fromTransaction`: only of transactions from this index on. */
export function logsIn(
  block: Block,
  pattern: PreparedPattern,
  fromTransaction = 0,
): readonly FoundLog[] {
  if (!mayMatch(block.logsBloom, pattern)) return []
  const found: FoundLog[] = []
  for (let index = fromTransaction; index < block.transactionCount; index++) {
    const receipt = block.receipt(index)!
    if (receipt.logs.length === 0 || !mayMatch(receipt.logsBloom, pattern)) continue
    let hash: Bytes | undefined
    for (const [at, log] of receipt.logs.entries()) {
      if (!matches(log, pattern)) continue
      hash ??= block.transactionHash(index)!
      const logIndex = block.firstLogIndex(index) + at
      found.push({ log, block, transactionHash: hash, transactionIndex: index, logIndex })
    }
  }
  return found
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

function mayMatch(bloom: Bytes, { bits }: PreparedPattern): boolean {
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
