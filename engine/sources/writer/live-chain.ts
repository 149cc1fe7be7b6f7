/**
 * Blocks in the writer's memory and the heads among them. A move of a head drops the blocks of
 * other branches.
 */
import { isDecided, isFinished } from '../../chain/block-state.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { BlockId } from '../../storage/types.ts'
import { type LiveBlock, step } from './live-block.ts'

export class LiveChain {
  readonly #blocks = new Map<BlockId, LiveBlock>()
  readonly #undoBlocks: number
  readonly #onDrop: (block: LiveBlock) => void
  base: LiveBlock
  canonical: LiveBlock
  complete: LiveBlock
  pending: LiveBlock

  /** Puts all heads at the base. `onDrop` is called once for each dropped block. */
  constructor(
    base: LiveBlock,
    options: { readonly undoBlocks: number; readonly onDrop: (block: LiveBlock) => void },
  ) {
    this.base = base
    this.canonical = base
    this.complete = base
    this.pending = base
    this.#undoBlocks = options.undoBlocks
    this.#onDrop = options.onDrop
    this.add(base)
  }

  add(block: LiveBlock): void {
    this.#blocks.set(block.handle.id, block)
  }

  byId(id: BlockId): LiveBlock | undefined {
    return this.#blocks.get(id)
  }

  /** Returns the block with this final hash. */
  finished(hash: Bytes): LiveBlock | undefined {
    for (const block of this.#blocks.values())
      if (isFinished(block.state) && equalBytes(block.hash, hash)) return block
    return undefined
  }

  /** Returns the canonical or persisted block of a height, as far back as a reorg may go. */
  decided(number: number): LiveBlock | undefined {
    for (const block of this.#blocks.values())
      if (block.handle.number === number && isDecided(block.state)) return block
    return undefined
  }

  /** Returns the block of a height between canonical (exclusive) and pending. */
  speculative(number: number): LiveBlock | undefined {
    let at: LiveBlock | undefined = this.pending
    while (at !== undefined && at !== this.canonical && at.handle.number > number) at = at.parent
    return at !== this.canonical && at?.handle.number === number ? at : undefined
  }

  isAncestor(ancestor: LiveBlock, block: LiveBlock): boolean {
    let at: LiveBlock | undefined = block
    while (at !== undefined && at !== ancestor) at = at.parent
    return at === ancestor
  }

  drop(block: LiveBlock): void {
    step(block, 'drop')
    block.open?.release()
    block.open = undefined
    block.content = undefined
    this.#blocks.delete(block.handle.id)
    this.#onDrop(block)
  }

  /** Moves pending back to `block`, and complete if it is higher. Blocks above are dropped. */
  cutAbove(block: LiveBlock): void {
    const above = this.above(block)
    if (above.includes(this.complete)) this.complete = block
    this.pending = block
    for (const dropped of above) this.drop(dropped)
  }

  /** Moves all heads back to a canonical block. Blocks above are dropped. */
  rewind(block: LiveBlock): void {
    this.cutAbove(block)
    this.canonical = block
    this.complete = block
  }

  /** Moves canonical to an appended block. Complete and pending stay only if they stand on it. */
  moveCanonical(block: LiveBlock): void {
    this.canonical = block
    const stays = this.isAncestor(block, this.pending)
    if (!this.isAncestor(block, this.complete)) this.complete = block
    if (!stays) this.pending = block
    const retained = new Set(this.#line(this.pending))
    for (const other of [...this.#blocks.values()])
      if (!retained.has(other) && other.state !== 'persisted' && other.state !== 'submitted')
        this.drop(other)
  }

  /**
   * Moves the base up. Other branches below it are dropped, and persisted blocks beyond the undo
   * window are forgotten.
   */
  markPersisted(block: LiveBlock): void {
    step(block, 'persist')
    block.parent = undefined
    this.base = block
    for (const [id, old] of this.#blocks) {
      if (old.state === 'persisted') {
        if (old.handle.number + this.#undoBlocks < block.handle.number) this.#forget(id, old)
      } else if (old.handle.number <= block.handle.number && old.state !== 'submitted')
        this.drop(old)
    }
  }

  /** Moves the base back, and drops every block that does not stand on it. */
  unwindTo(base: LiveBlock): void {
    this.base = base
    this.add(base)
    // A branch may have started on the base under another id, which is invalid after the unwind.
    for (const [id, block] of this.#blocks) {
      if (block.parent !== undefined && equalBytes(block.parent.hash, base.hash))
        block.parent = base
      if (block !== base && equalBytes(block.hash, base.hash)) this.#forget(id, block)
    }
    for (const block of [...this.#blocks.values()]) {
      const isBelow = block.state === 'persisted' && block.handle.number <= base.handle.number
      if (!isBelow && block.state !== 'submitted' && !this.isAncestor(base, block)) this.drop(block)
    }
    this.canonical = base
    this.complete = base
    this.pending = base
  }

  /** Starts again at a base, and forgets all earlier blocks. */
  start(base: LiveBlock): void {
    for (const [id, block] of [...this.#blocks])
      if (block.state === 'persisted') this.#forget(id, block)
      else this.drop(block)
    this.add(base)
    this.base = base
    this.canonical = base
    this.complete = base
    this.pending = base
  }

  /** Number of blocks in memory, persisted ones included. */
  get size(): number {
    return this.#blocks.size
  }

  #forget(id: BlockId, block: LiveBlock): void {
    step(block, 'forget')
    this.#blocks.delete(id)
  }

  /** Returns the blocks from pending down to `block` (exclusive), newest first. */
  above(block: LiveBlock): readonly LiveBlock[] {
    const above: LiveBlock[] = []
    for (let at: LiveBlock | undefined = this.pending; at !== block; at = at.parent) {
      if (at === undefined)
        throw new Error(`block ${block.handle.number} is no ancestor of the pending head`)
      above.push(at)
    }
    return above
  }

  #line(block: LiveBlock): LiveBlock[] {
    const line: LiveBlock[] = []
    for (let at: LiveBlock | undefined = block; at !== undefined; at = at.parent) line.push(at)
    return line
  }
}
