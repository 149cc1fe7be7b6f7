/** Makes a block durable: everything about it, by hash, in one batch. */
import { NO_BYTES } from '../../primitives/bytes.ts'
import { codesOf } from '../../state/encoded-diff.ts'
import { encodeList } from '../database/lists.ts'
import { META } from '../database/meta.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import type { AppendBlock, Marks, StoredHead } from '../types.ts'
import {
  encodeBody,
  encodeHead,
  encodeMomentary,
  encodeNumber,
  numberThen,
  tailKey,
} from './block-codec.ts'

/**
 * Header, body, receipts, diff, new code, momentary headers and the durable head: all or nothing, also under `kill -9`. Again for a
 * block that is there: the same rows. `also`: puts what else belongs to this commit.
 * @throws {DatabaseError} when the commit failed
 */
export function appendBlock(
  database: Database,
  block: AppendBlock,
  also?: (batch: WriteBatch) => void,
): void {
  const batch = database.batch()
  putAppended(batch, block)
  also?.(batch)
  batch.put('meta', META.durableHead, encodeHead(block))
  batch.commit()
}

/** The newest durable block is an older one again. */
export function writeDurableHead(
  database: Database,
  head: StoredHead,
  also?: (batch: WriteBatch) => void,
): void {
  const batch = database.batch()
  also?.(batch)
  batch.put('meta', META.durableHead, encodeHead(head))
  batch.commit()
}

function putAppended(batch: WriteBatch, block: AppendBlock): void {
  const { number, hash } = block
  batch.put('headers', hash, block.header)
  batch.put('bodies', hash, encodeBody(block.transactions))
  if (block.tail !== undefined) batch.put('bodies', tailKey(hash), block.tail)
  batch.put('receipts', hash, encodeList(block.receipts))
  batch.put('diffs', hash, block.diff)
  batch.put('heights', numberThen(number, hash), NO_BYTES)
  for (const { hash, code } of codesOf(block.diff)) batch.put('code', hash, code)
  for (const momentary of block.momentary) {
    batch.put('momentary', momentary.hash, encodeMomentary(hash, momentary))
    batch.put('momentary', numberThen(number, momentary.hash), NO_BYTES)
  }
}

/** Safe and finalized. */
export function putMarks(batch: WriteBatch, { safe, finalized }: Marks): void {
  batch.put('meta', META.marks, numberThen(safe, encodeNumber(finalized)))
}

/** Stores the labels in a commit of their own, when no block is stored with them. */
export function writeMarks(database: Database, marks: Marks): void {
  const batch = database.batch()
  putMarks(batch, marks)
  batch.commit()
}
