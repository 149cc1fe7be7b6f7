/**
 * Bytes of a journal: a first line, then records. Each record has a head with a checksum of its
 * own. It distinguishes a damaged length from a record that a kill cut short, and finds the next
 * record behind damage.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { checksum } from '../../primitives/checksum.ts'

/** A stretch of bytes that differ from the written ones. */
export type JournalDamage = {
  /** First damaged byte of the file. */
  readonly offset: number
  readonly bytes: number
  /** Intact records before the damage. */
  readonly recordsBefore: number
}

export type JournalContent = {
  readonly records: readonly Bytes[]
  readonly damages: readonly JournalDamage[]
  /** Bytes at the end that belong to a write which a kill cut short. */
  readonly tornBytes: number
  /** The file has an older format, or a damaged first line, and is rewritten before it grows. */
  readonly needsRewrite: boolean
}

const FIRST_LINE = Buffer.from('flashnode records 2\n', 'latin1')
/** Version 1 has no checksum of the length: length (4) ‖ xxh3 of the record (8) ‖ record. */
const OLD_FIRST_LINE = Buffer.from('flashnode journal 1\n', 'latin1')
const OLD_HEAD_BYTES = 12
/**
 * Marker (4) ‖ length (4) ‖ xxh3 of the record (8) ‖ xxh3 of these 16 bytes and the record's file
 * offset (8).
 */
const HEAD_BYTES = 24
const MARKER = Buffer.from([0xf1, 0x5b, 0x0a, 0xec])
/** A first line with at most this many wrong bytes counts as damaged. */
const FIRST_LINE_DAMAGE = 4
/**
 * Version 1 has no marker, so the search for records behind damage hashes this many bytes at most.
 */
const OLD_SEARCH_BYTES = 2 ** 30

/**
 * Encodes one record.
 * @param offset of the record in the file
 */
export function encodeRecord(record: Bytes, offset: number): Bytes {
  const encoded = Buffer.alloc(HEAD_BYTES + record.length)
  encoded.set(MARKER)
  encoded.writeUInt32BE(record.length, 4)
  encoded.writeBigUInt64BE(checksum(record), 8)
  encoded.writeBigUInt64BE(headChecksum(encoded, 0, offset), 16)
  encoded.set(record, HEAD_BYTES)
  return encoded
}

export function encodeJournal(records: Iterable<Bytes>): readonly Bytes[] {
  const parts: Bytes[] = [FIRST_LINE]
  let size = FIRST_LINE.length
  for (const record of records) {
    const encoded = encodeRecord(record, size)
    parts.push(encoded)
    size += encoded.length
  }
  return parts
}

/**
 * Decodes a file.
 * @returns undefined if the file is no journal
 */
export function decodeJournal(content: Buffer): JournalContent | undefined {
  if (content.length < FIRST_LINE.length) {
    const isStarted = [FIRST_LINE, OLD_FIRST_LINE].some((line) =>
      line.subarray(0, content.length).equals(content),
    )
    return isStarted ? { records: [], damages: [], tornBytes: 0, needsRewrite: true } : undefined
  }
  const [other, otherOld] = [FIRST_LINE, OLD_FIRST_LINE].map((line) => differences(content, line))
  if (other === 0) return { ...decodeRecords(content, NEW), needsRewrite: false }
  if (otherOld === 0) return { ...decodeRecords(content, OLD), needsRewrite: true }
  const isLike = Math.min(other!, otherOld!) <= FIRST_LINE_DAMAGE
  const decoded = decodeRecords(content, isLike && otherOld! < other! ? OLD : NEW)
  // Records of this version prove that the file is a journal, even with another first line.
  if (!isLike && decoded.records.length === 0) return undefined
  const bytes = FIRST_LINE.length
  const damages = [{ offset: 0, bytes, recordsBefore: 0 }, ...decoded.damages]
  return { ...decoded, damages, needsRewrite: true }
}

/** Record format of one version. */
type Form = {
  readonly headBytes: number
  /** The record's length, undefined where no valid head is. */
  lengthAt(content: Buffer, offset: number): number | undefined
  checksumAt(content: Buffer, offset: number): bigint
  /** Offset of the next intact record behind damage; undefined if there is none. */
  next(content: Buffer, damage: number): number | undefined
  /** Whether the bytes from here to the end can be the start of a record. */
  isStartOfHead(rest: Buffer): boolean
}

