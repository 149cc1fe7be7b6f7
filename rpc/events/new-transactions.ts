/** Which transactions a view shows that the view before it did not: those of its new blocks, and of its new flashblocks. */
import { blockHere } from '../../engine/chain/here.ts'
import type { Block, ChainView } from '../../engine/chain/types.ts'
import type { Bytes, Hex } from '../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'

/** A block as it was last seen. */
type Mark = {
  readonly hash: Hex
  /** `Growth.id`; undefined: not known. */
  readonly id: number | undefined
  /** Transactions that were told; undefined: the block was not read. */
  readonly count: number | undefined
}

export type Wanted = {
  /** Hears the hash of each transaction that is new, and perhaps of some that are not. */
  readonly tell: (hash: Bytes) => void
  /** Looks up each hash that is wanted, where more has changed than is followed. */
  readonly lookUp: () => void
}

/** Blocks that are known by their hashes, so that a reorganisation is followed from where it leaves them. */
const MAX_MARKS = 128
/** New blocks of one view. A chain that makes up for a time away shows more, and those who wait are then looked up one by one. */
const MAX_BLOCKS = 64

export class NewTransactions {
  #marks = new Map<bigint, Mark>()

  /**
   * Notes what the view shows.
   * @param wanted undefined: nobody wants to know
   * @throws {ViewError} with nothing noted: the next call begins where this one did
   */
  look(view: ChainView, wanted: Wanted | undefined): void {
    const head = headOf(view)
    const marks = new Map(this.#marks)
    for (const number of marks.keys()) if (number > head.number) marks.delete(number)
    if (wanted !== undefined && !this.#tellNew(view, marks, wanted.tell)) {
      wanted.lookUp()
      marks.clear()
    }
    for (const { number, hash } of [head, view.latest, view.canonical]) {
      const key = bytesToHex(hash)
      if (marks.get(number)?.hash !== key)
        marks.set(number, { hash: key, id: undefined, count: undefined })
    }
    this.#marks = newest(marks)
  }

  /** From the head down to a block that was there already. @returns false: more has changed than is followed */
  #tellNew(view: ChainView, marks: Map<bigint, Mark>, tell: (hash: Bytes) => void): boolean {
    const first = headOf(view).number
    const oldest = this.#oldest()
    if (oldest === undefined) return false
    for (let number = first; number >= oldest; number--) {
      if (first - number >= BigInt(MAX_BLOCKS)) return false
      const known = this.#marks.get(number)
      const block = number === first ? headBlock(view) : blockHere(view, number)
      if (block === undefined) return false
      const mark = markOf(view, block)
      const hasHash = known?.hash === mark.hash
      const hasGrown = known?.id !== undefined && known.id === mark.id
      // Blocks below the head are whole: the same hash is the same transactions.
      const from = hasHash && number < first ? mark.count : hasHash || hasGrown ? known.count : 0
      for (let at = from ?? 0; at < mark.count; at++) tell(block.transactionHash(at)!)
      marks.set(number, mark)
      if (hasHash || hasGrown) return true
    }
    return false
  }
  #oldest(): bigint | undefined {
    let oldest: bigint | undefined
    for (const number of this.#marks.keys())
      if (oldest === undefined || number < oldest) oldest = number
    return oldest
  }
}

const headOf = ({ endpoint, latest, pending }: ChainView) =>
  endpoint === 'standard' ? latest : pending
const headBlock = (view: ChainView): Block | undefined =>
  view.block({ tag: view.endpoint === 'standard' ? 'latest' : 'pending' })

const markOf = (view: ChainView, block: Block) => ({
  hash: bytesToHex(block.hash),
  id: view.growth(block, (block.flashblockIndex ?? 0) + 1).id,
  count: block.transactionCount,
})

function newest(marks: Map<bigint, Mark>): Map<bigint, Mark> {
  if (marks.size <= MAX_MARKS) return marks
  const sorted = [...marks].sort(([a], [b]) => (a < b ? -1 : 1))
  return new Map(sorted.slice(-MAX_MARKS))
}
