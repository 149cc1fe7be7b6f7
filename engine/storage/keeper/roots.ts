/** The keeper's answers about roots: of blocks under construction, of appended ones, of a diff that someone only asks about. */
import type { Bytes } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import { decodeDiff } from '../../state/diff-codec.ts'
import { stateRootOf } from '../blocks/recover.ts'
import { openStore } from '../blocks/store.ts'
import type { Database } from '../database/types.ts'
import { TrieError } from '../trie/node.ts'
import type { StateTrie, TrieVersion } from '../trie/trie.ts'
import type { BlockId, KeeperAnswer, KeeperRequest, KeeperWords, StoreReader } from '../types.ts'
import { isOn, type KnownBlock, type KnownBlocks } from './blocks.ts'

/** L2ToL1MessagePasser: its storage root is the withdrawals root of a header. */
export const MESSAGE_PASSER: Bytes = Uint8Array.from(
  Buffer.from('4200000000000000000000000000000000000016', 'hex'),
)

export type RootRequest = Extract<
  KeeperRequest,
  { readonly type: 'advance' | 'root' | 'preview' | 'forget' }
>

export class KeeperRoots {
  readonly #trie: StateTrie
  readonly #blocks: KnownBlocks
  readonly #words: KeeperWords
  readonly #store: StoreReader
  /** There is no trie: roots are its source's. */
  readonly #isLazy: boolean

  constructor(options: {
    readonly trie: StateTrie
    readonly blocks: KnownBlocks
    readonly words: KeeperWords
    readonly database: Database
  }) {
    this.#trie = options.trie
    this.#blocks = options.blocks
    this.#words = options.words
    this.#store = openStore(options.database)
    this.#isLazy = this.#store.isLazy()
  }

  /** A root is not answered for a block that is forgotten, or stood beside one that was folded. */
  answer(request: RootRequest, durable: KnownBlock): readonly KeeperAnswer[] {
    if (this.#isLazy && request.type !== 'forget')
      throw new Error(`keeper: ${request.type} asks for a trie, and this directory is lazy`)
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

  /** @throws {TrieError} when the root is not that of the block's header: nothing is folded above the last checked root. */
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
    if (known !== undefined || id === 0 || id !== this.#words.fold()) return known
    // The publisher names the fold head when it opens; the keeper learns it here.
    const { base } = this.#blocks
    if (base.id === 0) this.#blocks.name(base, id)
    return this.#blocks.byId(id)
  }

  #advance({ id, parentId, diff }: Extract<RootRequest, { type: 'advance' }>): void {
    const known = this.#find(id)
    // What is appended has its whole diff already.
    if (known?.appended !== undefined) return
    const parent = known?.parent ?? this.#find(parentId)
    const below = parent && this.#versionOf(parent)
    if (parent === undefined || below === undefined) return
    const block = known ?? this.#blocks.begin(id, parent)
    block.version ??= this.#trie.fork(below)
    this.#trie.apply(block.version, diff)
  }

  #root(id: BlockId): readonly KeeperAnswer[] {
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

  /** From memory, or from the stored diffs after an unfold or for a block that never was advanced. */
  #versionOf(block: KnownBlock): TrieVersion | undefined {
    if (block.version !== undefined) return block.version
    const below = block.parent && this.#versionOf(block.parent)
    // The base while a block is folded over it: its trie is gone, and a stored diff is not decoded for nothing.
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
