/**
 * Writes a recording: compresses lines into sections, one at a time, up to limits of bytes and
 * time.
 */
import { type FileHandle, open } from 'node:fs/promises'
import { packSection, SECTION_BYTES } from './sections.ts'

export type RecorderOptions = {
  readonly path: string
  /** Maximum size of the file. */
  readonly maxBytes: number
  readonly maxMs: number
  /** Called when the recorder stops taking lines, with the reason. */
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
  /** Adds full lines. */
  add(lines: Uint8Array): void
  /** Resolves when all added lines are on the disk. */
  close(): Promise<Recorded>
  readonly bytes: number
}

/** Maximum bytes of lines that wait for the disk or the processor. */
const WAITING_BYTES = SECTION_BYTES
/** Maximum size of a section; earlier sections stay valid if one is damaged. */
const TAKEN_BYTES = 4 * 2 ** 20

/** Makes a new file; an existing file is an error. @throws errors of the system */
export async function openRecorder(options: RecorderOptions): Promise<Recorder> {
  const { path, maxBytes, maxMs, onFull } = options
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
  const timer = setTimeout(() => stop('seconds'), maxMs)

  async function write(): Promise<void> {
    while (waiting.length > 0 && full !== 'bytes' && full !== 'failed') {
      const section = await packSection(take())
      if (done.bytes + section.length > maxBytes) return stop('bytes')
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
      /*
       * Lines are still accepted when the time is over. After a dropped line none is, because the
       * gap would change a replay.
       */
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
