/**
 * An append-only file of records that must survive the death of the process: accepted transactions,
 * flashblocks before they are sent.
 */
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import type { Bytes } from '../../primitives/bytes.ts'
import {
  decodeJournal,
  encodeJournal,
  encodeRecord,
  type JournalContent,
  type JournalDamage,
} from './journal-format.ts'

export interface Journal {
  /** Records in order, as they were when the journal was opened. */
  readonly found: readonly Bytes[]
  /**
   * Bytes after the last record, of a write that a kill cut short. They were removed from the file.
   */
  readonly tornBytes: number
  /** Damage found at the opening, and the path of a copy made before the damage was cut. */
  readonly damage: { readonly message: string; readonly copy: string } | undefined
  /**
   * Appends a record, which survives a kill once the call returns, but no power loss.
   * @throws {JournalError}
   */
  append(record: Bytes): void
  /**
   * Replaces the content, all or nothing: on an error the old content stays.
   * @throws {JournalError}
   */
  rewrite(records: Iterable<Bytes>): void
  sizeBytes(): number
  close(): void
}

export type JournalOptions = {
  /**
   * Largest size of the file. Beyond it `append` throws 'full', and the owner rewrites the records
   * that still count.
   */
  readonly limitBytes?: number
  /**
   * 'skip' leaves out damaged records, 'cut' also everything behind the first one; a copy of the
   * file is made before. 'refuse' throws 'damaged' and leaves the file unchanged.
   */
  readonly ifDamaged: 'skip' | 'cut' | 'refuse'
}

/**
 * Copies of one damaged journal. Once they exist, no further one is made, and the journal is not
 * opened.
 */
export const MAX_COPIES = 8

/**
 * Opens or creates the file.
 * @throws {JournalError} 'foreign': the file is no journal of flashnode; 'damaged'; 'io'
 */
export function openJournal(path: string, options: JournalOptions): Journal {
  return onDisk(path, () => open(path, options))
}

function open(path: string, { limitBytes = 64 * 2 ** 20, ifDamaged }: JournalOptions): Journal {
  const { content, decoded } = read(path)
  const { damages, tornBytes } = decoded
  if (damages.length > 0 && ifDamaged === 'refuse') throw refusal(path, damages)
  const isCut = ifDamaged === 'cut' && damages.length > 0
  const found = isCut ? decoded.records.slice(0, damages[0]!.recordsBefore) : decoded.records
  const damage = damages.length === 0 ? undefined : saveCopy(path, damages)
  if (tornBytes > 0 && damage === undefined)
    writeFileSync(tornCopy(path), content.subarray(-tornBytes))
  let { file, size } =
    damage === undefined && !decoded.needsRewrite
      ? openUpTo(path, content.length - tornBytes)
      : replace(path, encodeJournal(found))
  let isPartial = false
  const cutPartial = () => {
    if (isPartial) ftruncateSync(file, size)
    isPartial = false
  }

  return {
    found,
    tornBytes,
    damage,
    append(record) {
      const encoded = encodeRecord(record, size)
      if (size + encoded.length > limitBytes)
        throw new JournalError(
          'full',
          `${path}: ${size} of ${limitBytes} bytes are used, a record of ${record.length} does not fit`,
        )
      onDisk(path, () => {
        // Part of a record would look like damage before the records after it.
        cutPartial()
        isPartial = true
        try {
          writeAll(file, encoded)
          isPartial = false
        } finally {
          cutPartial()
        }
        size += encoded.length
      })
    },
    rewrite(retained) {
      const parts = encodeJournal(retained)
      const total = bytesOf(parts)
      if (total > limitBytes)
        throw new JournalError(
          'full',
          `${path}: ${total} bytes to keep, the limit is ${limitBytes}`,
        )
      const next = onDisk(path, () => replace(path, parts))
      closeSync(file)
      ;({ file, size } = next)
      isPartial = false
    },
    sizeBytes: () => size,
    close: () => closeSync(file),
  }
}

type Read = { readonly content: Buffer; readonly decoded: JournalContent }

/**
 * Reads the file, or creates it.
 * @throws {JournalError} 'foreign'
 */
