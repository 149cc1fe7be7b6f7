/** Roots of blocks under construction, of appended blocks, and of diffs that are only previewed. */
import type { Bytes } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import { decodeDiff } from '../../state/diff-codec.ts'
import { stateRootOf } from '../blocks/recover.ts'
import { openStore } from '../blocks/store.ts'
import type { Database } from '../database/types.ts'
import { TrieError } from '../trie/node.ts'
import type { StateTrie, TrieVersion } from '../trie/trie.ts'
import type {
  BlockId,
  PersistenceRequest,
  PersistenceResponse,
  PersistenceWords,
  StoreReader,
} from '../types.ts'
import { isOn, type KnownBlock, type KnownBlocks } from './blocks.ts'

/** L2ToL1MessagePasser: its storage root is the withdrawals root of a header. */
export const MESSAGE_PASSER: Bytes = Uint8Array.from(
  Buffer.from('4200000000000000000000000000000000000016', 'hex'),
)

export type RootRequest = Extract<
  PersistenceRequest,
  { readonly type: 'advance' | 'root' | 'preview' | 'forget' }
>

export class PersistenceRoots {
  readonly #trie: StateTrie
  readonly #blocks: KnownBlocks
  readonly #words: PersistenceWords
  readonly #store: StoreReader
  /** A lazy directory has no trie; its roots come from the upstream. */
  readonly #isLazy: boolean

  constructor(options: {
    readonly trie: StateTrie
    readonly blocks: KnownBlocks
    readonly words: PersistenceWords
    readonly database: Database
  }) {
    this.#trie = options.trie
    this.#blocks = options.blocks
    this.#words = options.words
    this.#store = openStore(options.database)
    this.#isLazy = this.#store.isLazy()
  }

  /**
   * Handles a request. A root is not answered for a block that is forgotten, or beside a persisted
   * one.
   */
  respond(request: RootRequest, durable: KnownBlock): readonly PersistenceResponse[] {
    if (this.#isLazy && request.type !== 'forget')
      throw new Error(`persistence: ${request.type} asks for a trie, and this directory is lazy`)
    switch (request.type) {
      case 'advance':
        this.#advance(request)
        return []
      case 'root':
        return this.#root(request.id)
      case 'forget':
        this.#forget(request.id, durable)
        return []
      case 'preview':
        return [{ type: 'preview', request: request.request, roots: this.#preview(request) }]
    }
  }

  /**
   * Trie of a block, checked against its header, because nothing is persisted above the last
   * checked root.
   * @throws {TrieError} for another root
   */
  checkedVersion(block: KnownBlock): TrieVersion {
    if (this.#isLazy) return this.#trie.base()
    const { number, hash } = block.appended!
    const version = this.#versionOf(block)
    const header = this.#store.header(hash)
    if (version === undefined || header === undefined)
      throw new TrieError(`block ${number}: its header or its diff is not stored`)
    const [expected, found] = [stateRootOf(header), this.#trie.stateRoot(version)]
    if (!equalBytes(expected, found))
      throw new TrieError(
        `block ${number} has the state root ${hex(found)}, its header says ${hex(expected)}`,
      )
    return version
  }

  #find(id: BlockId): KnownBlock | undefined {
    const known = this.#blocks.byId(id)
    if (known !== undefined || id === 0 || id !== this.#words.persistedId()) return known
    // The publisher names the persisted head when it opens; the persistence thread learns the name
    // here.
    const { base } = this.#blocks
    if (base.id === 0) this.#blocks.name(base, id)
    return this.#blocks.byId(id)
  }

  #advance({ id, parentId, diff }: Extract<RootRequest, { type: 'advance' }>): void {
    const known = this.#find(id)
    // An appended block has its full diff already.
    if (known?.appended !== undefined) return
    const parent = known?.parent ?? this.#find(parentId)
    const below = parent && this.#versionOf(parent)
    if (parent === undefined || below === undefined) return
    const block = known ?? this.#blocks.start(id, parent)
    block.version ??= this.#trie.fork(below)
    this.#trie.apply(block.version, diff)
  }

  #root(id: BlockId): readonly PersistenceResponse[] {
    const block = this.#find(id)
    const version = block && this.#versionOf(block)
    return version === undefined ? [] : [{ type: 'root', id, ...this.#rootsOf(version) }]
  }

  #rootsOf(version: TrieVersion) {
    return {
      stateRoot: this.#trie.stateRoot(version),
      withdrawalsRoot: this.#trie.storageRoot(version, MESSAGE_PASSER),
    }
  }

  #preview({ parentStateRoot, diff }: Extract<RootRequest, { type: 'preview' }>) {
    for (const block of this.#blocks.all()) {
      const version = this.#versionOf(block)
      if (version === undefined) continue
      if (!equalBytes(this.#trie.stateRoot(version), parentStateRoot)) continue
      return this.#rootsOf(this.#trie.preview(version, diff))
    }
    return undefined
  }

  #forget(id: BlockId, durable: KnownBlock): void {
    const block = this.#find(id)
    if (block !== undefined && !isOn(durable, block)) this.#blocks.delete(block)
  }

  /** Trie of a block, from memory or made from stored diffs after an unwind. */
  #versionOf(block: KnownBlock): TrieVersion | undefined {
    if (block.version !== undefined) return block.version
    const below = block.parent && this.#versionOf(block.parent)
    // The base has no trie while a block is persisted over it, so the stored diff is not decoded.
    if (below === undefined) return undefined
    const diff = block.diff ?? (block.appended && this.#store.encodedDiff(block.appended.hash))
    if (diff === undefined) return undefined
    const version = this.#trie.fork(below)
    this.#trie.apply(version, decodeDiff(diff))
    block.version = version
    return version
  }
}

const hex = (bytes: Bytes) => `0x${Buffer.from(bytes).toString('hex')}`
