/**
 * Finds the transactions of a view that the previous view did not have, in new blocks and
 * flashblocks.
 */
import type { Block, ChainView } from '../../engine/chain/types.ts'
import { blockIfStored } from '../../engine/chain/view-reads.ts'
import type { Bytes, Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'

/** Data of a block in the last view that had it. */
type SeenBlock = {
  readonly hash: Hex
  /** `Growth.id`; undefined: unknown. */
  readonly id: number | undefined
  /** Number of emitted transactions; undefined: the block was not read. */
  readonly count: number | undefined
}

export type Wanted = {
  /** Called with the hash of each new transaction, and perhaps of some older ones. */
  readonly onTransaction: (hash: Bytes) => void
  /** Looks up each wanted hash, because the view has changed too much to compare. */
  readonly findAll: () => void
}

/** Maximum blocks known by hash, to find a reorg's ancestor. */
const MAX_SEEN_BLOCKS = 128
/**
 * Maximum new blocks of a view that are compared. A chain that catches up adds more, and wanted
 * hashes are then looked up one by one.
 */
const MAX_BLOCKS = 64

export class NewTransactions {
  #seenBlocks = new Map<bigint, SeenBlock>()

  /**
   * Compares the view with the previous one and records it.
   * @param wanted undefined: no transaction is wanted
   * @throws {ViewError} before anything is recorded, so the next call repeats the comparison
   */
  update(view: ChainView, wanted: Wanted | undefined): void {
    const head = headOf(view)
    const seenBlocks = new Map(this.#seenBlocks)
    for (const number of seenBlocks.keys()) if (number > head.number) seenBlocks.delete(number)
    if (wanted !== undefined && !this.#emitNew(view, seenBlocks, wanted.onTransaction)) {
      wanted.findAll()
      seenBlocks.clear()
    }
    for (const { number, hash } of [head, view.latest, view.canonical]) {
      const key = bytesToHex(hash)
      if (seenBlocks.get(number)?.hash !== key)
        seenBlocks.set(number, { hash: key, id: undefined, count: undefined })
    }
    this.#seenBlocks = newest(seenBlocks)
  }

  /**
   * Emits transactions from the head down to a known block.
   * @returns false if the view has changed too much
   */
  #emitNew(
    view: ChainView,
    seenBlocks: Map<bigint, SeenBlock>,
    onTransaction: (hash: Bytes) => void,
  ): boolean {
    const first = headOf(view).number
    const oldest = this.#oldest()
    if (oldest === undefined) return false
    for (let number = first; number >= oldest; number--) {
      if (first - number >= BigInt(MAX_BLOCKS)) return false
      const known = this.#seenBlocks.get(number)
      const block = number === first ? headBlock(view) : blockIfStored(view, number)
      if (block === undefined) return false
      const seenBlock = seenBlockOf(view, block)
      const hasHash = known?.hash === seenBlock.hash
      const hasGrown = known?.id !== undefined && known.id === seenBlock.id
      // Blocks below the head are complete, so the same hash means the same transactions.
      const from =
        hasHash && number < first ? seenBlock.count : hasHash || hasGrown ? known.count : 0
      for (let at = from ?? 0; at < seenBlock.count; at++) onTransaction(block.transactionHash(at)!)
      seenBlocks.set(number, seenBlock)
      if (hasHash || hasGrown) return true
    }
    return false
  }
  #oldest(): bigint | undefined {
    let oldest: bigint | undefined
    for (const number of this.#seenBlocks.keys())
      if (oldest === undefined || number < oldest) oldest = number
    return oldest
  }
}

const headOf = ({ endpoint, latest, pending }: ChainView) =>
  endpoint === 'standard' ? latest : pending
const headBlock = (view: ChainView): Block | undefined =>
  view.block({ tag: view.endpoint === 'standard' ? 'latest' : 'pending' })

const seenBlockOf = (view: ChainView, block: Block) => ({
  hash: bytesToHex(block.hash),
  id: view.growth(block, (block.flashblockIndex ?? 0) + 1).id,
  count: block.transactionCount,
})

function newest(seenBlocks: Map<bigint, SeenBlock>): Map<bigint, SeenBlock> {
  if (seenBlocks.size <= MAX_SEEN_BLOCKS) return seenBlocks
  const sorted = [...seenBlocks].sort(([a], [b]) => (a < b ? -1 : 1))
  return new Map(sorted.slice(-MAX_SEEN_BLOCKS))
}
