/** An append-only file of records that must survive the death of the process: accepted transactions, flashblocks before they are sent. */
import {
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import type { Bytes } from '../../primitives/bytes.ts'
import { checksum } from '../../primitives/checksum.ts'

export interface Journal {
  /** Records in order, as they were when the journal was opened. */
  readonly found: readonly Bytes[]
  /** Bytes after the last whole record that a crash left behind: dropped. */
  readonly tornBytes: number
  /** In the file when the call returns: survives a kill, not a power loss. @throws {JournalError} */
  append(record: Bytes): void
  /** Replaces the whole content, all or nothing: what was there stays when it throws. @throws {JournalError} */
  rewrite(records: Iterable<Bytes>): void
  sizeBytes(): number
  close(): void
}

/**
 * Opens or creates the file. A record is length (4) ‖ xxh3 of the record (8) ‖ record. `limitBytes` is what the file may grow to:
 * beyond it `append` throws 'full', and the owner rewrites with what still counts.
 * @throws {JournalError} 'foreign': the file is no journal of ours; 'io'
 */
export function openJournal(path: string, limitBytes: number = 64 * 2 ** 20): Journal {
  return onDisk(path, () => open(path, limitBytes))
}

function open(path: string, limitBytes: number): Journal {
  let file = openSync(path, 'a+')
  const content = readFileSync(path)
  const isFresh = content.length < MAGIC.length && MAGIC.startsWith(content.toString('latin1'))
  if (!isFresh && content.toString('latin1', 0, MAGIC.length) !== MAGIC) {
    closeSync(file)
    throw new JournalError('foreign', `${path} is no journal of this program: move it away`)
  }
  const { records, end } = isFresh ? { records: [], end: 0 } : readRecords(content)
  if (end < content.length) ftruncateSync(file, end)
  let size = end
  const write = (bytes: Bytes) => {
    writeWhole(file, bytes)
    size += bytes.length
  }
  if (isFresh) write(Buffer.from(MAGIC, 'latin1'))

  return {
    found: records,
    tornBytes: isFresh ? 0 : content.length - end,
    append(record) {
      const encoded = encodeRecord(record)
      if (size + encoded.length > limitBytes)
        throw new JournalError(
          'full',
          `${path}: ${size} of ${limitBytes} bytes are used, a record of ${record.length} does not fit`,
        )
      onDisk(path, () => {
        try {
          write(encoded)
        } catch (error) {
          // Half a record would hide those after it.
          ftruncateSync(file, size)
          throw error
        }
      })
    },
    rewrite(kept) {
      const parts: Bytes[] = [Buffer.from(MAGIC, 'latin1'), ...[...kept].map(encodeRecord)]
      const total = parts.reduce((sum, part) => sum + part.length, 0)
      if (total > limitBytes)
        throw new JournalError(
          'full',
          `${path}: ${total} bytes to keep, the limit is ${limitBytes}`,
        )
      const next = onDisk(path, () => replace(path, parts))
      closeSync(file)
      file = next
      size = total
    },
    sizeBytes: () => size,
    close: () => closeSync(file),
  }
}

/** Written beside it and renamed. What does not get that far is taken away: on a full disk it would hold space for nothing. */
function replace(path: string, parts: readonly Bytes[]): number {
  const next = `${path}.next`
  rmSync(next, { force: true })
  const file = openSync(next, 'a+')
  try {
    for (const part of parts) writeWhole(file, part)
    fsyncSync(file)
    renameSync(next, path)
    return file
  } catch (error) {
    closeSync(file)
    rmSync(next, { force: true })
    throw error
  }
}

/** @throws {JournalError} 'io' for whatever the system throws */
function onDisk<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof JournalError) throw error
    throw new JournalError('io', `${path}: ${(error as Error).message}`)
  }
}

export type CheckedJournal = {
  readonly records: number
  /** Where the first record stands that is not what its checksum says; undefined: all are. */
  readonly damagedAt: number | undefined
  /** At its end, of a record that a kill cut short: the next start drops them. */
  readonly tornBytes: number
}

/** Reads a journal and leaves it as it is; undefined: there is none. @throws {JournalError} 'foreign', 'io' */
export function checkJournal(path: string): CheckedJournal | undefined {
  return onDisk(path, () => {
    if (!existsSync(path)) return undefined
    const content = readFileSync(path)
    if (content.length < MAGIC.length && MAGIC.startsWith(content.toString('latin1')))
      return { records: 0, damagedAt: undefined, tornBytes: content.length }
    if (content.toString('latin1', 0, MAGIC.length) !== MAGIC)
      throw new JournalError('foreign', `${path} is no journal of this program: move it away`)
    const { records, end } = readRecords(content)
    const left = content.length - end
    // One that is all there and says another thing was changed; a kill leaves one that ends too early.
    const isWhole = left >= HEAD_BYTES && content.readUInt32BE(end) <= left - HEAD_BYTES
    return { records: records.length, damagedAt: isWhole ? end : undefined, tornBytes: left }
  })
}

export class JournalError extends Error {
  override name = 'JournalError'
  readonly reason: 'full' | 'io' | 'foreign'
  constructor(reason: 'full' | 'io' | 'foreign', message: string) {
    super(message)
    this.reason = reason
  }
}

const MAGIC = 'flashnode journal 1\n'
const HEAD_BYTES = 12

function encodeRecord(record: Bytes): Bytes {
  const encoded = new Uint8Array(HEAD_BYTES + record.length)
  const view = new DataView(encoded.buffer)
  view.setUint32(0, record.length)
  view.setBigUint64(4, checksum(record))
  encoded.set(record, HEAD_BYTES)
  return encoded
}

/** Up to the first record that is cut short or damaged: nothing after it was acknowledged later than a crash. */
function readRecords(content: Buffer): {
  readonly records: readonly Bytes[]
  readonly end: number
} {
  const records: Bytes[] = []
  let end = MAGIC.length
  while (end + HEAD_BYTES <= content.length) {
    const start = end + HEAD_BYTES
    const record = content.subarray(start, start + content.readUInt32BE(end))
    if (record.length !== content.readUInt32BE(end)) break
    if (checksum(record) !== content.readBigUInt64BE(end + 4)) break
    records.push(record)
    end = start + record.length
  }
  return { records, end }
}

function writeWhole(file: number, bytes: Bytes): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at)
}
