/**
 * Reads a recording's requests ahead of its other lines, because a request is recorded only after
 * its response.
 */
import type { LeftLine, RequestLine } from './lines.ts'
import { LATE_MS } from './requests.ts'
import { readSections } from './sections.ts'
import { decodeLine } from './values.ts'

export type ReplayLine = RequestLine | LeftLine
export interface RequestLookahead {
  /**
   * Yields further requests that read this snapshot or an older one.
   * @param wall time of the line that replaces the snapshot, milliseconds since 1970
   */
  upTo(snapshot: number, wall: number): Generator<ReplayLine>
  /** Yields all remaining requests. */
  remaining(): Generator<ReplayLine>
}

/**
 * Lines of the writer and of requests come in separate pieces. Each may wait a quarter of a second.
 */
const LOOKAHEAD_MS = LATE_MS + 5_000
const STARTS = ['{"type":"request"', '{"type":"left"']
/** A quote inside a text is escaped, so this matches only the field. */
const WALL = /(?<!\\)"wall":(\d+)/

/** @throws {RecordError} */
export function openRequestLookahead(path: string): RequestLookahead {
  const sections = readSections(path)
  /** Lines of later snapshots; bounded, because only `LOOKAHEAD_MS` are read ahead. */
  let waiting: ReplayLine[] = []
  let readUpTo = Number.NEGATIVE_INFINITY
  let isOver = false

  function read(): void {
    const section = sections.next()
    if (section.done === true) {
      isOver = true
      return
    }
    const { lines } = section.value
    for (const line of lines)
      if (STARTS.some((start) => line.startsWith(start)))
        waiting.push(decodeLine(line) as ReplayLine)
    readUpTo = Math.max(readUpTo, wallOf(lines))
  }
  function* taken(snapshot: number): Generator<ReplayLine> {
    const all = waiting
    waiting = all.filter((line) => line.type === 'request' && line.record > snapshot)
    for (const line of all) if (line.type === 'left' || line.record <= snapshot) yield line
  }
  return {
    *upTo(snapshot, wall) {
      yield* taken(snapshot)
      while (!isOver && readUpTo < wall + LOOKAHEAD_MS) {
        read()
        yield* taken(snapshot)
      }
    },
    *remaining() {
      yield* taken(Number.POSITIVE_INFINITY)
      while (!isOver) {
        read()
        yield* taken(Number.POSITIVE_INFINITY)
      }
    },
  }
}

/** Time of the last line that has one. */
function wallOf(lines: readonly string[]): number {
  const last = lines.findLast((line) => WALL.test(line))
  return last === undefined ? Number.NEGATIVE_INFINITY : Number(WALL.exec(last)![1])
}
