/**
 * From a WebSocket message to a JSON value: which wire form it has (X Layer compresses with Brotli, websocket-proxy may), and the bounds
 * that keep one message from costing more than the largest honest one.
 */
import { brotliDecompressSync } from 'node:zlib'
import type { Bytes } from '../primitives/bytes.ts'
import { Refusal } from '../primitives/json-fields.ts'

export type PacketBounds = {
  /** Of one packet, before and after decompression. */
  readonly bytes: number
  /** Of its JSON: lists and objects inside each other. */
  readonly depth: number
  /** Lists, objects, and what stands in them. Each costs memory far beyond its bytes: 10 M empty lists took 500 MB (2026-11). */
  readonly values: number
}
/** Bytes: 5 × the hex of the calldata that 50 M gas can buy. Values: ten times what 50,000 transactions are, for side data. */
export const PACKET_BOUNDS: PacketBounds = { bytes: 32 << 20, depth: 64, values: 500_000 }

/** The first byte of X Layer's frames, before the Brotli stream. */
export const MAGIC = 0x1e

export type Packed =
  | { readonly json: Bytes }
  /** Streams to try, in this order: the first that is Brotli has the JSON. */
  | { readonly brotli: readonly Bytes[] }

/** The forms are tried in this order: plain JSON, 0x1E and Brotli after it, Brotli of the whole message. @throws {Refusal} */
export function openPacket(packet: Bytes, bounds: PacketBounds): Packed {
  if (packet.length > bounds.bytes)
    throw new Refusal('too-large', `at most ${bounds.bytes} bytes`, packet.length)
  let start = 0
  while (start < packet.length && isSpace(packet[start]!)) start++
  if (start === packet.length) throw new Refusal('empty', 'a message')
  if (packet[start] === BRACE) return { json: packet.subarray(start) }
  return {
    brotli: packet[start] === MAGIC ? [packet.subarray(start + 1), packet] : [packet],
  }
}

/** One piece of output: Node's own 16 kB would make 2,048 of the largest packet. */
export const INFLATED_PIECE_BYTES = 64 << 10

/** In one go. @throws {Refusal} also where none is Brotli */
export function inflateNow(streams: readonly Bytes[], bounds: PacketBounds): Bytes {
  for (const bytes of streams) {
    try {
      return brotliDecompressSync(bytes, {
        maxOutputLength: bounds.bytes,
        chunkSize: INFLATED_PIECE_BYTES,
      })
    } catch (error) {
      // A packet of 150 bytes can ask for 64 MiB.
      if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE')
        throw tooLargeInflated(bounds)
    }
  }
  throw noBrotli()
}

export const tooLargeInflated = (bounds: PacketBounds): Refusal =>
  new Refusal('too-large', `at most ${bounds.bytes} bytes after decompression`)
export const noBrotli = (): Refusal => new Refusal('brotli', 'JSON, 0x1E and brotli, or brotli')

/** The JSON value of these bytes. @throws {Refusal} */
export function readJson(bytes: Bytes, bounds: PacketBounds): unknown {
  checkBounds(bytes, bounds)
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    throw new Refusal('utf8', 'valid UTF-8')
  }
  try {
    return JSON.parse(text)
  } catch {
    throw new Refusal('json', 'valid JSON')
  }
}

const BRACE = 0x7b
const QUOTE = 0x22
const BACKSLASH = 0x5c
const utf8 = new TextDecoder('utf-8', { fatal: true })

const isSpace = (byte: number) => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)

/**
 * One pass without a stack of its own, before the parser sees a byte: what it refuses costs nothing but the pass. It takes no notice of
 * what is no JSON, which the parser ends at.
 */
function checkBounds(json: Bytes, { depth: most, values: mostValues }: PacketBounds): void {
  let depth = 0
  let values = 0
  for (let at = 0; at < json.length; at++) {
    // Literal labels: with named ones V8 makes no jump table, which is five times as slow (2026-11).
    switch (json[at]) {
      case 0x22: // "
        at = endOfString(json, at + 1)
        break
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > most) throw new Refusal('json-depth', `at most ${most} levels`)
        values++
        break
      case 0x5d: // ]
      case 0x7d: // }
        depth--
        break
      case 0x2c: // ,
        values++
        break
      default:
    }
    if (values > mostValues) throw new Refusal('json-values', `at most ${mostValues} values`)
  }
}

/** Of most keys and hashes. A search by native code pays only beyond that: it costs 50 ns before it looks at a byte. */
const SHORT_STRING = 80

/** Index of the closing quote, or the length. */
function endOfString(json: Bytes, from: number): number {
  const near = Math.min(from + SHORT_STRING, json.length)
  let at = from
  for (; at < near; at++) {
    if (json[at] === QUOTE) return at
    if (json[at] === BACKSLASH) return endOfEscaped(json, at)
  }
  const end = json.indexOf(QUOTE, at)
  if (end < 0) return json.length
  return json.subarray(at, end).includes(BACKSLASH) ? endOfEscaped(json, at) : end
}

/** Byte by byte: a search for each of a million escaped quotes would take ten times as long. */
function endOfEscaped(json: Bytes, from: number): number {
  for (let at = from; at < json.length; at++) {
    if (json[at] === QUOTE) return at
    if (json[at] === BACKSLASH) at++
  }
  return json.length
}
