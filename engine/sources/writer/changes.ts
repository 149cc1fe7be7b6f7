/**
 * Finds the flashblocks, receipts and state that a new snapshot has and the one before had not, for
 * readers of the enriched feed (ADR 41).
 */
import { isFinished } from '../../chain/life.ts'
import { storedReceiptOf } from '../../execution/transaction/stored-receipt.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { encodeHeader } from '../../primitives/header-codec.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { encodeDiff } from '../../state/diff-codec.ts'
import type { LiveBlock, Untold } from './live-block.ts'
import type { LiveChain } from './live-chain.ts'

/** One flashblock, or a block that came whole, as its only one. */
type Named = {
  readonly number: number
  readonly index: number
  /** undefined: no feed has brought the block. */
  readonly payloadId: string | undefined
  /** The header is the block's own. */
  readonly isFinal: boolean
}
/** `transactions`, `diff`: of it alone. */
export type NewFlashblock = Named & Untold
export type ToldFlashblock = Named & {
  /** Of it alone. */
  readonly transactions: number
  /** One after the other, and where each ends: header (RLP), hash, encoded diff; of each transaction raw, sender, hash, receipt as it is stored. */
  readonly bytes: Uint8Array
  readonly ends: Uint32Array
}
/** A block that has been told has its final header now: hash and roots. */
export type ToldHeader = { readonly number: number; readonly header: Bytes; readonly hash: Bytes }
export type ToldBlock = {
  readonly number: number
  readonly hash: string
  readonly payloadId: string | undefined
}
export type ToldHeads = {
  readonly canonical: ToldBlock
  readonly complete: ToldBlock
  /** `index`: newest flashblock; undefined: a whole block. */
  readonly pending: ToldBlock & { readonly index: number | undefined }
  readonly safe: number
  readonly finalized: number
}
/** To be applied in this order. */
export type ChangesOf<Flashblock> = {
  /** What was told before holds no more, and this begins with canonical: the first of a run, or a state that has begun anew. */
  readonly isBeginning: boolean
  /** Every block above this one is gone; those that are known, newest first. */
  readonly removed: { readonly above: number; readonly blocks: readonly ToldBlock[] } | undefined
  readonly headers: readonly ToldHeader[]
  readonly flashblocks: readonly Flashblock[]
  readonly heads: ToldHeads
}

export type NewChanges = ChangesOf<NewFlashblock>
/** The same for another thread. */
export type Changes = ChangesOf<ToldFlashblock>

type Known = {
  id: number
  readonly number: number
  readonly payloadId: string | undefined
  header: Header
  hash: Bytes
}
/** What was told, oldest first: without a hole. */
export type Told = { blocks: readonly Known[]; heads: string; isBeginning: boolean }
export const nothingTold = (): Told => ({ blocks: [], heads: '', isBeginning: true })
/** The chain goes on from another block. */
export const forgetTold = (told: Told): void => void Object.assign(told, nothingTold())

/** More than a reorg can take back. */
const MOST_KNOWN = 256

/** undefined: the same as before. */
export function takeChanges(
  told: Told,
  chain: LiveChain,
  marks: { readonly safe: number; readonly finalized: number },
): NewChanges | undefined {
  const line = lineOf(chain)
  const base = line[0]!.handle.number
  const { kept, gone } = split(told.blocks, line, base)
  const known = new Map(kept.map((one) => [one.number, one]))
  const flashblocks: NewFlashblock[] = []
  const headers: ToldHeader[] = []
  for (const block of line) {
    const { number } = block.handle
    const parts = block.untold.splice(0)
    const isLast = (part: Untold) => part === parts.at(-1)
    for (const part of parts)
      flashblocks.push(newFlashblock(block, isLast(part) ? { ...part, ...finalOf(block) } : part))
    const before = known.get(number)
    if (before === undefined) known.set(number, knownOf(block))
    else {
      const isOther = before.header !== block.header
      before.id = block.handle.id
      before.header = block.header
      before.hash = block.hash
      // The base may have got another object of the same header: it was final before.
      if (isOther && parts.length === 0 && number > base) headers.push(toldHeader(block))
    }
  }
  told.blocks = [...known.values()].slice(-MOST_KNOWN)
  const above = Math.max(base, kept.at(-1)?.number ?? base)
  const removed = gone.length === 0 ? undefined : { above, blocks: gone.toReversed().map(blockOf) }
  const heads = headsOf(chain, marks)
  const text = JSON.stringify(heads)
  const isSame = flashblocks.length + headers.length + gone.length === 0 && text === told.heads
  const { isBeginning } = told
  told.heads = text
  told.isBeginning = false
  return isSame ? undefined : { isBeginning, removed, flashblocks, headers, heads }
}

