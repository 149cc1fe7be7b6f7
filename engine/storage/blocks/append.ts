/**
 * Makes a block durable: all its rows, by hash, in one batch. The first block of a database is also
 * persisted, safe and finalized; the caller writes its state.
 */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { encodeHeader, type Header, hashHeader } from '../../primitives/header.ts'
import { concatBytes } from '../../primitives/words.ts'
import { codesOf } from '../../state/encoded-diff.ts'
import { encodeList } from '../database/lists.ts'
import { META } from '../database/meta.ts'
import type { Database, WriteBatch } from '../database/types.ts'
import type { AppendBlock, LabelledHeads, StoredHead } from '../types.ts'
import {
  encodeBody,
  encodeHead,
  encodeNumber,
  encodePartialHeader,
  numberThen,
  tailKey,
} from './block-codec.ts'

/**
 * Commits header, body, receipts, diff, new code, partial headers and the durable head: all or
 * nothing, also under `kill -9`. A second append of a block writes the same rows.
 * @param also puts further rows of this commit
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

/** Makes an older block the newest durable one again. */
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
  for (const partialHeader of block.partialHeaders) {
    batch.put('momentary', partialHeader.hash, encodePartialHeader(hash, partialHeader))
    batch.put('momentary', numberThen(number, partialHeader.hash), NO_BYTES)
  }
}

export function putLabelledHeads(batch: WriteBatch, { safe, finalized }: LabelledHeads): void {
  batch.put('meta', META.labelledHeads, numberThen(safe, encodeNumber(finalized)))
}

/** Stores safe and finalized in a commit of their own, when no block is stored with them. */
export function writeLabelledHeads(database: Database, labelledHeads: LabelledHeads): void {
  const batch = database.batch()
  putLabelledHeads(batch, labelledHeads)
  batch.commit()
}

/**
 * Puts the first block into a batch.
 * @param isEmpty whether the block is known to have no transactions; otherwise its body stays
 * unknown
 * @returns its hash
 */
export function putFirstBlock(
  batch: WriteBatch,
  header: Header,
  { isEmpty }: { readonly isEmpty: boolean },
): Bytes {
  const hash = hashHeader(header)
  const number = Number(header.number)
  batch.put('headers', hash, encodeHeader(header))
  if (isEmpty) {
    batch.put('bodies', hash, encodeBody([]))
    batch.put('receipts', hash, encodeList([]))
  }
  batch.put('numbers', encodeNumber(number), hash)
  const head = encodeHead({ number, hash })
  batch.put('meta', META.durableHead, head)
  batch.put('meta', META.persistedHead, head)
  batch.put('meta', META.oldest, encodeNumber(number))
  batch.put('meta', META.labelledHeads, concatBytes(encodeNumber(number), encodeNumber(number)))
  return hash
}