function read(path: string): Read {
  closeSync(openSync(path, 'a+'))
  const content = readFileSync(path)
  const decoded = decodeJournal(content)
  if (decoded === undefined) throw foreign(path)
  return { content, decoded }
}

const foreign = (path: string) =>
  new JournalError('foreign', `${path} is no journal of this program: move it away`)

function refusal(path: string, damages: readonly JournalDamage[]): JournalError {
  return new JournalError(
    'damaged',
    `${path} is damaged and was left as it is: ${describeDamage(damages)}. Its records depend on each other: put back a copy of it, or move it away: blocks that only this file has are then built anew`,
  )
}

/**
 * Describes the damage for people.
 * @param damages at least one
 */
export function describeDamage(damages: readonly JournalDamage[]): string {
  const { offset, bytes, recordsBefore } = damages[0]!
  const more = damages.length === 1 ? '' : ` (and ${damages.length - 1} more places)`
  return `record ${recordsBefore + 1} at byte ${offset} is not what its checksum says, ${bytes} bytes${more}`
}

/**
 * Copies a damaged file before any part is left out.
 * @throws {JournalError} 'damaged' if there are too many copies
 */
function saveCopy(path: string, damages: readonly JournalDamage[]): Journal['damage'] {
  const names = Array.from({ length: MAX_COPIES }, (_, index) => `${path}.damaged-${index + 1}`)
  const copy = names.find((name) => !existsSync(name))
  if (copy === undefined)
    throw new JournalError(
      'damaged',
      `${path}: ${describeDamage(damages)}; ${MAX_COPIES} copies of it are kept already (${names[0]} and so on): look after the disk, and move them away`,
    )
  const unfinished = `${path}.copy`
  copyFileSync(path, unfinished)
  const file = openSync(unfinished, 'r+')
  fsyncSync(file)
  closeSync(file)
  renameSync(unfinished, copy)
  const message = `${path}: ${describeDamage(damages)}; the file as it was is kept as ${copy}`
  return { message, copy }
}

/** Path of a copy of the newest write that a kill cut short. The next such write replaces it. */
export const tornCopy = (path: string): string => `${path}.torn`

type Opened = { readonly file: number; readonly size: number }

function openUpTo(path: string, size: number): Opened {
  const file = openSync(path, 'a+')
  ftruncateSync(file, size)
  return { file, size }
}

/**
 * Writes a new file and renames it. A failed file is removed, because it would take space on a full
 * disk.
 */
function replace(path: string, parts: readonly Bytes[]): Opened {
  const next = `${path}.next`
  rmSync(next, { force: true })
  const file = openSync(next, 'a+')
  try {
    for (const part of parts) writeAll(file, part)
    fsyncSync(file)
    renameSync(next, path)
    return { file, size: bytesOf(parts) }
  } catch (error) {
    closeSync(file)
    rmSync(next, { force: true })
    throw error
  }
}

const bytesOf = (parts: readonly Bytes[]): number =>
  parts.reduce((sum, part) => sum + part.length, 0)

/** @throws {JournalError} 'io' for any error of the system */
function onDisk<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof JournalError) throw error
    throw new JournalError('io', `${path}: ${(error as Error).message}`)
  }
}

export type CheckedJournal = Pick<JournalContent, 'damages' | 'tornBytes'> & {
  readonly records: number
}

/**
 * Reads a journal without changing it; undefined if there is none.
 * @throws {JournalError} 'foreign', 'io'
 */
export function checkJournal(path: string): CheckedJournal | undefined {
  return onDisk(path, () => {
    if (!existsSync(path)) return undefined
    const decoded = decodeJournal(readFileSync(path))
    if (decoded === undefined) throw foreign(path)
    const { records, damages, tornBytes } = decoded
    return { records: records.length, damages, tornBytes }
  })
}

export class JournalError extends Error {
  override name = 'JournalError'
  readonly reason: 'full' | 'io' | 'foreign' | 'damaged'
  constructor(reason: JournalError['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

function writeAll(file: number, bytes: Bytes): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at)
}
