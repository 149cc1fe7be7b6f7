/** Chain snapshots: immutable lists of heads in a ring (ADR 3). */
import type { Bytes } from '../primitives/bytes.ts'
import type { BlockId } from '../storage/types.ts'
import { type Arena, HEAD, SNAPSHOTS, snapshotAt } from './arena.ts'

/** A block, or the prefix of one, as a snapshot sees it. */
export type Position = {
  readonly id: BlockId
  readonly height: number
  /** Newest diff layer of the block; 0 for the base, which only the store has. */
  readonly diffLayer: number
  /** Newest tag that belongs to the position: a flashblock index, or FINAL for a complete block. */
  readonly tag: number
  /** Entry of the header; 0 when `diffLayer` is 0. */
  readonly header: number
  readonly transactions: number
}
export type ChainSnapshot = {
  readonly number: number
  readonly base: { readonly id: BlockId; readonly height: number; readonly hash: Bytes }
  readonly unwinds: number
  readonly safe: number
  readonly finalized: number
  readonly canonical: Position
  readonly complete: Position
  readonly pending: Position
}

const HASH = 6
const HEADS = 16
const HEAD_WORDS = 6

/**
 * Writes the snapshot, then the HEAD word. VISIBLE, the word that clients follow, is not written
 * here.
 * @param unreadBelow no thread reads a snapshot with a smaller number
 * @throws {Error} when a thread may still read the snapshot that would be overwritten
 */
export function publishSnapshot(arena: Arena, snapshot: ChainSnapshot, unreadBelow: number): void {
  const { words } = arena
  const { number, base } = snapshot
  if (number > SNAPSHOTS && number - SNAPSHOTS >= unreadBelow)
    throw new Error(
      `views: snapshot ${number - SNAPSHOTS} is still leased after ${SNAPSHOTS} publishes`,
    )
  const at = snapshotAt(arena, number)
  const fields = [number, base.height, base.id, snapshot.unwinds, snapshot.safe, snapshot.finalized]
  words.set(fields, at)
  arena.bytes.set(base.hash, (at + HASH) * 4)
  for (const [index, head] of [snapshot.canonical, snapshot.complete, snapshot.pending].entries()) {
    const { id, height, diffLayer, tag, header, transactions } = head
    words.set([id, height, diffLayer, tag, header, transactions], at + HEADS + index * HEAD_WORDS)
  }
  Atomics.store(words, HEAD, number)
}

/**
 * Reads a snapshot; the caller has to lease the snapshot first.
 * @throws {Error} when the snapshot was overwritten because no lease protected it
 */
export function readSnapshot(arena: Arena, number: number): ChainSnapshot {
  const { words } = arena
  const at = snapshotAt(arena, number)
  const word = (offset: number) => words[at + offset]!
  if (word(0) !== number) throw new Error(`views: snapshot ${number} was overwritten by ${word(0)}`)
  const head = (index: number): Position => {
    const from = HEADS + index * HEAD_WORDS
    return {
      id: word(from),
      height: word(from + 1),
      diffLayer: word(from + 2),
      tag: word(from + 3),
      header: word(from + 4),
      transactions: word(from + 5),
    }
  }
  return {
    number,
    base: {
      height: word(1),
      id: word(2),
      hash: arena.bytes.slice((at + HASH) * 4, (at + HASH) * 4 + 32),
    },
    unwinds: word(3),
    safe: word(4),
    finalized: word(5),
    canonical: head(0),
    complete: head(1),
    pending: head(2),
  }
}
