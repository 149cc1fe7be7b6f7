/** Reads the lines of a recording. */
import type { Head, Line } from './lines.ts'
import { RecordError, readSections } from './sections.ts'
import { decodeLine } from './values.ts'

export type Opened = {
  readonly head: Head
  /** All lines after the head, once; sections are read on demand. */
  readonly lines: Iterable<Line>
  /** Number of bytes of the file that were read. */
  read(): number
  /** True if data after the last full section is damaged; known after the last line. */
  isCut(): boolean
}

/** @throws {RecordError} if the file is no recording; errors of the system if it cannot be read */
export function openRecord(path: string): Opened {
  const sections = readSections(path)
  let [read, isCut] = [0, false]
  function* lines(): Generator<unknown> {
    for (;;) {
      const next = sections.next()
      if (next.done === true) {
        isCut = next.value.isCut
        return
      }
      read = next.value.end
      for (const line of next.value.lines) yield decoded(line)
    }
  }
  const decoded = (line: string): unknown => {
    try {
      return decodeLine(line)
    } catch (error) {
      throw new RecordError(`${path}: a line is invalid: ${(error as Error).message}`)
    }
  }
  const all = lines()
  const head = all.next().value as Head | undefined
  if (head?.type !== 'head')
    throw new RecordError(
      `${path} is incomplete: its first line, which describes the recorded node, is missing`,
    )
  return { head, lines: all as Iterable<Line>, read: () => read, isCut: () => isCut }
}
