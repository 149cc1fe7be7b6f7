/**
 * Blocks from the store: unpersisted blocks return to diff layers at the start, persisted ones
 * serve as parents of branches.
 */
import { decodeHeader } from '../../primitives/header.ts'
import { decodeStoredReceipt } from '../../primitives/receipt-codec.ts'
import { decodeTransaction } from '../../primitives/transaction-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { OpenedChain, UnpersistedBlock } from '../../storage/types.ts'
import { type LiveBlock, newBlock } from './live-block.ts'
import type { WriterOptions } from './types.ts'
import { emit, type WriterState } from './writer-state.ts'

/**
 * Puts unpersisted blocks back into diff layers.
 * @throws {Error} when the arena is too small for them
 */
export function recoverBlocks(state: WriterState, opened: OpenedChain): void {
  const { chain } = state
  for (const stored of opened.unpersisted) {
    const parent = chain.canonical
    const block = refill(state.options, parent, stored)
    chain.add(block)
    chain.canonical = block
    chain.complete = block
    chain.pending = block
    const { id } = block.handle
    const request = { type: 'adopt', id, parentId: parent.handle.id, hash: stored.hash } as const
    emit(state, { type: 'persistence', request })
  }
}

/** Makes a persisted block that only the store has. */
export function storedBlock(
  { store }: WriterOptions,
  handle: LiveBlock['handle'],
  hash: LiveBlock['hash'],
): LiveBlock {
  const header = store.header(hash)
  if (header === undefined)
    throw new Error(`the store has no header of block ${handle.number}, which it has folded`)
  return newBlock('find', {
    handle,
    parent: undefined,
    header: decodeHeader(header),
    hash,
    index: 0,
  })
}

/**
 * Finds a canonical block by hash, also one from before this start, as far back as unwinds reach.
 */
export function decidedParent(state: WriterState, hash: LiveBlock['hash']): LiveBlock | undefined {
  const { chain, options, limits } = state
  const live = chain.finished(hash)
  if (live === chain.base || live?.state === 'canonical') return live
  if (live !== undefined && live.state !== 'persisted') return undefined
  const { store, publisher } = options
  const header = store.header(hash)
  const number = header && Number(decodeHeader(header).number)
  const oldest = chain.base.handle.number - limits.undoBlocks
  if (number === undefined || number < oldest || number >= chain.base.handle.number)
    return undefined
  const decided = store.hashOfNumber(number)
  const isDecided = decided !== undefined && equalBytes(decided, hash)
  // After an unwind the base is lower, and fewer blocks below it can be unwound.
  if (!isDecided || !store.canUnwindTo(number)) return undefined
  const block = live ?? storedBlock(options, publisher.stored({ number, hash }), hash)
  chain.add(block)
  return block
}

function refill(options: WriterOptions, parent: LiveBlock, stored: UnpersistedBlock): LiveBlock {
  const { publisher } = options
  const header = decodeHeader(stored.header)
  const handle = publisher.start(parent.handle)
  const transactions = stored.transactions.map(({ raw, from }, at) => ({
    transaction: decodeTransaction(raw, from),
    receipt: decodeStoredReceipt(stored.receipts[at]!),
  }))
  const { hash, diff } = stored
  const fits =
    publisher.add(handle, { index: 0, diff, header, hash, transactions }) === 'added' &&
    publisher.finish(handle, header, hash) === 'added'
  if (!fits)
    throw new Error(
      `no view memory for stored block ${stored.number}: raise --view-memory, or --held-flashblocks to what it was`,
    )
  return newBlock('recover', { handle, parent, header, hash, index: 0 })
}
