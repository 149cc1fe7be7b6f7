/**
 * What a feed has told of the newest blocks, and how it differs from what a view shows: places that are gone, newest first, then
 * flashblocks that are new, oldest first.
 */
import { blockHere } from '../../engine/chain/here.ts'
import type { Block, ChainView, FlashblockPlace } from '../../engine/chain/types.ts'
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
/** Transactions of a flashblock, from `first` up to `end` without it, are not where it said any more. */
export type Removal = {
  readonly type: 'removed'
  readonly flashblock: Flashblock
  readonly first: number
  readonly end: number
}
/** The chain goes on from a later block, as where state is begun anew: what came after this place is not known here. */
export type Gap = { readonly type: 'gap'; readonly after: FlashblockPlace }

/** A flashblock that was told, as far as it still holds. */
type Part = { readonly flashblock: Flashblock; readonly first: number; readonly end: number }

type ToldBlock = {
  readonly number: bigint
  /** Of the view's block (engine/chain: Growth). */
  readonly id: number | undefined
  hash: Hex
  header: Header
  contents: Contents
  parts: Part[]
  /** Of the newest flashblock of this id; −1: none yet. */
  index: number
  /** Known by its hash alone: it was there before the feed began. */
  readonly isMark: boolean
}

/** Blocks known by their hash, to find where a branch leaves: a reorganisation that goes deeper is told from the oldest of them on. */
export const KNOWN = 128
/** Blocks in memory of which a feed that begins tells: what is not folded yet. */
const IN_MEMORY = 16

export class Told {
  /** Oldest first, each the parent of the next. */
  readonly #blocks: ToldBlock[] = []
  /** Number of the next flashblock. */
  next = 0

  /** Forgets everything. */
  clear(): void {
    this.#blocks.length = 0
  }

