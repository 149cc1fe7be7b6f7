/**
 * Flashblocks that a feed has emitted for the newest blocks, compared with a view. The difference
 * is removals, newest first, then new flashblocks, oldest first.
 */
import type { Block, ChainView, FlashblockId } from '../../engine/chain/types.ts'
import { blockIfStored } from '../../engine/chain/view-reads.ts'
import type { Bytes, Hex } from '../../engine/primitives/bytes.ts'
import type { Header } from '../../engine/primitives/header.ts'
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'
import type { Receipt } from '../../engine/primitives/receipt.ts'
import type { Transaction } from '../../engine/primitives/transaction.ts'
import { equalBytes } from '../../engine/primitives/words.ts'
import { ViewError } from '../../engine/state/reader.ts'
import { type Contents, Flashblock } from './flashblock.ts'

export type FlashblockEvent =
  | { readonly type: 'added'; readonly flashblock: Flashblock }
  | Removal
  | Gap
/** Removal of a flashblock's transactions, from index `first` to `end` (exclusive). */
export type Removal = {
  readonly type: 'removed'
  readonly flashblock: Flashblock
  readonly first: number
  readonly end: number
}
/**
 * A gap after a flashblock: the chain continues at a later block, for example after a resync. The
 * events between are unknown.
 */
export type Gap = { readonly type: 'gap'; readonly after: FlashblockId }

/** An emitted flashblock, with the range of transactions that are still valid. */
type Part = { readonly flashblock: Flashblock; readonly first: number; readonly end: number }

type EmittedBlock = {
  readonly number: bigint
  /** Identity of the view's block (engine/chain: Growth). */
  readonly id: number | undefined
  hash: Hex
  header: Header
  contents: Contents
  parts: Part[]
  /** Index of the newest flashblock with this id; −1 before the first. */
  index: number
  /** The block existed before the feed started, so only its hash is known. */
  readonly isMark: boolean
}

/**
 * Maximum blocks known by hash, to find a reorg's ancestor. A deeper reorg is emitted from the
 * oldest of them on.
 */
export const KNOWN = 128
/** Maximum unpersisted blocks that a feed emits at its start. */
const IN_MEMORY = 16

export class EmittedFlashblocks {
  /** Blocks, oldest first; each is the parent of the next. */
  readonly #blocks: EmittedBlock[] = []
  /** Sequence number of the next flashblock. */
  next = 0

  clear(): void {
    this.#blocks.length = 0
  }