/** From the base, which has no parent, to pending. */
function lineOf({ pending }: LiveChain): readonly LiveBlock[] {
  const line: LiveBlock[] = []
  for (let at: LiveBlock | undefined = pending; at !== undefined; at = at.parent) line.push(at)
  return line.reverse()
}

/** What is at or below the base is on every chain: the base goes down only to one of its ancestors. */
function split(blocks: readonly Known[], line: readonly LiveBlock[], base: number) {
  const isKept = ({ number, id }: Known) => number <= base || line[number - base]?.handle.id === id
  const firstGone = blocks.findIndex((block) => !isKept(block))
  const end = firstGone < 0 ? blocks.length : firstGone
  return { kept: blocks.slice(0, end), gone: blocks.slice(end) }
}

const knownOf = ({ handle, payloadId, header, hash, feed }: LiveBlock): Known => ({
  ...{ id: handle.id, number: handle.number, header, hash },
  payloadId: feed === undefined ? undefined : payloadId,
})

/** Whoever shows a block that came whole has its final header by then. */
const finalOf = ({ header, hash }: LiveBlock) => ({ header, hash })

const newFlashblock = (block: LiveBlock, part: Untold): NewFlashblock => ({
  ...part,
  number: block.handle.number,
  payloadId: block.feed === undefined ? undefined : block.payloadId,
  isFinal: part.header === block.header && isFinished(block.state),
})

/** Takes a while (6 µs a transaction, 2026-11): when those who wait for the record have been told. */
export const packChanges = (changes: NewChanges): Changes => ({
  ...changes,
  flashblocks: changes.flashblocks.map(toldFlashblock),
})

function toldFlashblock(flashblock: NewFlashblock): ToldFlashblock {
  const { number, index, payloadId, isFinal, header, hash, diff, transactions } = flashblock
  const pieces: Bytes[] = [encodeHeader(header), hash, encodeDiff(diff)]
  for (const one of transactions) {
    const { raw, from, hash: name } = one.transaction
    pieces.push(raw, from, name, storedReceiptOf(one))
  }
  return {
    ...{ number, index, payloadId, isFinal },
    transactions: transactions.length,
    ...packed(pieces),
  }
}

function packed(pieces: readonly Bytes[]): Pick<ToldFlashblock, 'bytes' | 'ends'> {
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

const toldHeader = ({ handle, header, hash }: LiveBlock): ToldHeader => ({
  number: handle.number,
  header: encodeHeader(header),
  hash: hash.slice(),
})

const blockOf = ({ number, hash, payloadId }: Omit<Known, 'id' | 'header'>): ToldBlock => ({
  ...{ number, payloadId },
  hash: bytesToHex(hash),
})

function headsOf(
  { canonical, complete, pending }: LiveChain,
  marks: { readonly safe: number; readonly finalized: number },
): ToldHeads {
  const isWhole = isFinished(pending.state)
  return {
    canonical: blockOf(knownOf(canonical)),
    complete: blockOf(knownOf(complete)),
    pending: { ...blockOf(knownOf(pending)), index: isWhole ? undefined : pending.index },
    ...marks,
  }
}
