/**
 * Blocks above the persisted head, as known to the persistence thread: their parents, their
 * appends, and their tries in memory.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { EncodedDiff } from '../../state/diff.ts'
import { latin1 } from '../../state/words.ts'
import type { TrieVersion } from '../trie/trie.ts'
import type { AppendBlock, BlockId, StoredHead } from '../types.ts'

export type KnownBlock = {
  /** 0 until the writer has named the block. */
  id: BlockId
  /** undefined for the base itself, or for a block on an unknown parent. */
  parent: KnownBlock | undefined
  version: TrieVersion | undefined
  appended: StoredHead | undefined
  /** Diff of a block appended in this run, so that its persist pass does not have to read it. */
  diff?: EncodedDiff
}

/** Bound that a correct writer never reaches. Beyond it blocks leak. */
const MAX_BLOCKS = 4096

/**
 * Own ids are for persisted blocks without an id of this run. They are far above the writer's ids.
 */
const FIRST_OWN_ID = 0x4000_0000
const OWN_ID_GAP = 0x10_0000

export class KnownBlocks {
  base: KnownBlock
  readonly #byId = new Map<BlockId, KnownBlock>()
  readonly #byHash = new Map<string, KnownBlock>()
  /** Blocks persisted in this run, inside the undo window, by height. */
  readonly #persisted = new Map<number, { readonly id: BlockId; readonly hash: Bytes }>()
  #highestId: BlockId = 0

  constructor(base: KnownBlock) {
    this.base = base
    this.#index(base)
  }

  byId(id: BlockId): KnownBlock | undefined {
    return this.#byId.get(id)
  }

  byHash(hash: Bytes): KnownBlock | undefined {
    return this.#byHash.get(latin1(hash))
  }

  /** The base and every known block above. */
  all(): readonly KnownBlock[] {
    return [...new Set([...this.#byId.values(), ...this.#byHash.values()])]
  }

  start(id: BlockId, parent: KnownBlock): KnownBlock {
    const block: KnownBlock = { id: 0, parent, version: undefined, appended: undefined }
    this.name(block, id)
    return block
  }

  append(
    { id, number, hash, diff }: Pick<AppendBlock, 'id' | 'number' | 'hash' | 'diff'>,
    parent: KnownBlock,
  ): KnownBlock {
    const block: KnownBlock = this.byId(id) ?? this.byHash(hash) ?? this.start(id, parent)
    block.parent = parent
    block.diff = diff
    this.name(block, id)
    this.markAppended(block, { number, hash })
    return block
  }

  markAppended(block: KnownBlock, head: StoredHead): void {
    block.appended = head
    this.#byHash.set(latin1(head.hash), block)
  }

  /** Gives a block the writer's id; the last id counts. */
  name(block: KnownBlock, id: BlockId): void {
    if (this.#byId.size >= MAX_BLOCKS)
      throw new Error(`persistence: ${MAX_BLOCKS} blocks are known: the writer forgets none`)
    if (block.id !== 0) this.#byId.delete(block.id)
    block.id = id
    this.#byId.set(id, block)
    this.#highestId = Math.max(this.#highestId, id)
  }

  /**
   * Names a block that was listed at open. The first block above the base also names the base.
   * @throws {Error} for a block that was not listed
   */
  adopt(names: { readonly id: BlockId; readonly parentId: BlockId; readonly hash: Bytes }): void {
    const block = this.byHash(names.hash)
    if (block === undefined || block === this.base)
      throw new Error(`persistence: block id ${names.id} is none that waits to be adopted`)
    if (block.parent?.id === 0) this.name(block.parent, names.parentId)
    this.name(block, names.id)
  }

  delete(block: KnownBlock): void {
    if (this.#byId.get(block.id) === block) this.#byId.delete(block.id)
    const hash = block.appended && latin1(block.appended.hash)
    if (hash !== undefined && this.#byHash.get(hash) === block) this.#byHash.delete(hash)
  }

  /**
   * Forgets blocks beside `block` and the trie of the base, because the persist pass of `block`
   * overwrites that state.
   */
  retainOnly(block: KnownBlock): void {
    for (const known of this.all())
      if (known !== this.base && !isOn(known, block)) this.delete(known)
    this.base.version = undefined
  }

  /** Makes `block` the base. Persisted blocks up to height `forget` cannot be unwound any more. */
  persisted(block: KnownBlock, forget: number): void {
    this.delete(this.base)
    block.parent = undefined
    delete block.diff
    this.base = block
    const { number, hash } = block.appended!
    this.#persisted.set(number, { id: block.id, hash })
    for (const height of this.#persisted.keys())
      if (height <= forget) this.#persisted.delete(height)
  }

  /** Makes a persisted block the base again and forgets all others. Returns the id of the base. */
  unwound(to: StoredHead, version: TrieVersion): BlockId {
    const id = this.#idOf(to)
    for (const height of this.#persisted.keys())
      if (height > to.number) this.#persisted.delete(height)
    this.#byId.clear()
    this.#byHash.clear()
    this.base = { id: 0, parent: undefined, version, appended: to }
    this.name(this.base, id)
    this.#index(this.base)
    return id
  }

  #idOf({ number, hash }: StoredHead): BlockId {
    if (this.base.id !== 0 && isHead(this.base, hash)) return this.base.id
    const persisted = this.#persisted.get(number)
    if (persisted !== undefined && equalBytes(persisted.hash, hash)) return persisted.id
    return Math.max(FIRST_OWN_ID, this.#highestId + OWN_ID_GAP)
  }

  #index(block: KnownBlock): void {
    if (block.id !== 0) this.#byId.set(block.id, block)
    if (block.appended !== undefined) this.#byHash.set(latin1(block.appended.hash), block)
  }
}

/** Whether `block` is `ancestor` or one of its descendants. */
export function isOn(block: KnownBlock, ancestor: KnownBlock): boolean {
  for (let at: KnownBlock | undefined = block; at !== undefined; at = at.parent)
    if (at === ancestor) return true
  return false
}

const isHead = ({ appended }: KnownBlock, hash: Bytes): boolean =>
  appended !== undefined && equalBytes(appended.hash, hash)
