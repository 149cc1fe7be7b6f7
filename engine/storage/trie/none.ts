/** In the place of the state trie where there is none: a lazy directory has only a part of the state, and takes roots from its source. */
import { STORED } from './node.ts'
import type { StateTrie, TrieVersion } from './trie.ts'

/** What the trie of a whole directory is asked while blocks are folded: nothing to write, nothing to keep. */
export function noTrie(): StateTrie {
  const version: TrieVersion = {
    owner: STORED,
    isForked: true,
    root: undefined,
    hash: undefined,
    replaced: new Map(),
    linked: [],
  }
  return {
    base: () => version,
    fork: () => version,
    apply: () => {},
    preview: refuse,
    stateRoot: refuse,
    storageRoot: refuse,
    storageRootAfter: refuse,
    prove: refuse,
    // biome-ignore lint/correctness/useYield: it has nothing to do
    *writes() {
      return []
    },
    stored: () => {},
    *keep() {},
    reload: () => {},
  }
}

function refuse(): never {
  throw new Error('a lazy directory has no trie: who asks for a root should not have')
}
