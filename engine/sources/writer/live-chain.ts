/** The blocks that are not folded, the heads among them, and what a move of a head drops. */
import { isDecided, isFinished } from '../../chain/life.ts'
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

  /** All heads at the base. `onDrop` hears of each block that is given up, once. */
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

  /** A block whose final hash is known. */
  finished(hash: Bytes): LiveBlock | undefined {
    for (const block of this.#blocks.values())
      if (isFinished(block.state) && equalBytes(block.hash, hash)) return block
    return undefined
  }

  /** The canonical or folded block of a height, as far back as a reorg may go. */
  decided(number: number): LiveBlock | undefined {
    for (const block of this.#blocks.values())
      if (block.handle.number === number && isDecided(block.state)) return block
    return undefined
  }

  /** The block of a height between canonical (exclusive) and pending. */
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

  /** Pending, and complete where it is above it, go back to `block`; what stood above it is dropped. */
  cutAbove(block: LiveBlock): void {
    const above = this.above(block)
    if (above.includes(this.complete)) this.complete = block
    this.pending = block
    for (const dropped of above) this.drop(dropped)
  }

  /** All heads go back to a canonical block; what stood above it is dropped. */
  rewind(block: LiveBlock): void {
    this.cutAbove(block)
    this.canonical = block
    this.complete = block
  }

  /** Canonical moves to a block that the keeper has; complete and pending stay only where they stand on it. */
  moveCanonical(block: LiveBlock): void {
    this.canonical = block
    const stays = this.isAncestor(block, this.pending)
    if (!this.isAncestor(block, this.complete)) this.complete = block
    if (!stays) this.pending = block
    const kept = new Set(this.#line(this.pending))
    for (const other of [...this.#blocks.values()])
      if (!kept.has(other) && other.state !== 'folded' && other.state !== 'handed') this.drop(other)
  }

  /** The base moves up; other branches below it, and folded blocks beyond the undo window, are forgotten. */
  fold(block: LiveBlock): void {
    step(block, 'fold')
    block.parent = undefined
    this.base = block
    for (const [id, old] of this.#blocks) {
      if (old.state === 'folded') {
        if (old.handle.number + this.#undoBlocks < block.handle.number) this.#forget(id, old)
      } else if (old.handle.number <= block.handle.number && old.state !== 'handed') this.drop(old)
    }
  }

  /** The base goes back; whatever does not stand on it is dropped. */
  unfold(base: LiveBlock): void {
    this.base = base
    this.add(base)
    // A branch may have been begun on it under another id, which nobody may use from here on.
    for (const [id, block] of this.#blocks) {
      if (block.parent !== undefined && equalBytes(block.parent.hash, base.hash))
        block.parent = base
      if (block !== base && equalBytes(block.hash, base.hash)) this.#forget(id, block)
    }
    for (const block of [...this.#blocks.values()]) {
      const isBelow = block.state === 'folded' && block.handle.number <= base.handle.number
      if (!isBelow && block.state !== 'handed' && !this.isAncestor(base, block)) this.drop(block)
    }
    this.canonical = base
    this.complete = base
    this.pending = base
  }

  /** Nothing of before is held any more. */
  begin(base: LiveBlock): void {
    for (const [id, block] of [...this.#blocks])
      if (block.state === 'folded') this.#forget(id, block)
      else this.drop(block)
    this.add(base)
    this.base = base
    this.canonical = base
    this.complete = base
    this.pending = base
  }

  /** Blocks that are held, folded ones included. */
  get size(): number {
    return this.#blocks.size
  }

  #forget(id: BlockId, block: LiveBlock): void {
    step(block, 'forget')
    this.#blocks.delete(id)
  }

  /** What pending stands on above `block`, newest first. */
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
