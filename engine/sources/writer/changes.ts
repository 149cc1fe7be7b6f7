/**
 * Finds the flashblocks, receipts and state that are new in a snapshot, for readers of the enriched
 * feed (ADR 41).
 */
import { isFinished } from '../../chain/block-state.ts'
import { storedReceiptOf } from '../../execution/transaction/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { encodeHeader, type Header } from '../../primitives/header.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { encodeDiff } from '../../state/diff-codec.ts'
import type { LiveBlock, UnpublishedFlashblock } from './live-block.ts'
import type { LiveChain } from './live-chain.ts'

/** A flashblock, or a full block as its only one. */
type Named = {
  readonly number: number
  readonly index: number
  /** undefined: no feed has brought the block. */
  readonly payloadId: string | undefined
  /** The header is the block's final one. */
  readonly isFinal: boolean
}
/** `transactions` and `diff` are those of this flashblock alone. */
export type NewFlashblock = Named & UnpublishedFlashblock
export type EncodedFlashblock = Named & {
  /** Number of transactions in this flashblock alone. */
  readonly transactions: number
  /**
   * Header (RLP), hash and encoded diff; then raw, sender, hash and stored receipt of each
   * transaction. `ends` has the end of each piece.
   */
  readonly bytes: Uint8Array
  readonly ends: Uint32Array
}
/** Final header of an emitted block, with its hash and roots. */
export type EncodedHeader = {
  readonly number: number
  readonly header: Bytes
  readonly hash: Bytes
}
export type BlockRef = {
  readonly number: number
  readonly hash: string
  readonly payloadId: string | undefined
}
export type EmittedHeads = {
  readonly canonical: BlockRef
  readonly complete: BlockRef
  /** `index`: newest flashblock; undefined: the block is complete. */
  readonly pending: BlockRef & { readonly index: number | undefined }
  readonly safe: number
  readonly finalized: number
}
/** Changes, to be applied in the order of the fields. */
export type ChangesOf<Flashblock> = {
  /**
   * Earlier changes are void and these start with canonical: the first of a run, or after a resync.
   */
  readonly isStart: boolean
  /** Every block above `above` is gone; `blocks` has the known ones, newest first. */
  readonly removed: { readonly above: number; readonly blocks: readonly BlockRef[] } | undefined
  readonly headers: readonly EncodedHeader[]
  readonly flashblocks: readonly Flashblock[]
  readonly heads: EmittedHeads
}

export type NewChanges = ChangesOf<NewFlashblock>
/** Changes in the form for another thread. */
export type Changes = ChangesOf<EncodedFlashblock>

type Known = {
  id: number
  readonly number: number
  readonly payloadId: string | undefined
  header: Header
  hash: Bytes
}
/** Emitted blocks, oldest first and without a gap. */
export type EmittedChanges = { blocks: readonly Known[]; heads: string; isStart: boolean }
export const nothingEmitted = (): EmittedChanges => ({ blocks: [], heads: '', isStart: true })
/** Forgets emitted blocks when the chain restarts at another block. */
export const forgetEmitted = (emitted: EmittedChanges): void =>
  void Object.assign(emitted, nothingEmitted())

/** Limit of remembered blocks, which exceeds the depth of any reorg. */
const MAX_KNOWN = 256

/** Returns the changes since the last call; undefined: there are none. */
export function takeChanges(
  emitted: EmittedChanges,
  chain: LiveChain,
  labelledHeads: { readonly safe: number; readonly finalized: number },
): NewChanges | undefined {
  const line = lineOf(chain)
  const base = line[0]!.handle.number
  const { retained, gone } = split(emitted.blocks, line, base)
  const known = new Map(retained.map((one) => [one.number, one]))
  const flashblocks: NewFlashblock[] = []
  const headers: EncodedHeader[] = []
  for (const block of line) {
    const { number } = block.handle
    const parts = block.unpublished.splice(0)
    const isLast = (part: UnpublishedFlashblock) => part === parts.at(-1)
    for (const part of parts)
      flashblocks.push(newFlashblock(block, isLast(part) ? { ...part, ...finalOf(block) } : part))
    const before = known.get(number)
    if (before === undefined) known.set(number, knownOf(block))
    else {
      const isOther = before.header !== block.header
      before.id = block.handle.id
      before.header = block.header
      before.hash = block.hash
      // The base can be a new object with the same header, which was final before.
      if (isOther && parts.length === 0 && number > base) headers.push(encodedHeader(block))
    }
  }
  emitted.blocks = [...known.values()].slice(-MAX_KNOWN)
  const above = Math.max(base, retained.at(-1)?.number ?? base)
  const removed = gone.length === 0 ? undefined : { above, blocks: gone.toReversed().map(blockOf) }
  const heads = headsOf(chain, labelledHeads)
  const text = JSON.stringify(heads)
  const isSame = flashblocks.length + headers.length + gone.length === 0 && text === emitted.heads
  const { isStart } = emitted
  emitted.heads = text
  emitted.isStart = false
  return isSame ? undefined : { isStart, removed, flashblocks, headers, heads }
}