  /**
   * What has become of the chain since it was last asked, at most `blocks` blocks of it. The first answer is of the blocks in memory.
   * @throws {ViewError} with nothing told
   */
  read(view: ChainView, blocks: number): ReadEvents {
    const events: FlashblockEvent[] = []
    try {
      if (this.#blocks.length === 0) this.#blocks.push(...beginning(view))
      if (this.#isAhead(view)) events.push(this.#jump(view))
      else events.push(...this.#goBack(view))
      return { events, isBehind: this.#goOn(view, blocks, events) }
    } catch (error) {
      // What was found before is so: the rest comes with the next record.
      if (error instanceof ViewError && events.length > 0) return { events, isBehind: false }
      throw error
    }
  }

  /** Of flashblocks before this one nothing is kept any more: their blocks are known by their hashes. */
  forget(sequence: number): void {
    for (const block of this.#blocks.slice(0, -1)) {
      const newest = block.parts.at(-1)
      if (newest === undefined) continue
      if (newest.flashblock.sequence >= sequence) return
      block.parts = []
      block.contents = { transactions: [], receipts: [], firstLogs: [] }
    }
  }

  /** The newest block that is known is not here any more, and yet there are later ones. */
  #isAhead(view: ChainView): boolean {
    const { number } = this.#blocks.at(-1)!
    return view.pending.number > number && blockHere(view, number) === undefined
  }

  /** It is begun anew, on blocks that do not follow those that are known. */
  #jump(view: ChainView): Gap {
    const { number, index, parts } = this.#blocks.at(-1)!
    const payloadId = parts.at(-1)?.flashblock.payloadId
    this.#blocks.splice(0, this.#blocks.length, ...beginning(view))
    return { type: 'gap', after: { number, index: Math.max(index, 0), payloadId } }
  }

  /** Down to where the view has the same blocks: what of those above is not so any more, newest first. */
  #goBack(view: ChainView): readonly FlashblockEvent[] {
    const blocks = this.#blocks
    let common = blocks.length - 1
    while (common >= 0 && !isSame(view, blocks[common]!)) common--
    const gone = blocks.slice(common + 1)
    const [first] = gone
    if (first === undefined) return []
    // What has come in its place may begin as it did. Of what stood on it nothing is left: it names another parent.
    const now = blockHere(view, first.number)
    const kept = now === undefined || common < 0 ? 0 : commonTransactions(first, now)
    const events = gone.reverse().flatMap((told) => removals(told, told === first ? kept : 0))
    // Where nothing that is known is left, it goes on with what has come instead of the oldest.
    const begun = common < 0 ? (now ?? view.block({ tag: 'pending' })!) : now
    const adopted = begun && (kept > 0 || common < 0) ? [adopt(first, kept, { begun, view })] : []
    blocks.splice(common + 1, gone.length, ...adopted)
    return events
  }

  /** Upwards from the newest block that was told: true when there is more than `blocks`. */
  #goOn(view: ChainView, blocks: number, events: FlashblockEvent[]): boolean {
    const top = view.pending.number
    const from = this.#blocks.at(-1)!.number
    const to = from + BigInt(blocks) < top ? from + BigInt(blocks) : top
    for (let number = from; number <= to; number++) {
      const block = blockHere(view, number)
      if (block === undefined) {
        events.push(this.#jump(view))
        return true
      }
      this.#grow(view, block, events)
    }
    if (this.#blocks.length > KNOWN) this.#blocks.splice(0, this.#blocks.length - KNOWN)
    return to < top
  }

  /** What a block of the view has more than was told of it. */
  #grow(view: ChainView, block: Block, events: FlashblockEvent[]): void {
    const newest = this.#blocks.at(-1)!
    const isNext = newest.number !== block.number
    const { id, payloadId, flashblocks } = view.growth(block, isNext ? 0 : newest.index + 1)
    const told = isNext ? newBlock(block, id) : newest
    if (isNext) this.#blocks.push(told)
    for (const prefix of told.isMark ? [] : flashblocks) {
      const isNew = id !== undefined || prefix.transactionCount > told.contents.transactions.length
      if (isNew) events.push(this.#tell(told, prefix, payloadId))
    }
    told.hash = bytesToHex(block.hash)
    told.header = block.header
  }

  #tell(told: ToldBlock, prefix: Block, payloadId: string | undefined): FlashblockEvent {
    const { contents } = told
    const { transactionCount: end, hash, header } = prefix
    const first = Math.min(contents.transactions.length, end)
    const fields = { number: told.number, payloadId, hash, header, tail: prefix.tail() }
    // All of it is read before anything is kept: the view may go meanwhile.
    addContents(contents, readContents(prefix, contents.transactions.length))
    told.index = prefix.flashblockIndex ?? told.index + 1
    const place = { ...{ sequence: this.next++, index: told.index }, first, end }
    const flashblock = new Flashblock({ ...fields, ...place, contents })
    told.parts.push({ flashblock, first, end })
    return { type: 'added', flashblock }
  }
}

type ReadEvents = {
  readonly events: readonly FlashblockEvent[]
  /** There is more: ask again. */
  readonly isBehind: boolean
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

/** Blocks that a feed begins on: known by their hashes, up to those in memory, of which it tells. */
function beginning(view: ChainView): readonly ToldBlock[] {
  const marks: ToldBlock[] = []
  let inMemory = 0
  let oldest: ToldBlock | undefined
  for (let number = view.pending.number; number >= view.earliest; number--) {
    const block = marks.length === KNOWN ? undefined : blockHere(view, number)
    if (block === undefined) break
    const { id } = view.growth(block, 0)
    oldest = { ...newBlock(block, id), isMark: true }
    if (id === undefined || inMemory === IN_MEMORY) marks.unshift(oldest)
    else inMemory++
  }
  // Something has to be stood on, so that of the oldest block nothing is told.
  return marks.length > 0 ? marks : [oldest!]
}

const newBlock = (block: Block, id: number | undefined): ToldBlock => ({
  number: block.number,
  id,
  hash: bytesToHex(block.hash),
  header: block.header,
  contents: { transactions: [], receipts: [], firstLogs: [] },
  parts: [],
  index: -1,
  isMark: false,
})

/** The view has it, and it can only have grown. */
function isSame(view: ChainView, told: ToldBlock): boolean {
  const block = blockHere(view, told.number)
  if (block === undefined) return false
  if (bytesToHex(block.hash) === told.hash) return true
  const { id } = view.growth(block, told.index + 1)
  if (id !== undefined) return id === told.id
  // It has no table any more: what it was at a flashblock is still known by the hash of then.
  const before = view.block({ hash: hexToBytes(told.hash), requireCanonical: false })
  return before?.number === told.number
}

/** On the same parent: as many transactions as are the same at the same places with the same outcome, because all before them is. */
function commonTransactions(told: ToldBlock, block: Block): number {
  if (!runsAlike(told.header, block.header)) return 0
  const { transactions, receipts } = told.contents
  let at = 0
  while (at < transactions.length && at < block.transactionCount) {
    if (!equalBytes(transactions[at]!.hash, block.transactionHash(at)!)) break
    // Another refund of gas changes balances, which what follows may have read.
    if (receipts[at]!.cumulativeGasUsed !== block.receipt(at)!.cumulativeGasUsed) break
    at++
  }
  return at
}

/** What a transaction can see of its block. */
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

/** The same beginning in another block. Flashblocks of before keep what they hold. */
function adopt(
  { contents: { transactions, receipts, firstLogs }, parts }: ToldBlock,
  kept: number,
  { begun, view }: { readonly begun: Block; readonly view: ChainView },
): ToldBlock {
  return {
    ...newBlock(begun, view.growth(begun, 0).id),
    contents: {
      transactions: transactions.slice(0, kept),
      receipts: receipts.slice(0, kept),
      firstLogs: firstLogs.slice(0, kept),
    },
    parts: parts
      .filter(({ first }) => first < kept)
      .map((part) => ({ ...part, end: Math.min(part.end, kept) })),
  }
}

/** What is gone of a block of which the first `kept` transactions are not. */
function removals({ parts }: ToldBlock, kept: number): Removal[] {
  return parts
    .filter(({ end }) => end > kept)
    .reverse()
    .map(({ flashblock, first, end }) => ({
      type: 'removed',
      flashblock,
      first: Math.max(first, kept),
      end,
    }))
}
