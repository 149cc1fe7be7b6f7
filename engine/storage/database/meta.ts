/**
 * Rows of the column "meta": heads, labelled heads, horizon, and work that a crash may have
 * interrupted.
 */
import type { Bytes } from '../../primitives/bytes.ts'

const name = (text: string): Bytes => new TextEncoder().encode(text)

export const META = {
  /** encodeHead: the newest appended block. */
  durableHead: name('durable-head'),
  /** encodeHead: flat state is the state after this block. */
  persistedHead: name('fold-head'),
  /** Number (8): the oldest block whose state can be read. */
  oldest: name('oldest-state'),
  /** Number (8) ‖ number (8): safe and finalized. */
  labelledHeads: name('marks'),
  /** Number (8): history rows up to this block are gone. */
  pruned: name('pruned'),
  /**
   * encodeHead of the block whose persist pass has started. Flat state may have some of its
   * changes.
   */
  persisting: name('folding'),
  /**
   * Hash of the block whose trie nodes are being written. Some may be its own; its undo rows are
   * complete.
   */
  persistingTrie: name('folding-trie'),
  /**
   * Present while an account dump is being loaded. The commit that makes the dump a chain deletes
   * it.
   */
  importing: name('importing-state'),
  /** encodeLazyStart: present in a lazy directory, which fetches state on demand. */
  lazy: name('lazy-start'),
  /**
   * Text, `proven` or `trusted`: the mode of the last fetches. Directories of older versions lack
   * it.
   */
  lazyMode: name('lazy-mode'),
  /** Number (8): bytes of fetched rows, or a little more. */
  fetched: name('fetched-bytes'),
  /** Present while a lazy state is being restarted. The old state may be half gone. */
  resync: name('beginning-anew'),
  /** Version (8) ‖ done (1) ‖ start of the next slice: progress of the last migration. */
  migration: name('migration'),
  /**
   * Progress of a copy of another node (bootstrap/progress.ts). It is deleted when the copy is a
   * chain.
   */
  bootstrap: name('bootstrap'),
  /** Prefix ‖ column (1) ‖ start of a copied range → checksum (8) ‖ end of the range. */
  bootstrapRange: name('copied-range'),
} as const
