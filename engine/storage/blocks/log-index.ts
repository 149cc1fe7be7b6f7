/**
 * The log index: for each address, and each topic at its position, the blocks that have such a log. A row holds a shard of blocks; a
 * posting is appended to it without reading it (a read and a write for each of a block's thousands of values would take half a fold).
 *
 * Postings are never taken out. A fold that is begun again appends its own twice, an unfold leaves those of the dropped block: a list is
 * a set of candidates, and whoever reads it looks at the receipts of each. What it must not do is miss one, so postings are written
 * before the fold head moves.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeStoredReceipt } from '../../primitives/receipt-codec.ts'
import { latin1 } from '../../state/words.ts'
import { decodeList } from '../database/lists.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import type { LogValues, ShardBits } from '../types.ts'
import { decodeNumber, encodeNumber } from './block-codec.ts'

/** Blocks of one row. */
export const LOG_SHARD_BLOCKS = 1024

/** What a block adds, each value once. */
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

/** As `StoreReader.logBlocks` says. */
export function logBlocks(
  database: Pick<Database, 'getMany'>,
  values: LogValues,
  shard: number,
): ShardBits {
  const suffix = encodeNumber(shard)
  let found: ShardBits | undefined
  // A group of a thousand values is not read where one of a single value has found nothing.
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
 * The migration from format 1, which had no index: postings of some folded blocks, from the one whose number `from` is the key of.
 * Blocks that are not folded get theirs from their fold.
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
    // Of the block whose state was loaded.
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
