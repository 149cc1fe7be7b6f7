/** Writes a record: lines become sections, one packed at a time, up to a bound of bytes and of time. */
import { type FileHandle, open } from 'node:fs/promises'
import { packSection, SECTION_BYTES } from './sections.ts'

export type RecorderOptions = {
  readonly path: string
  /** Of the file. */
  readonly mostBytes: number
  readonly mostMs: number
  /** Nothing more is taken, and why. */
  readonly onFull: (reason: Full) => void
}
export type Full = 'bytes' | 'seconds' | 'slow' | 'failed'
export type Recorded = {
  readonly bytes: number
  readonly sections: number
  readonly full: Full | undefined
  readonly failure: string | undefined
}

export interface Recorder {
  /** Whole lines. */
  add(lines: Uint8Array): void
  /** What was added is on the disk when it resolves. */
  close(): Promise<Recorded>
  readonly bytes: number
}

/** Lines that wait for a disk or a processor. */
const WAITING_BYTES = SECTION_BYTES
/** Of a section: those before it are good whatever becomes of it. */
const TAKEN_BYTES = 4 * 2 ** 20

/** A file that is there is left alone. @throws errors of the system */
export async function openRecorder(options: RecorderOptions): Promise<Recorder> {
  const { path, mostBytes, mostMs, onFull } = options
  const file: FileHandle = await open(path, 'wx')
  let waiting: Uint8Array[] = []
  let waitingBytes = 0
  const done = { bytes: 0, sections: 0 }
  let full: Full | undefined
  let failure: string | undefined
  let writing: Promise<void> | undefined
  const stop = (reason: Full) => {
    if (full !== undefined) return
    full = reason
    onFull(reason)
  }
  const timer = setTimeout(() => stop('seconds'), mostMs)

  async function write(): Promise<void> {
    while (waiting.length > 0 && full !== 'bytes' && full !== 'failed') {
      const section = await packSection(take())
      if (done.bytes + section.length > mostBytes) return stop('bytes')
      await file.write(section)
      done.bytes += section.length
      done.sections++
    }
  }
  function take(): Uint8Array {
    let [count, bytes] = [0, 0]
    do bytes += waiting[count++]!.length
    while (count < waiting.length && bytes + waiting[count]!.length <= TAKEN_BYTES)
    const taken = Buffer.concat(waiting.slice(0, count))
    waiting = waiting.slice(count)
    waitingBytes -= bytes
    return taken
  }
  const start = () => {
    writing ??= write()
      .catch((error: Error) => {
        failure = error.message
        stop('failed')
      })
      .finally(() => {
        writing = undefined
      })
  }
  return {
    add(lines) {
      // What came before the end of its time is written; a gap would be none of the node's.
      if (full === 'bytes' || full === 'slow' || full === 'failed') return
      if (waitingBytes + lines.length > WAITING_BYTES) return stop('slow')
      waiting.push(lines)
      waitingBytes += lines.length
      start()
    },
    async close() {
      clearTimeout(timer)
      while (writing !== undefined) await writing
      await file.sync().catch(() => {})
      await file.close()
      return { ...done, full, failure }
    },
    get bytes() {
      return done.bytes
    },
  }
}
