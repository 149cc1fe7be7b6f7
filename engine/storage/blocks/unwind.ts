/** Removes persisted blocks from flat state, newest first, one batch per block. */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeHeader } from '../../primitives/header.ts'
import { equalBytes } from '../../primitives/words.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import { deleteUndo, restoreNodes } from '../trie/undo.ts'
import type { StoredHead } from '../types.ts'
import { decodeBody, decodeHead, encodeHead, encodeNumber } from './block-codec.ts'
import { isLazyDirectory, putPrevious } from './persist.ts'
import { openStore } from './store.ts'

/**
 * Undoes the persist pass of the persisted head, or first an interrupted persist pass; returns the
 * persisted head afterwards. The caller raises the unwind count before the first block. It reloads
 * the trie and sets the persisted-id word after the last one.
 * @throws {UnwindError} below the undo window
 */
export function unwindBlock(database: Database): StoredHead {
  const store = openStore(database)
  const persistedHead = store.persistedHead()
  const started = database.get('meta', META.persisting)
  const block = started === undefined ? persistedHead : decodeHead(started)
  const diff = store.encodedDiff(block.hash)
  if (diff === undefined) throw new UnwindError(block)
  const batch = database.batch()
  putPrevious(batch, diff, { number: block.number, isLazy: isLazyDirectory(database) })
  const isTrieWritten = started === undefined || isMarked(database, block.hash)
  if (isTrieWritten && restoreNodes(database, batch, block.hash) === 0) throw new UnwindError(block)
  deleteUndo(database, batch, block.hash)
  batch.delete('meta', META.persisting)
  batch.delete('meta', META.persistingTrie)
  if (started !== undefined) {
    batch.commit()
    return persistedHead
  }
  const body = database.get('bodies', block.hash)
  const header = store.header(block.hash)
  if (body === undefined || header === undefined) throw new UnwindError(block)
  for (const { hash } of decodeBody(body).transactions) batch.delete('transactions', hash)
  batch.delete('numbers', encodeNumber(block.number))
  const parent = { number: block.number - 1, hash: decodeHeader(header).parentHash.slice() }
  batch.put('meta', META.persistedHead, encodeHead(parent))
  batch.commit()
  return parent
}

/**
 * Restores the stored trie of the persisted head, when a crash interrupted the writing of a block's
 * nodes.
 */
export function restoreInterruptedTrie(database: Database): void {
  const hash = database.get('meta', META.persistingTrie)
  if (hash === undefined) return
  const batch = database.batch()
  restoreNodes(database, batch, hash)
  batch.delete('meta', META.persistingTrie)
  batch.commit()
}

const isMarked = (database: Database, hash: Bytes): boolean => {
  const mark = database.get('meta', META.persistingTrie)
  return mark !== undefined && equalBytes(mark, hash)
}

/** Rows that an unwind needs are gone, because the reorg is deeper than the undo window. */
export class UnwindError extends Error {
  override name = 'UnwindError'
  constructor({ number, hash }: StoredHead) {
    super(
      `block ${number} (0x${Buffer.from(hash).toString('hex')}) cannot be unwound: what it replaced is not kept any more`,
    )
  }
}
