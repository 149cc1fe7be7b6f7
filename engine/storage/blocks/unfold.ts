/** Takes folded blocks out of flat state again, newest first, one batch per block. */
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeHeader } from '../../primitives/header-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import { deleteUndo, restoreNodes } from '../trie/undo.ts'
import type { StoredHead } from '../types.ts'
import { decodeBody, decodeHead, encodeHead, encodeNumber } from './block-codec.ts'
import { isLazyDirectory, putPrevious } from './fold.ts'
import { openStore } from './store.ts'

/**
 * Undoes the fold of the fold head, or first what a fold in progress has written; returns the fold head afterwards. The unfold count
 * is raised before, the trie reloaded and the fold word set after the last one.
 * @throws {UnfoldError} below the undo window
 */
export function unfoldBlock(database: Database): StoredHead {
  const store = openStore(database)
  const foldHead = store.foldHead()
  const started = database.get('meta', META.folding)
  const block = started === undefined ? foldHead : decodeHead(started)
  const diff = store.encodedDiff(block.hash)
  if (diff === undefined) throw new UnfoldError(block)
  const batch = database.batch()
  putPrevious(batch, diff, { number: block.number, isLazy: isLazyDirectory(database) })
  const isTrieWritten = started === undefined || isMarked(database, block.hash)
  if (isTrieWritten && restoreNodes(database, batch, block.hash) === 0) throw new UnfoldError(block)
  deleteUndo(database, batch, block.hash)
  batch.delete('meta', META.folding)
  batch.delete('meta', META.foldingTrie)
  if (started !== undefined) {
    batch.commit()
    return foldHead
  }
  const body = database.get('bodies', block.hash)
  const header = store.header(block.hash)
  if (body === undefined || header === undefined) throw new UnfoldError(block)
  for (const { hash } of decodeBody(body).transactions) batch.delete('transactions', hash)
  batch.delete('numbers', encodeNumber(block.number))
  const parent = { number: block.number - 1, hash: decodeHeader(header).parentHash.slice() }
  batch.put('meta', META.foldHead, encodeHead(parent))
  batch.commit()
  return parent
}

/** Brings the stored trie back to the fold head, when a crash came between the first and the last of a block's nodes. */
export function restoreInterruptedTrie(database: Database): void {
  const hash = database.get('meta', META.foldingTrie)
  if (hash === undefined) return
  const batch = database.batch()
  restoreNodes(database, batch, hash)
  batch.delete('meta', META.foldingTrie)
  batch.commit()
}

const isMarked = (database: Database, hash: Bytes): boolean => {
  const mark = database.get('meta', META.foldingTrie)
  return mark !== undefined && equalBytes(mark, hash)
}

/** What an unfold needs is gone: the reorg is deeper than the undo window. */
export class UnfoldError extends Error {
  override name = 'UnfoldError'
  constructor({ number, hash }: StoredHead) {
    super(
      `block ${number} (0x${Buffer.from(hash).toString('hex')}) cannot be unfolded: what it replaced is not kept any more`,
    )
  }
}
