/**
 * Cache of the JSON of persisted blocks, as bytes outside of the heap. Entries never become stale,
 * because a block's hash determines its contents.
 */
import type { Block } from '../../engine/chain/types.ts'
import { newSlab, take } from '../../engine/primitives/bytes.ts'
import { createFifo } from '../core/fifo.ts'
import { blockText, receiptAt, receiptsText, transactionAt } from './json.ts'

export interface TextCache {
  /** undefined when the block has no such transaction. */
  transaction(block: Block, index: number): string | undefined
  /** undefined when the block has no such transaction. */
  receipt(block: Block, index: number): string | undefined
  /** @param isFull transactions as objects instead of hashes */
  block(block: Block, isFull: boolean): string
  receipts(block: Block): string
  readonly stats: {
    readonly hits: number
    readonly misses: number
    readonly items: number
    readonly bytes: number
  }
}

/** Size of an entry beside its text: key, queue entry, and the object around its bytes. */
const ENTRY_BYTES = 300
const SLAB_BYTES = 65_536
/** Divisor of the cache's size; an entry above that share would evict too many others. */
const MAX_SHARE = 8

/**
 * Creates the cache.
 * @param limitBytes size at which the oldest entries are evicted; 0 disables the cache
 */
export function createTextCache(limitBytes: number): TextCache {
  const cached = new Map<string, Buffer>()
  const order = createFifo<string>()
  const slab = newSlab(SLAB_BYTES)
  let bytes = 0
  let hits = 0
  let misses = 0

  function add(key: string, text: string): void {
    const size = text.length + ENTRY_BYTES
    if (size * MAX_SHARE > limitBytes) return
    const part = take(slab, text.length)
    const copy = Buffer.from(part.buffer, part.byteOffset, part.length)
    copy.write(text, 'latin1')
    cached.set(key, copy)
    order.push(key)
    bytes += size
    while (bytes > limitBytes) {
      const oldest = order.shift()!
      bytes -= cached.get(oldest)!.length + ENTRY_BYTES
      cached.delete(oldest)
    }
  }
  /** @param what part of the key that distinguishes the kinds of text of a block */
  function textOf<T extends string | undefined>(block: Block, what: string, make: () => T): T {
    if (!block.isPersisted || limitBytes === 0) return make()
    const { hash } = block
    const key = `${Buffer.from(hash.buffer, hash.byteOffset, hash.length).toString('latin1')}${what}`
    const known = cached.get(key)
    if (known !== undefined) {
      hits++
      return known.toString('latin1') as T
    }
    misses++
    const text = make()
    if (text !== undefined) add(key, text)
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
      return { hits, misses, items: cached.size, bytes }
    },
  }
}
