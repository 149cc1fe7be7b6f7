/**
 * Response of a source to a new replica: "FNB1" ‖ checksum (8) ‖ length (4) ‖ zstd of the bytes.
 * Checksum and length are those of the unpacked bytes. The unpacked bytes are length (4) ‖ head
 * (JSON) ‖ rows. A row is length of the key (2) ‖ length of the value (4) ‖ key ‖ value. Numbers
 * are big-endian.
 */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { Bytes } from '../../primitives/bytes.ts'
import { checksum } from '../../primitives/checksum.ts'
import { concatBytes, equalBytes } from '../../primitives/words.ts'
import type { Entry } from '../database/types.ts'

/** Version of the format, raised when an older reader would fail. */
export const CHUNK_VERSION = 1

/** The response is not from a source: it is cut, damaged, or from another program. */
export class ChunkError extends Error {
  override name = 'ChunkError'
}

export type Chunk = {
  readonly head: Readonly<Record<string, unknown>>
  readonly rows: readonly Entry[]
  /** Bytes of the unpacked response. */
  readonly rawBytes: number
}

export function encodeChunk(head: object, rows: readonly Entry[]): Bytes {
  const text = Buffer.from(JSON.stringify(head))
  const raw = concatBytes(lengthOf(text.length), text, encodeRows(rows))
  const packed = zstdCompressSync(raw, { params: { [constants.ZSTD_c_compressionLevel]: 1 } })
  const prefix = new Uint8Array(PREFIX_BYTES)
  prefix.set(MAGIC)
  const view = new DataView(prefix.buffer)
  view.setBigUint64(4, checksum(raw))
  view.setUint32(12, raw.length)
  return concatBytes(prefix, packed)
}

/**
 * Decodes a response.
 * @param maxBytes bound of the unpacked bytes
 * @throws {ChunkError}
 */
export function decodeChunk(bytes: Bytes, maxBytes: number): Chunk {
  if (bytes.length < PREFIX_BYTES || !equalBytes(bytes.subarray(0, 4), MAGIC))
    throw new ChunkError('it is no chunk of a flashnode')
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  const length = view.getUint32(12)
  if (length > maxBytes)
    throw new ChunkError(`it says ${length} bytes, at most ${maxBytes} are read`)
  const raw = unpack(bytes.subarray(PREFIX_BYTES), length)
  if (checksum(raw) !== view.getBigUint64(4)) throw new ChunkError('its checksum is another')
  const reader = new DataView(raw.buffer, raw.byteOffset, raw.length)
  if (raw.length < 4 || 4 + reader.getUint32(0) > raw.length)
    throw new ChunkError('its head is cut')
  const end = 4 + reader.getUint32(0)
  return { head: headOf(raw.subarray(4, end)), rows: decodeRows(raw, end), rawBytes: raw.length }
}

/** Checksum by which the rows of a range are compared. */
export const checksumOfRows = (rows: readonly Entry[]): bigint => checksum(encodeRows(rows))

const MAGIC: Bytes = new TextEncoder().encode('FNB1')
const PREFIX_BYTES = 16
const ROW_HEAD = 6

function lengthOf(length: number): Bytes {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, length)
  return bytes
}

function encodeRows(rows: readonly Entry[]): Bytes {
  const size = rows.reduce((sum, { key, value }) => sum + ROW_HEAD + key.length + value.length, 0)
  const bytes = new Uint8Array(size)
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const { key, value } of rows) {
    view.setUint16(at, key.length)
    view.setUint32(at + 2, value.length)
    bytes.set(key, at + ROW_HEAD)
    bytes.set(value, at + ROW_HEAD + key.length)
    at += ROW_HEAD + key.length + value.length
  }
  return bytes
}

function decodeRows(raw: Bytes, from: number): readonly Entry[] {
  const view = new DataView(raw.buffer, raw.byteOffset, raw.length)
  const rows: Entry[] = []
  for (let at = from; at < raw.length; ) {
    if (at + ROW_HEAD > raw.length) throw new ChunkError('its last row is cut')
    const keyEnd = at + ROW_HEAD + view.getUint16(at)
    const end = keyEnd + view.getUint32(at + 2)
    if (end > raw.length) throw new ChunkError('its last row is cut')
    rows.push({ key: raw.subarray(at + ROW_HEAD, keyEnd), value: raw.subarray(keyEnd, end) })
    at = end
  }
  return rows
}

function unpack(packed: Bytes, length: number): Bytes {
  let raw: Bytes
  try {
    raw = plain(zstdDecompressSync(packed, { maxOutputLength: Math.max(1, length) }))
  } catch (error) {
    throw new ChunkError(`it cannot be unpacked: ${(error as Error).message}`)
  }
  if (raw.length !== length) throw new ChunkError(`it has ${raw.length} bytes and says ${length}`)
  return raw
}

/** Views a Buffer as a Uint8Array, because a Buffer's `slice` shares its memory. */
const plain = (buffer: Buffer): Bytes =>
  new Uint8Array(buffer.buffer as ArrayBuffer, buffer.byteOffset, buffer.length)

function headOf(text: Bytes): Readonly<Record<string, unknown>> {
  try {
    const head: unknown = JSON.parse(Buffer.from(text).toString())
    if (typeof head === 'object' && head !== null) return head as Readonly<Record<string, unknown>>
  } catch {
    // The error is thrown below.
  }
  throw new ChunkError('its head is no JSON object')
}
