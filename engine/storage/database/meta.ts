/** The rows of the column "meta": heads, marks, horizon, and what a crash may have interrupted. */
import type { Bytes } from '../../primitives/bytes.ts'

const name = (text: string): Bytes => new TextEncoder().encode(text)

export const META = {
  /** encodeHead: the newest appended block. */
  durableHead: name('durable-head'),
  /** encodeHead: flat state is the state after this block. */
  foldHead: name('fold-head'),
  /** Number (8): the oldest block whose state can be read. */
  oldest: name('oldest-state'),
  /** Number (8) ‖ number (8): safe and finalized. */
  marks: name('marks'),
  /** Number (8): history rows up to this block are gone. */
  pruned: name('pruned'),
  /** encodeHead of the block whose fold has begun: flat state may hold some of it. */
  folding: name('folding'),
  /** Hash of the block whose trie nodes are being written: some may be its own, its undo rows are complete. */
  foldingTrie: name('folding-trie'),
  /** An account dump is being loaded; it goes with the commit that makes it a chain. */
  importing: name('importing-state'),
  /** encodeLazyStart: the state is fetched as it is needed. */
  lazy: name('lazy-start'),
  /** Text, `proven` or `trusted`: how state was last fetched. Directories of older versions lack it. */
  lazyMode: name('lazy-mode'),
  /** Number (8): bytes that rows take which were fetched, or a little more. */
  fetched: name('fetched-bytes'),
  /** A lazy state is being begun anew: what the directory held of the old one may be half gone. */
  beginning: name('beginning-anew'),
  /** Version (8) ‖ done (1) ‖ where the next slice begins: the last migration, its progress. */
  migration: name('migration'),
  /** How far a copy of another node has come (bootstrap/progress.ts); it goes when the copy is a chain. */
  bootstrap: name('bootstrap'),
  /** ‖ column (1) ‖ where a copied range begins → its checksum (8) ‖ where it ends. */
  bootstrapRange: name('copied-range'),
} as const
