/**
 * Persists the blocks that came during the copy of the state, as a node persists its own. This
 * makes their history, undo rows and indexes.
 */
import { decodeHeader } from '../../primitives/header.ts'
import { equalBytes } from '../../primitives/words.ts'
import { decodeDiff } from '../../state/diff-codec.ts'
import { writeDurableHead } from '../blocks/append.ts'
import { persistBlock } from '../blocks/persist.ts'
import { recover } from '../blocks/recover.ts'
import { openStore } from '../blocks/store.ts'
import { openLogLength } from '../database/log-length.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import type { StateTrie } from '../trie/trie.ts'
import type { StoredHead } from '../types.ts'
import { blocksAbove } from './made-state.ts'
import { BootstrapError, type Progress } from './progress.ts'

export interface CatchingUp {
  /**
   * Persists the blocks; each `next` is one block.
   * @throws {BootstrapError} if a block's diff does not lead to its state root
   */
  persist(progress: Progress): Generator<StoredHead, void>
  finish(): void
}

/**
 * Opens the catch-up; an interrupted persist pass is finished first.
 * @param cacheBytes of trie nodes
 */
export function openCatchUp(inner: Database, cacheBytes: number): CatchingUp {
  const log = openLogLength(inner)
  const { database } = log
  const { trie } = recover(database, cacheBytes)
  return {
    *persist({ tip }) {
      const start = openStore(database).persistedHead()
      for (const block of [...blocksAbove(database, { start, tip })].reverse()) {
        persistOne(database, trie, block)
        for (const _ of log.shorten());
        yield block
      }
    },
    finish() {
      const batch = database.batch()
      batch.delete('meta', META.bootstrap)
      batch.commit({ isSynced: true })
    },
  }
}

function persistOne(database: Database, trie: StateTrie, block: StoredHead): void {
  const header = database.get('headers', block.hash)
  const diff = database.get('diffs', block.hash)
  if (header === undefined || diff === undefined)
    throw new BootstrapError(
      `block ${block.number} is not whole: remove the directory, and run the same command again`,
    )
  const version = trie.fork(trie.base())
  trie.apply(version, decodeDiff(diff))
  if (!equalBytes(trie.stateRoot(version), decodeHeader(header).stateRoot))
    throw new BootstrapError(
      `what the source says block ${block.number} changed does not lead to its state root: look at the source (\`flashnode verify\`), or copy from another`,
    )
  writeDurableHead(database, block)
  for (const _ of persistBlock({ database, trie, version, block, diff }));
}
