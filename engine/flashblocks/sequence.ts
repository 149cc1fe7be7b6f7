/**
 * What a feed message means after those before it: named verdicts, no effects. The caller acts on the verdict and keeps the
 * returned sequence.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { equalBytes } from '../primitives/words.ts'
import { isSameFlashblock } from './identity.ts'
import type { Flashblock, FlashblockEnd } from './types.ts'

/** The payload that is being followed. */
export type Payload = {
  readonly payloadId: string
  readonly number: bigint
  /** From the base: the hash of the block before, as its producer knows it. */
  readonly parentHash: Bytes
  /** Last one that was not 0. 0: unknown. */
  readonly targetIndex: number
  /** Flashblocks that it has, as an End said before all of them were taken. */
  readonly size: number | undefined
  /** By index. The next due index is the length. */
  readonly taken: readonly Flashblock[]
  /** All of it was taken: End said so, or the target index. Nothing may follow but its repetition. */
  readonly isComplete: boolean
}
export type Sequence = {
  readonly payload: Payload | undefined
  /** Payloads that are over, newest last: what comes late from them is stale. */
  readonly over: readonly Over[]
}
/**
 * A payload id follows from the parent (Engine API, `engine_forkchoiceUpdated`): on another parent it
 * is another payload, whose id somebody has used wrongly before.
 */
type Over = Pick<Payload, 'payloadId' | 'parentHash'>

/** Heights of the caller's chain. */
export type Heights = { readonly canonical: bigint; readonly complete: bigint }

export type FlashblockVerdict =
  /** Index 0 on the complete head, nothing else in progress: begin a block. */
  | 'first'
  /** Index 0 one height above the payload in progress. That one is all there (if no End said so before): its final hash must be `base.parentHash`. */
  | 'firstOfNextBlock'
  /** The due index: execute. */
  | 'next'
  /** Taken already, the same again: ignore. */
  | 'duplicate'
  /** Taken already, and this is another one: keep the first, count. */
  | 'equivocation'
  /** It overtook those before it, or they were lost: keep it until they come from somewhere. */
  | 'early'
  /** At or below the canonical head, or of a payload that is over: ignore. */
  | 'stale'
  /** Index 0 was never seen (joined inside a block, or it was lost): ignore until one comes. */
  | 'missingFirst'
  /** Index 0 of another payload for a height that has one: whoever may replace the first goes back to its parent and begins again. */
  | 'secondPayload'
  /** Index 0 further above than the next height: its parent is not known yet. What is followed stays. */
  | 'ahead'
  /** Another height under the same payload id: ignore, count. */
  | 'heightChanged'
  /** An index after the payload's End or target index: ignore, count. */
  | 'afterEnd'

export type EndVerdict =
  /** The payload in progress is all there. */
  | 'complete'
  /** Its target index had said so already, or End came twice. */
  | 'alreadyComplete'
  /** What it says is there has not all been taken yet. */
  | 'awaited'
  /** Whoever sent it has not got all: it proves nothing. */
  | 'shortEnd'
  /** After index 0 alone, which names no target: nobody can tell whether others were lost. */
  | 'loneEnd'
  /** Of a payload that is not followed: harmless, X Layer sends it for jobs without flashblocks too. */
  | 'unknownEnd'

export const startSequence: Sequence = { payload: undefined, over: [] }

export function judgeFlashblock(
  sequence: Sequence,
  flashblock: Flashblock,
  heights: Heights,
): { readonly verdict: FlashblockVerdict; readonly sequence: Sequence } {
  const verdict =
    sequence.payload?.payloadId === flashblock.payloadId
      ? judgeKnown(sequence.payload, flashblock)
      : judgeOther(sequence, flashblock, heights)
  return { verdict, sequence: follow(sequence, flashblock, verdict) }
}

