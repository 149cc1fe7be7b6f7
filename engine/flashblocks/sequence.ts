/**
 * Judges a feed message by the messages before. The functions are pure: the caller acts on the
 * verdict and retains the returned sequence.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { equalBytes } from '../primitives/words.ts'
import { isSameFlashblock } from './identity.ts'
import type { Flashblock, FlashblockEnd } from './types.ts'

/** The payload in progress. */
export type Payload = {
  readonly payloadId: string
  readonly number: bigint
  /** Hash of the parent block as the producer knows it, from the base. */
  readonly parentHash: Bytes
  /** Last target index that was not 0. 0: unknown. */
  readonly targetIndex: number
  /** Number of flashblocks by an End that arrived before all of them were taken. */
  readonly size: number | undefined
  /** Taken flashblocks by index. The length is the next due index. */
  readonly taken: readonly Flashblock[]
  /**
   * Whether all flashblocks were taken, by the End or the target index. Only repetitions may
   * follow.
   */
  readonly isComplete: boolean
}
export type Sequence = {
  readonly payload: Payload | undefined
  /** Payloads that are over, newest last. A late message of one is stale. */
  readonly over: readonly Over[]
}
/**
 * A finished payload. A payload id follows from the parent (Engine API,
 * `engine_forkchoiceUpdated`).
 * An equal id on another parent is therefore another payload, whose producer reused the id wrongly.
 */
type Over = Pick<Payload, 'payloadId' | 'parentHash'>

/** Heights of the caller's chain. */
export type Heights = { readonly canonical: bigint; readonly complete: bigint }

export type FlashblockVerdict =
  /** Index 0 on the complete head, with nothing else in progress: the caller starts a block. */
  | 'first'
  /**
   * Index 0 one height above the payload in progress, which is thereby complete. The payload's
   * final hash must be `base.parentHash`.
   */
  | 'firstOfNextBlock'
  /** The due index: the caller executes the flashblock. */
  | 'next'
  /** Taken already with the same content: ignored. */
  | 'duplicate'
  /** Taken already with another content: the first is used, the event counted. */
  | 'equivocation'
  /** Earlier flashblocks are late or lost. The caller buffers this one until they arrive. */
  | 'early'
  /** At or below the canonical head, or part of a payload that is over: ignored. */
  | 'stale'
  /**
   * Index 0 never arrived (lost, or the node connected inside the block): ignored until an index 0
   * comes.
   */
  | 'missingFirst'
  /**
   * Index 0 of another payload for a height that has one. A caller that may replace the first goes
   * back to the parent and restarts.
   */
  | 'secondPayload'
  /** Index 0 above the next height, with an unknown parent. The payload in progress stays. */
  | 'ahead'
  /** Another height under the same payload id: ignored and counted. */
  | 'heightChanged'
  /** An index after the payload's End or target index: ignored and counted. */
  | 'afterEnd'

export type EndVerdict =
  | 'complete'
  /** The payload was complete before, by its target index or an earlier End. */
  | 'alreadyComplete'
  /** Some of the flashblocks that the End counts were not taken yet. */
  | 'awaited'
  /** The sender of the End has not sent all flashblocks, so the End proves nothing. */
  | 'shortEnd'
  /** The End follows index 0 alone without a target index. Lost flashblocks cannot be ruled out. */
  | 'loneEnd'
  /**
   * The payload is not in progress. This is harmless: X Layer also sends an End for jobs without
   * flashblocks.
   */
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

/**
 * Judges an End.
 * @param options `sent`: number of flashblocks that the feed sent of the payload, undefined after a
 * gap. The default is the number taken.
 */
export function judgeEnd(
  sequence: Sequence,
  end: FlashblockEnd,
  { sent }: { readonly sent: number | undefined } = { sent: sequence.payload?.taken.length },
): { readonly verdict: EndVerdict; readonly sequence: Sequence } {
  const { payload } = sequence
  if (payload?.payloadId !== end.payloadId) return { verdict: 'unknownEnd', sequence }
  if (payload.isComplete) return { verdict: 'alreadyComplete', sequence }
  // Another feed has sent more flashblocks, or the target index says that more will come.
  const isShort = sent === undefined || sent < payload.taken.length || sent <= payload.targetIndex
  if (isShort) return { verdict: 'shortEnd', sequence }
  if (sent === 1 && payload.targetIndex === 0) return { verdict: 'loneEnd', sequence }
  const isComplete = sent === payload.taken.length
  return {
    verdict: isComplete ? 'complete' : 'awaited',
    sequence: { ...sequence, payload: { ...payload, size: sent, isComplete } },
  }
}

/**
 * Gives up the payload in progress after a failed execution or a reorg. The rest of the payload
 * becomes stale.
 */
export function dropPayload(sequence: Sequence): Sequence {
  if (!sequence.payload) return sequence
  const { payloadId, parentHash } = sequence.payload
  const over = [...sequence.over, { payloadId, parentHash }].slice(-PAYLOADS_REMEMBERED)
  return { payload: undefined, over }
}

/** Enough, because upstreams repeat each other's messages within a block or two. */
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
  // Upstream blocks alone may have moved the chain past the payload.
  const isFollowed = payload !== undefined && payload.number >= heights.complete
  const newest = isFollowed ? payload.number : heights.complete
  if (height <= newest) return 'secondPayload'
  if (height > newest + 1n) return 'ahead'
  return isFollowed ? 'firstOfNextBlock' : 'first'
}

/** Compares payloads. A flashblock without a base can only be compared by id. */
const isOf = (over: Over, { payloadId, base }: Flashblock): boolean =>
  over.payloadId === payloadId &&
  (base === undefined || equalBytes(over.parentHash, base.parentHash))

export const isOver = ({ over }: Sequence, payloadId: string): boolean =>
  over.some((one) => one.payloadId === payloadId)

const heightOf = (flashblock: Flashblock) => flashblock.base?.blockNumber ?? flashblock.blockNumber

function follow(sequence: Sequence, flashblock: Flashblock, verdict: FlashblockVerdict): Sequence {
  switch (verdict) {
    case 'first':
    case 'firstOfNextBlock':
    case 'secondPayload': {
      const { base } = flashblock
      if (!base) return sequence // index 0 always has a base: the codec refuses it otherwise
      const { blockNumber: number, parentHash } = base
      const started = { number, parentHash, targetIndex: 0 }
      const { payloadId } = flashblock
      const empty = { ...started, payloadId, size: undefined, taken: [], isComplete: false }
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
