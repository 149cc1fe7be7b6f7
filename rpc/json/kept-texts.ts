/** JSON of what stands in folded blocks: made once, and kept as bytes, outside of the heap. The hash of a block says all that is in it. */
import type { Block } from '../../engine/chain/types.ts'
import { newSlab, take } from '../../engine/primitives/slab.ts'
import { createFifo } from '../seam/fifo.ts'
import { blockText, receiptAt, receiptsText, transactionAt } from './json.ts'

export interface KeptTexts {
  /** undefined: the block has no such transaction. */
  transaction(block: Block, index: number): string | undefined
  /** undefined: the block has no such transaction. */
  receipt(block: Block, index: number): string | undefined
  /** @param isFull transactions as objects, else as hashes. */
  block(block: Block, isFull: boolean): string
  receipts(block: Block): string
  readonly stats: {
    readonly hits: number
    readonly misses: number
    readonly items: number
    readonly bytes: number
  }
}

/** Of an entry, beside its text: key, place in the queue, and the object around its bytes. */
const ENTRY_BYTES = 300
const SLAB_BYTES = 65_536
/** What takes a larger share would put out too much of the others. */
const MOST_SHARE = 8

/** @param limitBytes the oldest make room; 0: nothing is kept */
export function keepTexts(limitBytes: number): KeptTexts {
  const kept = new Map<string, Buffer>()
  const order = createFifo<string>()
  const slab = newSlab(SLAB_BYTES)
  let bytes = 0
  let hits = 0
  let misses = 0

  function keep(key: string, text: string): void {
    const size = text.length + ENTRY_BYTES
    if (size * MOST_SHARE > limitBytes) return
    const part = take(slab, text.length)
    const copy = Buffer.from(part.buffer, part.byteOffset, part.length)
    copy.write(text, 'latin1')
    kept.set(key, copy)
    order.push(key)
    bytes += size
    while (bytes > limitBytes) {
      const oldest = order.shift()!
      bytes -= kept.get(oldest)!.length + ENTRY_BYTES
      kept.delete(oldest)
    }
  }
  /** @param what of the block: a name of its own for each kind of text */
  function textOf<T extends string | undefined>(block: Block, what: string, make: () => T): T {
    if (!block.isFolded || limitBytes === 0) return make()
    const { hash } = block
    const key = `${Buffer.from(hash.buffer, hash.byteOffset, hash.length).toString('latin1')}${what}`
    const known = kept.get(key)
    if (known !== undefined) {
      hits++
      return known.toString('latin1') as T
    }
    misses++
    const text = make()
    if (text !== undefined) keep(key, text)
    return text
  }

  return {
    transaction: (block, index) =>
      textOf(block, `transaction ${index}`, () => transactionAt(block, index)),
    receipt: (block, index) => textOf(block, `receipt ${index}`, () => receiptAt(block, index)),
    block: (block, isFull) =>
      textOf(block, isFull ? 'full block' : 'block', () => blockText(block, isFull)),
    receipts: (block) => textOf(block, 'receipts', () => receiptsText(block)),
    get stats() {
      return { hits, misses, items: kept.size, bytes }
    },
  }
}