/** `sent`: flashblocks that its feed has sent of the payload, without a hole; undefined: there was one. Left out: those taken. */
export function judgeEnd(
  sequence: Sequence,
  end: FlashblockEnd,
  { sent }: { readonly sent: number | undefined } = { sent: sequence.payload?.taken.length },
): { readonly verdict: EndVerdict; readonly sequence: Sequence } {
  const { payload } = sequence
  if (payload?.payloadId !== end.payloadId) return { verdict: 'unknownEnd', sequence }
  if (payload.isComplete) return { verdict: 'alreadyComplete', sequence }
  // Another feed has brought more than this one, or the target index says that more will come.
  const isShort = sent === undefined || sent < payload.taken.length || sent <= payload.targetIndex
  if (isShort) return { verdict: 'shortEnd', sequence }
  if (sent === 1 && payload.targetIndex === 0) return { verdict: 'loneEnd', sequence }
  const isComplete = sent === payload.taken.length
  return {
    verdict: isComplete ? 'complete' : 'awaited',
    sequence: { ...sequence, payload: { ...payload, size: sent, isComplete } },
  }
}

/** The payload in progress is given up (it did not execute as the feed says, or the chain went another way): the rest of it is stale. */
export function dropPayload(sequence: Sequence): Sequence {
  if (!sequence.payload) return sequence
  const { payloadId, parentHash } = sequence.payload
  const over = [...sequence.over, { payloadId, parentHash }].slice(-PAYLOADS_REMEMBERED)
  return { payload: undefined, over }
}

/** Several upstreams repeat each other within a block or two. */
const PAYLOADS_REMEMBERED = 16

function judgeKnown(payload: Payload, flashblock: Flashblock): FlashblockVerdict {
  if ((heightOf(flashblock) ?? payload.number) !== payload.number) return 'heightChanged'
  const taken = payload.taken[flashblock.index]
  if (taken) return isSameFlashblock(taken, flashblock) ? 'duplicate' : 'equivocation'
  if (payload.isComplete) return 'afterEnd'
  return flashblock.index === payload.taken.length ? 'next' : 'early'
}

function judgeOther(
  { payload, over }: Sequence,
  flashblock: Flashblock,
  heights: Heights,
): FlashblockVerdict {
  if (over.some((one) => isOf(one, flashblock))) return 'stale'
  const height = heightOf(flashblock)
  if (height !== undefined && height <= heights.canonical) return 'stale'
  if (flashblock.index > 0 || height === undefined) return 'missingFirst'
  // The chain may have gone past the payload by sealed blocks alone.
  const isFollowed = payload !== undefined && payload.number >= heights.complete
  const newest = isFollowed ? payload.number : heights.complete
  if (height <= newest) return 'secondPayload'
  if (height > newest + 1n) return 'ahead'
  return isFollowed ? 'firstOfNextBlock' : 'first'
}

/** Flashblocks without a base have the id alone. */
const isOf = (over: Over, { payloadId, base }: Flashblock): boolean =>
  over.payloadId === payloadId &&
  (base === undefined || equalBytes(over.parentHash, base.parentHash))

/** Whether this payload is over. */
export const isOver = ({ over }: Sequence, payloadId: string): boolean =>
  over.some((one) => one.payloadId === payloadId)

const heightOf = (flashblock: Flashblock) => flashblock.base?.blockNumber ?? flashblock.blockNumber

function follow(sequence: Sequence, flashblock: Flashblock, verdict: FlashblockVerdict): Sequence {
  switch (verdict) {
    case 'first':
    case 'firstOfNextBlock':
    case 'secondPayload': {
      const { base } = flashblock
      if (!base) return sequence // index 0 always has one: the codec refuses it otherwise
      const { blockNumber: number, parentHash } = base
      const begun = { number, parentHash, targetIndex: 0 }
      const { payloadId } = flashblock
      const empty = { ...begun, payloadId, size: undefined, taken: [], isComplete: false }
      const payload = take(empty, flashblock)
      return { payload, over: dropPayload(sequence).over }
    }
    case 'next':
      return sequence.payload
        ? { ...sequence, payload: take(sequence.payload, flashblock) }
        : sequence
    default:
      return sequence
  }
}

function take(payload: Payload, flashblock: Flashblock): Payload {
  const targetIndex = flashblock.targetIndex || payload.targetIndex
  const taken = [...payload.taken, flashblock]
  const isComplete =
    taken.length === payload.size || (targetIndex > 0 && flashblock.index >= targetIndex)
  return { ...payload, targetIndex, taken, isComplete }
}
