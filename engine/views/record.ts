/** Records: the immutable list of heads, in a ring (ADR 3). */
import type { Bytes } from '../primitives/bytes.ts'
import type { BlockId } from '../storage/types.ts'
import { type Arena, HEAD, RECORDS, recordAt } from './arena.ts'

/** A block, or the prefix of one, as far as a record or a walk from it sees. */
export type Position = {
  readonly id: BlockId
  readonly height: number
  /** Newest table of the block; 0: the base, which only the store knows. */
  readonly table: number
  /** Newest tag that belongs to it: a flashblock index, FINAL when it is held to the end. */
  readonly tag: number
  /** Its header's entry, 0 with table 0. */
  readonly header: number
  readonly transactions: number
}
export type ViewRecord = {
  readonly number: number
  readonly base: { readonly id: BlockId; readonly height: number; readonly hash: Bytes }
  readonly unfolds: number
  readonly safe: number
  readonly finalized: number
  readonly canonical: Position
  readonly complete: Position
  readonly pending: Position
}

const HASH = 6
const HEADS = 16
const HEAD_WORDS = 6

/** Writes the record, then the head word; whether clients are shown it is another word. `unreadBelow`: no thread reads an older one. @throws {Error} when it would overwrite others. */
export function publishRecord(arena: Arena, record: ViewRecord, unreadBelow: number): void {
  const { words } = arena
  const { number, base } = record
  if (number > RECORDS && number - RECORDS >= unreadBelow)
    throw new Error(`views: record ${number - RECORDS} is still leased after ${RECORDS} publishes`)
  const at = recordAt(arena, number)
  const fields = [number, base.height, base.id, record.unfolds, record.safe, record.finalized]
  words.set(fields, at)
  arena.bytes.set(base.hash, (at + HASH) * 4)
  for (const [index, head] of [record.canonical, record.complete, record.pending].entries()) {
    const { id, height, table, tag, header, transactions } = head
    words.set([id, height, table, tag, header, transactions], at + HEADS + index * HEAD_WORDS)
  }
  Atomics.store(words, HEAD, number)
}

/** Only under a lease. @throws {Error} when the record was overwritten: a lease was not kept. */
export function readRecord(arena: Arena, number: number): ViewRecord {
  const { words } = arena
  const at = recordAt(arena, number)
  const word = (offset: number) => words[at + offset]!
  if (word(0) !== number) throw new Error(`views: record ${number} was overwritten by ${word(0)}`)
  const head = (index: number): Position => {
    const from = HEADS + index * HEAD_WORDS
    return {
      id: word(from),
      height: word(from + 1),
      table: word(from + 2),
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
    unfolds: word(3),
    safe: word(4),
    finalized: word(5),
    canonical: head(0),
    complete: head(1),
    pending: head(2),
  }
}