  /**
   * Returns the changes since the last read, for at most `blocks` blocks. The first read returns
   * the blocks in memory.
   * @throws {ViewError} if no change was read
   */
  read(view: ChainView, blocks: number): ReadEvents {
    const events: FlashblockEvent[] = []
    try {
      if (this.#blocks.length === 0) this.#blocks.push(...startBlocks(view))
      if (this.#isUnconnected(view)) events.push(this.#jump(view))
      else events.push(...this.#goBack(view))
      return { events, hasMore: this.#goOn(view, blocks, events) }
    } catch (error) {
      // The changes found so far are valid; the next snapshot gives all later ones.
      if (error instanceof ViewError && events.length > 0) return { events, hasMore: false }
      throw error
    }
  }

  /**
   * Drops the contents of blocks whose flashblocks are all older than `sequence`. Their hashes
   * stay.
   */
  forget(sequence: number): void {
    for (const block of this.#blocks.slice(0, -1)) {
      const newest = block.parts.at(-1)
      if (newest === undefined) continue
      if (newest.flashblock.sequence >= sequence) return
      block.parts = []
      block.contents = { transactions: [], receipts: [], firstLogs: [] }
    }
  }

  /** Tells whether the newest known block is missing although the view has later blocks. */
  #isUnconnected(view: ChainView): boolean {
    const { number } = this.#blocks.at(-1)!
    return view.pending.number > number && blockIfStored(view, number) === undefined
  }

  /** Restarts on blocks that do not follow the known ones. */
  #jump(view: ChainView): Gap {
    const { number, index, parts } = this.#blocks.at(-1)!
    const payloadId = parts.at(-1)?.flashblock.payloadId
    this.#blocks.splice(0, this.#blocks.length, ...startBlocks(view))
    return { type: 'gap', after: { number, index: Math.max(index, 0), payloadId } }
  }

  /**
   * Removes blocks that the view does not have.
   * @returns their removals, newest first
   */
  #goBack(view: ChainView): readonly FlashblockEvent[] {
    const blocks = this.#blocks
    let common = blocks.length - 1
    while (common >= 0 && !isSame(view, blocks[common]!)) common--
    const gone = blocks.slice(common + 1)
    const [first] = gone
    if (first === undefined) return []
    // The replacement block may start with the same transactions. Later blocks have another parent,
    // so nothing of them remains.
    const now = blockIfStored(view, first.number)
    const retained = now === undefined || common < 0 ? 0 : commonTransactions(first, now)
    const events = gone
      .reverse()
      .flatMap((emitted) => removals(emitted, emitted === first ? retained : 0))
    // If no known block remains, the feed continues at the replacement of the oldest one.
    const started = common < 0 ? (now ?? view.block({ tag: 'pending' })!) : now
    const adopted =
      started && (retained > 0 || common < 0) ? [adopt(first, retained, { started, view })] : []
    blocks.splice(common + 1, gone.length, ...adopted)
    return events
  }

  /**
   * Emits flashblocks from the newest known block upwards.
   * @returns true if more blocks remain
   */
  #goOn(view: ChainView, blocks: number, events: FlashblockEvent[]): boolean {
    const top = view.pending.number
    const from = this.#blocks.at(-1)!.number
    const to = from + BigInt(blocks) < top ? from + BigInt(blocks) : top
    for (let number = from; number <= to; number++) {
      const block = blockIfStored(view, number)
      if (block === undefined) {
        events.push(this.#jump(view))
        return true
      }
      this.#grow(view, block, events)
    }
    if (this.#blocks.length > KNOWN) this.#blocks.splice(0, this.#blocks.length - KNOWN)
    return to < top
  }

  /** Emits the new flashblocks of a view's block. */
  #grow(view: ChainView, block: Block, events: FlashblockEvent[]): void {
    const newest = this.#blocks.at(-1)!
    const isNext = newest.number !== block.number
    const { id, payloadId, flashblocks } = view.growth(block, isNext ? 0 : newest.index + 1)
    const emitted = isNext ? newBlock(block, id) : newest
    if (isNext) this.#blocks.push(emitted)
    for (const prefix of emitted.isMark ? [] : flashblocks) {
      const isNew =
        id !== undefined || prefix.transactionCount > emitted.contents.transactions.length
      if (isNew) events.push(this.#addFlashblock(emitted, prefix, payloadId))
    }
    emitted.hash = bytesToHex(block.hash)
    emitted.header = block.header
  }

  #addFlashblock(
    emitted: EmittedBlock,
    prefix: Block,
    payloadId: string | undefined,
  ): FlashblockEvent {
    const { contents } = emitted
    const { transactionCount: end, hash, header } = prefix
    const first = Math.min(contents.transactions.length, end)
    const fields = { number: emitted.number, payloadId, hash, header, tail: prefix.tail() }
    // All parts are read before any is stored, because the view may become void meanwhile.
    addContents(contents, readContents(prefix, contents.transactions.length))
    emitted.index = prefix.flashblockIndex ?? emitted.index + 1
    const range = { sequence: this.next++, index: emitted.index, first, end }
    const flashblock = new Flashblock({ ...fields, ...range, contents })
    emitted.parts.push({ flashblock, first, end })
    return { type: 'added', flashblock }
  }
}

type ReadEvents = {
  readonly events: readonly FlashblockEvent[]
  /** True if more changes remain, so the caller must read again. */
  readonly hasMore: boolean
}

function readContents(block: Block, from: number): Pick<Contents, 'transactions' | 'receipts'> {
  const transactions: Transaction[] = []
  const receipts: Receipt[] = []
  for (let at = from; at < block.transactionCount; at++) {
    transactions.push(block.transaction(at)!)
    receipts.push(block.receipt(at)!)
  }
  return { transactions, receipts }
}

function addContents(
  to: Contents,
  { transactions, receipts }: Pick<Contents, 'transactions' | 'receipts'>,
): void {
  for (const [at, transaction] of transactions.entries()) {
    const before = to.receipts.at(-1)
    to.firstLogs.push(before === undefined ? 0 : to.firstLogs.at(-1)! + before.logs.length)
    to.transactions.push(transaction)
    to.receipts.push(receipts[at]!)
  }
}

/**
 * Returns the blocks that a feed starts on, known by hash. Newer blocks are in memory and will be
 * emitted.
 */
function startBlocks(view: ChainView): readonly EmittedBlock[] {
  const knownBlocks: EmittedBlock[] = []
  let inMemory = 0
  let oldest: EmittedBlock | undefined
  for (let number = view.pending.number; number >= view.earliest; number--) {
    const block = knownBlocks.length === KNOWN ? undefined : blockIfStored(view, number)
    if (block === undefined) break
    const { id } = view.growth(block, 0)
    oldest = { ...newBlock(block, id), isMark: true }
    if (id === undefined || inMemory === IN_MEMORY) knownBlocks.unshift(oldest)
    else inMemory++
  }
  // A feed needs a first block, so the oldest block is not emitted.
  return knownBlocks.length > 0 ? knownBlocks : [oldest!]
}

const newBlock = (block: Block, id: number | undefined): EmittedBlock => ({
  number: block.number,
  id,
  hash: bytesToHex(block.hash),
  header: block.header,
  contents: { transactions: [], receipts: [], firstLogs: [] },
  parts: [],
  index: -1,
  isMark: false,
})

/** Tells whether the view has the block, perhaps with more flashblocks. */
function isSame(view: ChainView, emitted: EmittedBlock): boolean {
  const block = blockIfStored(view, emitted.number)
  if (block === undefined) return false
  if (bytesToHex(block.hash) === emitted.hash) return true
  const { id } = view.growth(block, emitted.index + 1)
  if (id !== undefined) return id === emitted.id
  // A persisted block has no diff layer, but the hash at an earlier flashblock is still known.
  const before = view.block({ hash: hexToBytes(emitted.hash), requireCanonical: false })
  return before?.number === emitted.number
}

/**
 * Counts the leading transactions that have the same hash and outcome in both blocks. The parent
 * must be the same, so equal prefixes have equal states.
 */
function commonTransactions(emitted: EmittedBlock, block: Block): number {
  if (!runsAlike(emitted.header, block.header)) return 0
  const { transactions, receipts } = emitted.contents
  let at = 0
  while (at < transactions.length && at < block.transactionCount) {
    if (!equalBytes(transactions[at]!.hash, block.transactionHash(at)!)) break
    // Different gas refunds change balances, which later transactions may have read.
    if (receipts[at]!.cumulativeGasUsed !== block.receipt(at)!.cumulativeGasUsed) break
    at++
  }
  return at
}

/** Tells whether both headers have the same values that transactions can read. */
function runsAlike(a: Header, b: Header): boolean {
  const same = (x: Bytes | undefined, y: Bytes | undefined) =>
    x === y || (x !== undefined && y !== undefined && equalBytes(x, y))
  return (
    same(a.parentHash, b.parentHash) &&
    same(a.coinbase, b.coinbase) &&
    same(a.mixHash, b.mixHash) &&
    same(a.parentBeaconBlockRoot, b.parentBeaconBlockRoot) &&
    a.timestamp === b.timestamp &&
    a.gasLimit === b.gasLimit &&
    a.baseFeePerGas === b.baseFeePerGas &&
    a.excessBlobGas === b.excessBlobGas
  )
}

/**
 * Makes the entry of a replacement block that starts with the same transactions. Earlier
 * flashblocks retain their contents.
 */
function adopt(
  { contents: { transactions, receipts, firstLogs }, parts }: EmittedBlock,
  retained: number,
  { started, view }: { readonly started: Block; readonly view: ChainView },
): EmittedBlock {
  return {
    ...newBlock(started, view.growth(started, 0).id),
    contents: {
      transactions: transactions.slice(0, retained),
      receipts: receipts.slice(0, retained),
      firstLogs: firstLogs.slice(0, retained),
    },
    parts: parts
      .filter(({ first }) => first < retained)
      .map((part) => ({ ...part, end: Math.min(part.end, retained) })),
  }
}

/** Returns the removals of a block of which the first `retained` transactions remain. */
function removals({ parts }: EmittedBlock, retained: number): Removal[] {
  return parts
    .filter(({ end }) => end > retained)
    .reverse()
    .map(({ flashblock, first, end }) => ({
      type: 'removed',
      flashblock,
      first: Math.max(first, retained),
      end,
    }))
}
