/**
 * The bytes of a journal: a first line, then records. Each record has a head with a checksum of its own, so that a damaged length is
 * told apart from a record that a kill cut short, and so that the next record is found behind damage.
 */
import type { Bytes } from '../../primitives/bytes.ts'
import { checksum } from '../../primitives/checksum.ts'

/** One stretch of bytes that is not what was written. */
export type JournalDamage = {
  /** First damaged byte of the file. */
  readonly offset: number
  readonly bytes: number
  /** Intact records before it. */
  readonly recordsBefore: number
}

export type JournalContent = {
  readonly records: readonly Bytes[]
  readonly damages: readonly JournalDamage[]
  /** Bytes at the end that belong to a write which a kill cut short. */
  readonly tornBytes: number
  /** An earlier version wrote it, or its first line is damaged: the file is written again before it grows. */
  readonly needsRewrite: boolean
}

const FIRST_LINE = Buffer.from('flashnode records 2\n', 'latin1')
/** Version 1 has no checksum of the length: length (4) ‖ xxh3 of the record (8) ‖ record. */
const OLD_FIRST_LINE = Buffer.from('flashnode journal 1\n', 'latin1')
const OLD_HEAD_BYTES = 12
/** Marker (4) ‖ length (4) ‖ xxh3 of the record (8) ‖ xxh3 of these 16 bytes and of the record's offset in the file (8). */
const HEAD_BYTES = 24
const MARKER = Buffer.from([0xf1, 0x5b, 0x0a, 0xec])
/** A first line with at most this many other bytes is a damaged one. */
const FIRST_LINE_DAMAGE = 4
/** The search for records behind damage in a file of version 1 hashes at most so much: it has no marker to look for. */
const OLD_SEARCH_BYTES = 2 ** 30

/** @param offset where the record will begin in the file */
export function encodeRecord(record: Bytes, offset: number): Bytes {
  const encoded = Buffer.alloc(HEAD_BYTES + record.length)
  encoded.set(MARKER)
  encoded.writeUInt32BE(record.length, 4)
  encoded.writeBigUInt64BE(checksum(record), 8)
  encoded.writeBigUInt64BE(headChecksum(encoded, 0, offset), 16)
  encoded.set(record, HEAD_BYTES)
  return encoded
}

/** The whole file. */
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

/** @returns undefined: the file is no journal */
export function decodeJournal(content: Buffer): JournalContent | undefined {
  if (content.length < FIRST_LINE.length) {
    const isBegun = [FIRST_LINE, OLD_FIRST_LINE].some((line) =>
      line.subarray(0, content.length).equals(content),
    )
    return isBegun ? { records: [], damages: [], tornBytes: 0, needsRewrite: true } : undefined
  }
  const [other, otherOld] = [FIRST_LINE, OLD_FIRST_LINE].map((line) => differences(content, line))
  if (other === 0) return { ...decodeRecords(content, NEW), needsRewrite: false }
  if (otherOld === 0) return { ...decodeRecords(content, OLD), needsRewrite: true }
  const isLike = Math.min(other!, otherOld!) <= FIRST_LINE_DAMAGE
  const decoded = decodeRecords(content, isLike && otherOld! < other! ? OLD : NEW)
  // Records of this version prove that the file is a journal, whatever its first line has become.
  if (!isLike && decoded.records.length === 0) return undefined
  const bytes = FIRST_LINE.length
  const damages = [{ offset: 0, bytes, recordsBefore: 0 }, ...decoded.damages]
  return { ...decoded, damages, needsRewrite: true }
}

/** How one version writes its records down. */
type Form = {
  readonly headBytes: number
  /** The record's length, where a head can be trusted to be one. */
  lengthAt(content: Buffer, offset: number): number | undefined
  checksumAt(content: Buffer, offset: number): bigint
  /** Offset of the next intact record behind damage; undefined if there is none. */
  next(content: Buffer, damage: number): number | undefined
  /** Whether the bytes from here to the end can be the beginning of a record. */
  isBeginning(rest: Buffer): boolean
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
    // The head is right, so that the damage is in the record alone.
    if (length !== undefined) return damage + HEAD_BYTES + length
    for (let at = damage + 1; ; at++) {
      at = content.indexOf(MARKER, at)
      if (at === -1) return undefined
      if (isHead(NEW, content, at) && NEW.lengthAt(content, at) !== undefined) return at
    }
  },
  isBeginning(rest) {
    const marker = MARKER.subarray(0, rest.length)
    return marker.equals(rest.subarray(0, marker.length))
  },
}

const OLD: Form = {
  headBytes: OLD_HEAD_BYTES,
  lengthAt: (content, offset) => content.readUInt32BE(offset),
  checksumAt: (content, offset) => content.readBigUInt64BE(offset + 4),
  next(content, damage) {
    // Damage in the record alone leaves its length right: the next one begins behind it, or the file ends there.
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
  isBeginning: () => true,
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

/** Whether a kill, or a power loss that left zeros, explains that the file ends like this. */
function isTornAt(form: Form, content: Buffer, at: number): boolean {
  const rest = content.subarray(at)
  if (rest.every((byte) => byte === 0)) return true
  if (!isHead(form, content, at)) return form.isBeginning(rest)
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

/** The offset is part of it: a head that stands inside a record, as a copy, is none. */
function headChecksum(content: Buffer, at: number, offset: number): bigint {
  const hashed = Buffer.alloc(24)
  content.copy(hashed, 0, at, at + 16)
  hashed.writeBigUInt64BE(BigInt(offset), 16)
  return checksum(hashed)
}

function differences(content: Buffer, line: Buffer): number {
  return line.reduce((count, byte, index) => count + (content[index] === byte ? 0 : 1), 0)
}
