/** Folds the blocks that came while the state was copied, as a node folds its own: history, undo rows and indexes follow from them. */
import { decodeHeader } from '../../primitives/header-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import { decodeDiff } from '../../state/diff-codec.ts'
import { writeDurableHead } from '../blocks/append.ts'
import { foldBlock } from '../blocks/fold.ts'
import { recover } from '../blocks/recover.ts'
import { openStore } from '../blocks/store.ts'
import { openLogLength } from '../database/log-length.ts'
import { META } from '../database/meta.ts'
import type { Database } from '../database/types.ts'
import type { StateTrie } from '../trie/trie.ts'
import type { StoredHead } from '../types.ts'
import { BootstrapError } from './fault.ts'
import { blocksAbove } from './made-state.ts'
import type { Progress } from './progress.ts'

export interface CatchingUp {
  /** Each `next` has folded a block. @throws {BootstrapError} where what a block changed does not lead to its root */
  fold(progress: Progress): Generator<StoredHead, void>
  /** The directory is a chain like any other. */
  finish(): void
}

/** A fold that was cut off is finished first. @param cacheBytes of trie nodes */
export function openCatchUp(inner: Database, cacheBytes: number): CatchingUp {
  const log = openLogLength(inner)
  const { database } = log
  const { trie } = recover(database, cacheBytes)
  return {
    *fold({ tip }) {
      const start = openStore(database).foldHead()
      for (const block of [...blocksAbove(database, { start, tip })].reverse()) {
        foldOne(database, trie, block)
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

function foldOne(database: Database, trie: StateTrie, block: StoredHead): void {
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
  for (const _ of foldBlock({ database, trie, version, block, diff }));
}
