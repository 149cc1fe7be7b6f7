/**
 * File format of a recording: sections of full lines, each compressed as one zstd frame. A
 * skippable frame with length and checksum precedes each.
 * A truncated file is valid up to its last full section, and `zstd -dc FILE` prints all of it.
 */
import { closeSync, openSync, readSync } from 'node:fs'
import { constants, zstdCompress, zstdDecompressSync } from 'node:zlib'
import { checksum } from '../../engine/primitives/checksum.ts'

/** Magic number of a skippable frame (RFC 8878, 3.1.2), which every zstd decoder ignores. */
const MAGIC = 0x184d2a5f
/**
 * Bytes of the magic number, remaining length, version, length of the following frame, and its xxh3
 * hash.
 */
const HEAD_BYTES = 8 + 4 + 4 + 8
export const VERSION = 3
/**
 * Maximum size of a section before and after decompression; the recorder makes none that is longer.
 */
export const SECTION_BYTES = 64 * 2 ** 20
/** Default level of zstd. */
const LEVEL = 3

/** The file is no recording, or has another version; the message says which. */
export class RecordError extends Error {
  override name = 'RecordError'
}

/** Compresses a section on another thread. @param lines full lines */
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
  /** Offset of the next section. */
  readonly end: number
}

/**
 * Yields the full sections; returns if damaged data follows.
 * @throws {RecordError} if the file starts with other data
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
    throw new RecordError(`${path} is not a recording: \`flashnode record --out FILE\` makes one`)
  const version = head.readUInt32LE(8)
  if (version !== VERSION)
    throw new RecordError(
      `${path} has format version ${version}, expected ${VERSION}: replay it with the version of flashnode that recorded it`,
    )
}

/** Returns undefined if the frame is incomplete or damaged. */
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