const NEW: Form = {
  headBytes: HEAD_BYTES,
  lengthAt: (content, offset) =>
    MARKER.equals(content.subarray(offset, offset + MARKER.length)) &&
    content.readBigUInt64BE(offset + 16) === headChecksum(content, offset, offset)
      ? content.readUInt32BE(offset + 4)
      : undefined,
  checksumAt: (content, offset) => content.readBigUInt64BE(offset + 8),
  next(content, damage) {
    const length = isHead(NEW, content, damage) ? NEW.lengthAt(content, damage) : undefined
    // The head is valid, so that only the record is damaged.
    if (length !== undefined) return damage + HEAD_BYTES + length
    for (let at = damage + 1; ; at++) {
      at = content.indexOf(MARKER, at)
      if (at === -1) return undefined
      if (isHead(NEW, content, at) && NEW.lengthAt(content, at) !== undefined) return at
    }
  },
  isStartOfHead(rest) {
    const marker = MARKER.subarray(0, rest.length)
    return marker.equals(rest.subarray(0, marker.length))
  },
}

const OLD: Form = {
  headBytes: OLD_HEAD_BYTES,
  lengthAt: (content, offset) => content.readUInt32BE(offset),
  checksumAt: (content, offset) => content.readBigUInt64BE(offset + 4),
  next(content, damage) {
    // If only the record is damaged, its length is right: the next record or the end of the file
    // follows.
    const stated = damage + OLD_HEAD_BYTES + content.readUInt32BE(damage)
    if (stated === content.length || isRecord(OLD, content, stated)) return stated
    let budget = OLD_SEARCH_BYTES
    for (let at = damage + 1; isHead(OLD, content, at) && budget > 0; at++) {
      const length = content.readUInt32BE(at)
      if (at + OLD_HEAD_BYTES + length > content.length) continue
      if (isRecord(OLD, content, at)) return at
      budget -= length
    }
    return undefined
  },
  isStartOfHead: () => true,
}

function decodeRecords(content: Buffer, form: Form): Omit<JournalContent, 'needsRewrite'> {
  const records: Bytes[] = []
  const damages: JournalDamage[] = []
  let at = FIRST_LINE.length
  while (at < content.length) {
    if (isRecord(form, content, at)) {
      const start = at + form.headBytes
      at = start + form.lengthAt(content, at)!
      records.push(content.subarray(start, at))
      continue
    }
    const isTorn = isTornAt(form, content, at)
    const next = isTorn && form === NEW ? undefined : nextRecord(form, content, at)
    if (isTorn && next === undefined) return { records, damages, tornBytes: content.length - at }
    const end = Math.min(next ?? content.length, content.length)
    damages.push({ offset: at, bytes: end - at, recordsBefore: records.length })
    at = end
  }
  return { records, damages, tornBytes: 0 }
}

function nextRecord(form: Form, content: Buffer, damage: number): number | undefined {
  return isHead(form, content, damage) ? form.next(content, damage) : undefined
}

/** Whether a kill, or a power loss that left zeros, explains the end of the file. */
function isTornAt(form: Form, content: Buffer, at: number): boolean {
  const rest = content.subarray(at)
  if (rest.every((byte) => byte === 0)) return true
  if (!isHead(form, content, at)) return form.isStartOfHead(rest)
  const length = form.lengthAt(content, at)
  return length !== undefined && form.headBytes + length > rest.length
}

const isHead = (form: Form, content: Buffer, at: number): boolean =>
  at + form.headBytes <= content.length

function isRecord(form: Form, content: Buffer, at: number): boolean {
  if (!isHead(form, content, at)) return false
  const length = form.lengthAt(content, at)
  const start = at + form.headBytes
  if (length === undefined || start + length > content.length) return false
  return checksum(content.subarray(start, start + length)) === form.checksumAt(content, at)
}

/**
 * Checksum of a head. It includes the offset, so that a copy of a head inside a record is invalid.
 */
function headChecksum(content: Buffer, at: number, offset: number): bigint {
  const hashed = Buffer.alloc(24)
  content.copy(hashed, 0, at, at + 16)
  hashed.writeBigUInt64BE(BigInt(offset), 16)
  return checksum(hashed)
}

function differences(content: Buffer, line: Buffer): number {
  return line.reduce((count, byte, index) => count + (content[index] === byte ? 0 : 1), 0)
}
