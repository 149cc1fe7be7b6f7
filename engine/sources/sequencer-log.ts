/** The frames of blocks that are not durable yet: in the journal and in memory, so that a block can be begun again with the same prefix. */
import { decodeFrame } from '../flashblocks/codec.ts'
import type { FeedMessage, Flashblock, FlashblockBase } from '../flashblocks/types.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { equalBytes } from '../primitives/words.ts'
import { JournalError } from '../storage/journal.ts'
import type { FrameJournal } from './sequencer-types.ts'

export type RecordedFrame = {
  readonly frame: Bytes
  readonly message: FeedMessage
  /** In this run of the process. */
  isSent: boolean
}
export type RecordedBlock = {
  /** Of its index 0. */
  readonly base: FlashblockBase
  readonly flashblocks: readonly (RecordedFrame & { readonly message: Flashblock })[]
  readonly end: RecordedFrame | undefined
}

export interface FrameLog {
  /** Nothing recorded waits to be sent. */
  readonly isSent: boolean
  /** Journals; only then the frame may be sent. */
  append(number: bigint, frame: Bytes, message: FeedMessage): void
  /** What was recorded of this height: 'other' when it does not begin with an index 0 on this parent. */
  find(number: bigint, parentHash: Bytes): RecordedBlock | 'other' | undefined
  /** Forgets heights from `number` on: they will never be part of the chain. */
  drop(number: bigint): void
  /** Blocks up to this height are durable. */
  forget(canonical: bigint): void
}

/** The file is written anew when this much of it is of no more use. */
const STALE_FRAMES = 256
const STALE_BYTES = 8 << 20

/** `journalled`: what the file holds at the start; frames that do not decode end it. */
export function createFrameLog(journal: FrameJournal, journalled: Iterable<Bytes>): FrameLog {
  const blocks = readBlocks(journalled)
  let stale = { frames: 0, bytes: 0 }

  const rewrite = () => {
    journal.rewrite([...blocks.values()].flat().map(({ frame }) => frame))
    stale = { frames: 0, bytes: 0 }
  }
  return {
    get isSent() {
      return [...blocks.values()].every((frames) => frames.every(({ isSent }) => isSent))
    },
    append(number, frame, message) {
      journal.append(frame)
      listOf(blocks, number).push({ frame, message, isSent: true })
    },
    find(number, parentHash) {
      const frames = blocks.get(number)
      return frames && blockOf(frames, parentHash)
    },
    drop(from) {
      for (const number of blocks.keys()) if (number >= from) blocks.delete(number)
      rewrite()
    },
    forget(canonical) {
      for (const [number, frames] of blocks) {
        if (number > canonical) continue
        blocks.delete(number)
        stale.frames += frames.length
        for (const { frame } of frames) stale.bytes += frame.length
      }
      if (stale.frames < STALE_FRAMES && stale.bytes < STALE_BYTES) return
      try {
        rewrite()
      } catch (error) {
        // It goes on as it is, longer than it need be; the next append says what the disk has.
        if (!(error instanceof JournalError)) throw error
      }
    },
  }
}

function readBlocks(journalled: Iterable<Bytes>): Map<bigint, RecordedFrame[]> {
  const blocks = new Map<bigint, RecordedFrame[]>()
  let number: bigint | undefined
  for (const frame of journalled) {
    const decoded = decodeFrame(frame)
    if (!('message' in decoded)) break
    const { message } = decoded
    if (message.type === 'flashblock') number = message.blockNumber ?? number
    // An End belongs to the block before it.
    if (number !== undefined) listOf(blocks, number).push({ frame, message, isSent: false })
  }
  return blocks
}

function listOf(blocks: Map<bigint, RecordedFrame[]>, number: bigint): RecordedFrame[] {
  const list = blocks.get(number) ?? []
  blocks.set(number, list)
  return list
}

function blockOf(frames: readonly RecordedFrame[], parentHash: Bytes): RecordedBlock | 'other' {
  const flashblocks = frames.filter(isFlashblock)
  const first = flashblocks[0]?.message
  if (!first?.base || !equalBytes(first.base.parentHash, parentHash)) return 'other'
  const isWhole = frames.every(
    ({ message }, index) =>
      message.payloadId === first.payloadId &&
      (message.type === 'flashblock' ? message.index === index : index === frames.length - 1),
  )
  if (!isWhole) return 'other'
  return {
    base: first.base,
    flashblocks,
    end: frames.find(({ message }) => message.type === 'end'),
  }
}

const isFlashblock = (
  recorded: RecordedFrame,
): recorded is RecordedFrame & { readonly message: Flashblock } =>
  recorded.message.type === 'flashblock'
