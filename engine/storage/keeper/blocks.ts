/** The blocks above the fold head as the keeper knows them: who stands on whom, what is appended, whose trie is in memory. */
import type { Bytes } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { EncodedDiff } from '../../state/diff.ts'
import { latin1 } from '../../state/words.ts'
import type { TrieVersion } from '../trie/trie.ts'
import type { AppendBlock, BlockId, StoredHead } from '../types.ts'

export type KnownBlock = {
  /** 0: not named by the writer yet. */
  id: BlockId
  /** undefined: the base itself, or a block on an unknown parent. */
  parent: KnownBlock | undefined
  version: TrieVersion | undefined
  appended: StoredHead | undefined
  /** Of an appended block of this run, so that its fold need not read it. */
  diff?: EncodedDiff
}

/** More blocks than a writer ever holds: beyond it something does not forget. */
const MAX_BLOCKS = 4096

/** Ids of folded blocks that have none of this run; far above what a writer gives in a run. */
const FIRST_OWN_ID = 0x4000_0000
const OWN_ID_GAP = 0x10_0000

export class KnownBlocks {
  base: KnownBlock
  readonly #byId = new Map<BlockId, KnownBlock>()
  readonly #byHash = new Map<string, KnownBlock>()
  /** By height: blocks folded in this run, inside the undo window. */
  readonly #folded = new Map<number, { readonly id: BlockId; readonly hash: Bytes }>()
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

  /** The base, and whatever stands on it. */
  all(): readonly KnownBlock[] {
    return [...new Set([...this.#byId.values(), ...this.#byHash.values()])]
  }

  begin(id: BlockId, parent: KnownBlock): KnownBlock {
    const block: KnownBlock = { id: 0, parent, version: undefined, appended: undefined }
    this.name(block, id)
    return block
  }

  append(
    { id, number, hash, diff }: Pick<AppendBlock, 'id' | 'number' | 'hash' | 'diff'>,
    parent: KnownBlock,
  ): KnownBlock {
    const block: KnownBlock = this.byId(id) ?? this.byHash(hash) ?? this.begin(id, parent)
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

  /** The writer's name of a block; the last one given counts. */
  name(block: KnownBlock, id: BlockId): void {
    if (this.#byId.size >= MAX_BLOCKS)
      throw new Error(`keeper: ${MAX_BLOCKS} blocks are known: the writer forgets none`)
    if (block.id !== 0) this.#byId.delete(block.id)
    block.id = id
    this.#byId.set(id, block)
    this.#highestId = Math.max(this.#highestId, id)
  }

  /** The first block above the base names the base as well. @throws {Error} for a block that was not listed at open. */
  adopt(names: { readonly id: BlockId; readonly parentId: BlockId; readonly hash: Bytes }): void {
    const block = this.byHash(names.hash)
    if (block === undefined || block === this.base)
      throw new Error(`keeper: block id ${names.id} is none that waits to be adopted`)
    if (block.parent?.id === 0) this.name(block.parent, names.parentId)
    this.name(block, names.id)
  }

  delete(block: KnownBlock): void {
    if (this.#byId.get(block.id) === block) this.#byId.delete(block.id)
    const hash = block.appended && latin1(block.appended.hash)
    if (hash !== undefined && this.#byHash.get(hash) === block) this.#byHash.delete(hash)
  }

  /** Before the fold of `block`: what stands beside it, and the state below it, is void. */
  keepOnly(block: KnownBlock): void {
    for (const known of this.all())
      if (known !== this.base && !isOn(known, block)) this.delete(known)
    this.base.version = undefined
  }

  /** `block` is the base now. Folded blocks up to height `forget` cannot be unfolded any more. */
  folded(block: KnownBlock, forget: number): void {
    this.delete(this.base)
    block.parent = undefined
    delete block.diff
    this.base = block
    const { number, hash } = block.appended!
    this.#folded.set(number, { id: block.id, hash })
    for (const height of this.#folded.keys()) if (height <= forget) this.#folded.delete(height)
  }

  /** The base is a folded block again, and nothing else is known. Returns its id. */
  unfolded(to: StoredHead, version: TrieVersion): BlockId {
    const id = this.#idOf(to)
    for (const height of this.#folded.keys()) if (height > to.number) this.#folded.delete(height)
    this.#byId.clear()
    this.#byHash.clear()
    this.base = { id: 0, parent: undefined, version, appended: to }
    this.name(this.base, id)
    this.#index(this.base)
    return id
  }

  #idOf({ number, hash }: StoredHead): BlockId {
    if (this.base.id !== 0 && isHead(this.base, hash)) return this.base.id
    const folded = this.#folded.get(number)
    if (folded !== undefined && equalBytes(folded.hash, hash)) return folded.id
    return Math.max(FIRST_OWN_ID, this.#highestId + OWN_ID_GAP)
  }

  #index(block: KnownBlock): void {
    if (block.id !== 0) this.#byId.set(block.id, block)
    if (block.appended !== undefined) this.#byHash.set(latin1(block.appended.hash), block)
  }
}

/** Whether `block` is `ancestor` or stands on it. */
export function isOn(block: KnownBlock, ancestor: KnownBlock): boolean {
  for (let at: KnownBlock | undefined = block; at !== undefined; at = at.parent)
    if (at === ancestor) return true
  return false
}

const isHead = ({ appended }: KnownBlock, hash: Bytes): boolean =>
  appended !== undefined && equalBytes(appended.hash, hash)