/** Returns the blocks from the base, which has no parent, to pending. */
function lineOf({ pending }: LiveChain): readonly LiveBlock[] {
  const line: LiveBlock[] = []
  for (let at: LiveBlock | undefined = pending; at !== undefined; at = at.parent) line.push(at)
  return line.reverse()
}

/**
 * Splits emitted blocks into retained and gone ones. Blocks up to the base stay, because the base
 * only goes back to its ancestors.
 */
function split(blocks: readonly Known[], line: readonly LiveBlock[], base: number) {
  const isRetained = ({ number, id }: Known) =>
    number <= base || line[number - base]?.handle.id === id
  const firstGone = blocks.findIndex((block) => !isRetained(block))
  const end = firstGone < 0 ? blocks.length : firstGone
  return { retained: blocks.slice(0, end), gone: blocks.slice(end) }
}

const knownOf = ({ handle, payloadId, header, hash, feed }: LiveBlock): Known => ({
  id: handle.id,
  number: handle.number,
  header,
  hash,
  payloadId: feed === undefined ? undefined : payloadId,
})

/**
 * The last part takes the block's header, because a full block is published only with its final
 * header.
 */
const finalOf = ({ header, hash }: LiveBlock) => ({ header, hash })

const newFlashblock = (block: LiveBlock, part: UnpublishedFlashblock): NewFlashblock => ({
  ...part,
  number: block.handle.number,
  payloadId: block.feed === undefined ? undefined : block.payloadId,
  isFinal: part.header === block.header && isFinished(block.state),
})

/**
 * Encodes changes for another thread. The encoding takes 6 µs a transaction (2026-11), so readers
 * are notified of the snapshot first.
 */
export const packChanges = (changes: NewChanges): Changes => ({
  ...changes,
  flashblocks: changes.flashblocks.map(encodeFlashblockParts),
})

function encodeFlashblockParts(flashblock: NewFlashblock): EncodedFlashblock {
  const { number, index, payloadId, isFinal, header, hash, diff, transactions } = flashblock
  const pieces: Bytes[] = [encodeHeader(header), hash, encodeDiff(diff)]
  for (const one of transactions) {
    const { raw, from, hash: name } = one.transaction
    pieces.push(raw, from, name, storedReceiptOf(one))
  }
  return {
    number,
    index,
    payloadId,
    isFinal,
    transactions: transactions.length,
    ...packed(pieces),
  }
}

function packed(pieces: readonly Bytes[]): Pick<EncodedFlashblock, 'bytes' | 'ends'> {
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0))
  const ends = new Uint32Array(pieces.length)
  let at = 0
  for (const [index, piece] of pieces.entries()) {
    bytes.set(piece, at)
    at += piece.length
    ends[index] = at
  }
  return { bytes, ends }
}

const encodedHeader = ({ handle, header, hash }: LiveBlock): EncodedHeader => ({
  number: handle.number,
  header: encodeHeader(header),
  hash: hash.slice(),
})

const blockOf = ({ number, hash, payloadId }: Omit<Known, 'id' | 'header'>): BlockRef => ({
  number,
  payloadId,
  hash: bytesToHex(hash),
})

function headsOf(
  { canonical, complete, pending }: LiveChain,
  labelledHeads: { readonly safe: number; readonly finalized: number },
): EmittedHeads {
  const isComplete = isFinished(pending.state)
  return {
    canonical: blockOf(knownOf(canonical)),
    complete: blockOf(knownOf(complete)),
    pending: { ...blockOf(knownOf(pending)), index: isComplete ? undefined : pending.index },
    ...labelledHeads,
  }
}
