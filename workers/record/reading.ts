/** The lines of a record. */
import type { Head, Line } from './lines.ts'
import { RecordError, readSections } from './sections.ts'
import { decodeLine } from './values.ts'

export type Opened = {
  readonly head: Head
  /** All but the head, once; section by section as they are taken. */
  readonly lines: Iterable<Line>
  /** Bytes of the file that were read. */
  read(): number
  /** Known when all lines were taken: behind the last whole section is something that is none. */
  isCut(): boolean
}

/** @throws {RecordError} where the file is no record; errors of the system where it cannot be read */
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
      throw new RecordError(`${path}: a line is none: ${(error as Error).message}`)
    }
  }
  const all = lines()
  const head = all.next().value as Head | undefined
  if (head?.type !== 'head')
    throw new RecordError(`${path} says nothing of the node that was recorded: it was cut at once`)
  return { head, lines: all as Iterable<Line>, read: () => read, isCut: () => isCut }
}
