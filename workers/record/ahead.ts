/** Reads a record's requests before its other lines: which one a client's answer was read from is known only when the answer is there. */
import type { LeftLine, RequestLine } from './lines.ts'
import { LATE_MS } from './requests.ts'
import { readSections } from './sections.ts'
import { decodeLine } from './values.ts'

export type AskedLine = RequestLine | LeftLine
export interface RequestsAhead {
  /** Those that read this record or one before, and were not given yet. @param wall of the line that ends it, milliseconds since 1970 */
  upTo(record: number, wall: number): Generator<AskedLine>
  /** All others. */
  rest(): Generator<AskedLine>
}

/** Lines of the writer and of requests come in pieces of their own, which wait a quarter of a second each. */
const AHEAD_MS = LATE_MS + 5_000
const STARTS = ['{"type":"request"', '{"type":"left"']
/** In a text of a line its quotes are escaped. */
const WALL = /(?<!\\)"wall":(\d+)/

/** @throws {RecordError} */
export function requestsAhead(path: string): RequestsAhead {
  const sections = readSections(path)
  /** What was read, and is of a record that is not there yet: no more than comes within `AHEAD_MS`. */
  let waiting: AskedLine[] = []
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
        waiting.push(decodeLine(line) as AskedLine)
    readUpTo = Math.max(readUpTo, wallOf(lines))
  }
  function* taken(record: number): Generator<AskedLine> {
    const all = waiting
    waiting = all.filter((line) => line.type === 'request' && line.record > record)
    for (const line of all) if (line.type === 'left' || line.record <= record) yield line
  }
  return {
    *upTo(record, wall) {
      yield* taken(record)
      while (!isOver && readUpTo < wall + AHEAD_MS) {
        read()
        yield* taken(record)
      }
    },
    *rest() {
      yield* taken(Number.POSITIVE_INFINITY)
      while (!isOver) {
        read()
        yield* taken(Number.POSITIVE_INFINITY)
      }
    },
  }
}

/** Of the last line that has one. */
function wallOf(lines: readonly string[]): number {
  const last = lines.findLast((line) => WALL.test(line))
  return last === undefined ? Number.NEGATIVE_INFINITY : Number(WALL.exec(last)![1])
}
