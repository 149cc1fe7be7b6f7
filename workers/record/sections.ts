/**
 * The file of a record: sections, each a zstd frame of whole lines behind a skippable frame with its length and checksum. So a file that
 * was cut is good up to its last whole section, and `zstd -dc FILE` shows all of it.
 */
import { closeSync, openSync, readSync } from 'node:fs'
import { constants, zstdCompress, zstdDecompressSync } from 'node:zlib'
import { checksum } from '../../engine/primitives/checksum.ts'

/** Of a skippable frame (RFC 8878, 3.1.2), which every reader of zstd passes over. */
const MAGIC = 0x184d2a5f
/** Magic, length of the rest; version, length of the frame behind it, xxh3 of that. */
const HEAD_BYTES = 8 + 4 + 4 + 8
export const VERSION = 3
/** Of a section, before and after it is unpacked: what is longer was not made here. */
export const SECTION_BYTES = 64 * 2 ** 20
/** zstd's own default. */
const LEVEL = 3

/** The file is none, or of another version. The message says which. */
export class RecordError extends Error {
  override name = 'RecordError'
}

/** On another thread. @param lines whole lines */
export function packSection(lines: Uint8Array): Promise<Uint8Array> {
  const params = { [constants.ZSTD_c_compressionLevel]: LEVEL }
  return new Promise((resolve, reject) => {
    zstdCompress(lines, { params }, (error, frame) => {
      if (error !== null) return reject(error)
      const section = Buffer.alloc(HEAD_BYTES + frame.length)
      section.writeUInt32LE(MAGIC, 0)
      section.writeUInt32LE(HEAD_BYTES - 8, 4)
      section.writeUInt32LE(VERSION, 8)
      section.writeUInt32LE(frame.length, 12)
      section.writeBigUInt64LE(checksum(frame), 16)
      section.set(frame, HEAD_BYTES)
      resolve(section)
    })
  })
}

export type Section = {
  readonly lines: readonly string[]
  /** Where the next one begins. */
  readonly end: number
}

/**
 * One section after the other, up to the last that is whole; then whether anything is behind it.
 * @throws {RecordError} where the file begins with something else
 */
export function* readSections(path: string): Generator<Section, { readonly isCut: boolean }> {
  const file = openSync(path, 'r')
  try {
    for (let at = 0; ; ) {
      const head = readAt(file, at, HEAD_BYTES)
      if (head.length === 0 && at > 0) return { isCut: false }
      if (at === 0) checkFirst(path, head)
      const frame = frameOf(file, at, head)
      if (frame === undefined) return { isCut: true }
      at += HEAD_BYTES + frame.length
      const text = zstdDecompressSync(frame, { maxOutputLength: SECTION_BYTES }).toString('utf8')
      yield { lines: text.split('\n').slice(0, -1), end: at }
    }
  } finally {
    closeSync(file)
  }
}

/** @throws {RecordError} */
function checkFirst(path: string, head: Buffer): void {
  if (head.length < HEAD_BYTES || head.readUInt32LE(0) !== MAGIC)
    throw new RecordError(`${path} is no record: \`flashnode record --out FILE\` makes one`)
  const version = head.readUInt32LE(8)
  if (version !== VERSION)
    throw new RecordError(
      `${path} has version ${version} and this is version ${VERSION}: replay it with the program that made it`,
    )
}

/** undefined: it is not whole, or not what was written. */
function frameOf(file: number, at: number, head: Buffer): Buffer | undefined {
  const isHead =
    head.length === HEAD_BYTES &&
    head.readUInt32LE(0) === MAGIC &&
    head.readUInt32LE(4) === HEAD_BYTES - 8 &&
    head.readUInt32LE(8) === VERSION
  if (!isHead) return undefined
  const bytes = head.readUInt32LE(12)
  if (bytes > SECTION_BYTES) return undefined
  const frame = readAt(file, at + HEAD_BYTES, bytes)
  return frame.length === bytes && checksum(frame) === head.readBigUInt64LE(16) ? frame : undefined
}

function readAt(file: number, at: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes)
  return buffer.subarray(0, readSync(file, buffer, 0, bytes, at))
}
