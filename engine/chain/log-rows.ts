/**
 * Logs of persisted blocks in their stored form, without the rest of their blocks. Searches read
 * and cache them.
 */
import { type Bytes, NO_BYTES, type Slab, take } from '../primitives/bytes.ts'
import { countStoredLogs, storedLogs } from '../primitives/receipt-codec.ts'
import { nextAt, startAt } from '../primitives/rlp.ts'
import type { StoredRows } from '../storage/types.ts'
import { bloomIn, hasLogs, timestampIn } from './block.ts'
import type { LogPattern, LogRow, LogRows } from './types.ts'

/** Distance between two topics of a log: 32 bytes and an RLP prefix. */
export const TOPIC_STEP = 33

/** Three numbers of 4 bytes each precede the hash of a transaction. */
const HASH_AT = 12
const LOGS_AT = HASH_AT + 32
const ADDRESS_BYTES = 20

/**
 * Copies the logs of a stored block; undefined when the block has logs but its transactions or
 * receipts are missing.
 */
export function packLogRows(
  { number, hash, header, body, receipts }: StoredRows,
  slab: Slab,
): LogRows | undefined {
  if (!hasLogs(header))
    return { number, hash, bloom: NO_BLOOM, timestamp: 0n, transactionCount: 0, packed: NO_BYTES }
  if (body === undefined || receipts === undefined) return undefined
  const lists = receipts.map(storedLogs)
  const size = lists.reduce((sum, list) => sum + (list.length > 0 ? LOGS_AT + list.length : 0), 0)
  const bytes = take(slab, BLOOM_BYTES + hash.length + size)
  bytes.set(bloomIn(header))
  bytes.set(hash, BLOOM_BYTES)
  const packed = bytes.subarray(BLOOM_BYTES + hash.length)
  let at = 0
  let logs = 0
  for (const [index, list] of lists.entries()) {
    if (list.length === 0) continue
    for (const [field, value] of [index, logs, list.length].entries())
      writeWord(packed, at + 4 * field, value)
    packed.set(body.transactions[index]!.hash, at + HASH_AT)
    packed.set(list, at + LOGS_AT)
    at += LOGS_AT + list.length
    logs += countStoredLogs(receipts[index]!)
  }
  return {
    number,
    hash: bytes.subarray(BLOOM_BYTES, BLOOM_BYTES + hash.length),
    bloom: bytes.subarray(0, BLOOM_BYTES),
    timestamp: timestampIn(header),
    transactionCount: receipts.length,
    packed,
  }
}

/**
 * Calls `found` with every matching log, in order. Other logs cost no allocation. Transactions with
 * an index below `first` are skipped.
 */
export function searchRows(
  rows: LogRows,
  { pattern, first }: { readonly pattern: LogPattern; readonly first: number },
  found: (row: LogRow) => void,
): void {
  const { packed } = rows
  for (let at = 0; at < packed.length; ) {
    const end = at + LOGS_AT + wordAt(packed, at + 8)
    const transactionIndex = wordAt(packed, at)
    let logIndex = wordAt(packed, at + 4)
    for (let log = at + LOGS_AT; transactionIndex >= first && log < end; logIndex++) {
      const address = startAt(packed, log) + 1
      const list = address + ADDRESS_BYTES
      const topics = startAt(packed, list) + 1
      const data = nextAt(packed, list)
      const topicCount = (data - topics + 1) / TOPIC_STEP
      const dataEnd = nextAt(packed, data)
      if (isMatch(packed, { address, topics, topicCount }, pattern))
        found({
          transactionHash: at + HASH_AT,
          transactionIndex,
          logIndex,
          address,
          topics,
          topicCount,
          data: startAt(packed, data),
          dataEnd,
        })
      log = dataEnd
    }
    at = end
  }
}

function isMatch(
  packed: Bytes,
  { address, topics, topicCount }: Pick<LogRow, 'address' | 'topics' | 'topicCount'>,
  pattern: LogPattern,
): boolean {
  if (pattern.topics.length > topicCount || !isOneOf(packed, address, pattern.addresses))
    return false
  for (let at = 0; at < pattern.topics.length; at++)
    if (!isOneOf(packed, topics + at * TOPIC_STEP, pattern.topics[at]!)) return false
  return true
}

/** Returns whether the bytes equal an alternative; an empty list matches everything. */
function isOneOf(packed: Bytes, at: number, alternatives: readonly Bytes[]): boolean {
  if (alternatives.length === 0) return true
  for (const each of alternatives) {
    let same = 0
    while (same < each.length && packed[at + same] === each[same]) same++
    if (same === each.length) return true
  }
  return false
}

function writeWord(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24
  bytes[at + 1] = value >>> 16
  bytes[at + 2] = value >>> 8
  bytes[at + 3] = value
}
const wordAt = (bytes: Bytes, at: number): number =>
  ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0

const BLOOM_BYTES = 256
const NO_BLOOM: Bytes = new Uint8Array(BLOOM_BYTES)
