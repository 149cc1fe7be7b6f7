/**
 * The log index lists, for each address and each topic at its position, the blocks with such a log.
 * A row has a shard of blocks. Postings are appended without reading the row. A read and a write
 * for each of a block's thousands of values would take half a persist pass.
 *
 * Postings are never removed. A repeated persist pass appends its postings twice, and an unwind
 * leaves those of the dropped block. A list is a set of candidates, so its reader checks the
 * receipts of each block. No block may be missing, so postings are written before the persisted
 * head moves.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeStoredReceipt } from '../../primitives/receipt-codec.ts'
import { latin1 } from '../../state/words.ts'
import { decodeList } from '../database/lists.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import type { LogValues, ShardBits } from '../types.ts'
import { decodeNumber, encodeNumber } from './block-codec.ts'

export const LOG_SHARD_BLOCKS = 1024

/** Postings of a block, each value once. */
export function* logPostings(
  number: number,
  receipts: Iterable<Bytes>,
): Generator<{ readonly key: Bytes; readonly value: Bytes }, void> {
  const shard = encodeNumber(Math.floor(number / LOG_SHARD_BLOCKS))
  const offset = number % LOG_SHARD_BLOCKS
  const value = Uint8Array.of(offset >> 8, offset & 0xff)
  const seen = [0, 1, 2, 3, 4].map(() => new Set<string>())
  for (const receipt of receipts)
    for (const { address, topics } of decodeStoredReceipt(receipt).logs)
      for (const [kind, one] of [address, ...topics].entries()) {
        const name = latin1(one)
        if (seen[kind]!.has(name)) continue
        seen[kind]!.add(name)
        yield { key: keyOf(kind, one, shard), value }
      }
}

/** Implements `StoreReader.logBlocks`. */
export function logBlocks(
  database: Pick<Database, 'getMany'>,
  values: LogValues,
  shard: number,
): ShardBits {
  const suffix = encodeNumber(shard)
  let found: ShardBits | undefined
  // Small groups are read first, so that a large one is skipped when a small one finds nothing.
  const groups = [...values.entries()].filter(([, group]) => group.length > 0)
  groups.sort(([, a], [, b]) => a.length - b.length)
  for (const [kind, group] of groups) {
    const keys = group.map((one) => keyOf(kind, one, suffix))
    const bits = new Uint32Array(WORDS)
    for (const row of database.getMany('logs', keys)) if (row !== undefined) setBits(bits, row)
    for (let word = 0; found !== undefined && word < WORDS; word++) bits[word]! &= found[word]!
    if (!bits.some((word) => word !== 0)) return bits
    found = bits
  }
  if (found === undefined) throw new Error('a log query without a value is no matter of the index')
  return found
}

/**
 * Migrates from format 1, which had no index: indexes a slice of the persisted blocks. Unpersisted
 * blocks are indexed by their persist pass.
 * @param from key of the first block's number
 * @returns key of the next slice, undefined at the end
 */
export function indexOlderLogs(
  database: Database,
  batch: WriteBatch,
  from: Bytes = encodeNumber(0),
): Bytes | undefined {
  const lt = encodeNumber(Number.MAX_SAFE_INTEGER)
  for (const { key, value: hash } of database.scan('numbers', { gte: from, lt })) {
    if (
      batch.length >= POSTINGS_IN_SLICE ||
      decodeNumber(key) >= decodeNumber(from) + BLOCKS_IN_SLICE
    )
      return key
    const receipts = database.get('receipts', hash)
    // The block whose state was imported has no receipts.
    if (receipts === undefined) continue
    const postings = logPostings(decodeNumber(key), decodeList(receipts))
    for (const posting of postings) batch.merge('logs', posting.key, posting.value)
  }
  return undefined
}

const BLOCKS_IN_SLICE = 256
const POSTINGS_IN_SLICE = 4096
const WORDS = LOG_SHARD_BLOCKS / 32

/** Kind 0: an address; 1 to 4: a topic at this position. `shard`: its number as bytes. */
function keyOf(kind: number, value: Bytes, shard: Bytes): Bytes {
  const key = new Uint8Array(1 + value.length + shard.length)
  key[0] = kind
  key.set(value, 1)
  key.set(shard, 1 + value.length)
  return key
}

function setBits(bits: ShardBits, row: Bytes): void {
  for (let at = 0; at + 1 < row.length; at += 2) {
    const offset = (row[at]! << 8) | row[at + 1]!
    bits[offset >> 5]! |= 1 << (offset & 31)
  }
}
