/**
 * Converts a WebSocket message to a JSON value. It detects the wire form: X Layer compresses with
 * Brotli, websocket-proxy may.
 * Bounds prevent a message from costing more than the largest honest one.
 */
import { brotliDecompressSync } from 'node:zlib'
import type { Bytes } from '../primitives/bytes.ts'
import { Refusal } from '../primitives/json-fields.ts'

export type PacketBounds = {
  /** Maximum size of one packet, before and after decompression. */
  readonly bytes: number
  /** Maximum nesting of lists and objects in the JSON. */
  readonly depth: number
  /**
   * Maximum number of lists, objects and their entries. Each costs memory far beyond its bytes: 10
   * M empty lists took 500 MB (November 2026).
   */
  readonly values: number
}
/**
 * Bytes: five times the hex of the calldata that 50 M gas can buy. Values: ten times those of
 * 50,000 transactions, for side data.
 */
export const PACKET_BOUNDS: PacketBounds = { bytes: 32 << 20, depth: 64, values: 500_000 }

/** First byte of X Layer's frames, before the Brotli stream. */
export const MAGIC = 0x1e

export type Packed =
  | { readonly json: Bytes }
  /** Candidate streams in order; the first that is valid Brotli has the JSON. */
  | { readonly brotli: readonly Bytes[] }

/**
 * Detects the form. The order is: plain JSON, Brotli after 0x1E, Brotli of the whole message.
 * @throws {Refusal} when the packet is empty or too large
 */
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

/**
 * Size of an output chunk. Node's default of 16 kB would make 2,048 chunks of the largest packet.
 */
export const INFLATED_PIECE_BYTES = 64 << 10

/**
 * Decompresses the first valid stream synchronously.
 * @throws {Refusal} when the output is too large or no stream is Brotli
 */
export function inflateNow(streams: readonly Bytes[], bounds: PacketBounds): Bytes {
  for (const bytes of streams) {
    try {
      return brotliDecompressSync(bytes, {
        maxOutputLength: bounds.bytes,
        chunkSize: INFLATED_PIECE_BYTES,
      })
    } catch (error) {
      // A packet of 150 bytes can expand to 64 MiB.
      if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE')
        throw tooLargeInflated(bounds)
    }
  }
  throw noBrotli()
}

export const tooLargeInflated = (bounds: PacketBounds): Refusal =>
  new Refusal('too-large', `at most ${bounds.bytes} bytes after decompression`)
export const noBrotli = (): Refusal => new Refusal('brotli', 'JSON, 0x1E and brotli, or brotli')

/**
 * Parses the JSON value of these bytes.
 * @throws {Refusal} when the bytes are not JSON or exceed the bounds
 */
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
 * Checks the bounds in one pass before the parser runs, so that a refused packet costs only this
 * pass.
 * Malformed JSON is ignored here, because the parser rejects it.
 */
function checkBounds(json: Bytes, { depth: max, values: maxValues }: PacketBounds): void {
  let depth = 0
  let values = 0
  for (let at = 0; at < json.length; at++) {
    /*
     * The labels are literal, because V8 makes no jump table for named ones, which is five times
     * slower (November 2026).
     */
    switch (json[at]) {
      case 0x22: // "
        at = endOfString(json, at + 1)
        break
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > max) throw new Refusal('json-depth', `at most ${max} levels`)
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
    if (values > maxValues) throw new Refusal('json-values', `at most ${maxValues} values`)
  }
}

/**
 * Most keys and hashes are shorter. A native search has a fixed cost of 50 ns and pays only for
 * longer strings.
 */
const SHORT_STRING = 80

/** Returns the index of the closing quote, or the length. */
function endOfString(json: Bytes, from: number): number {
  const limit = Math.min(from + SHORT_STRING, json.length)
  let at = from
  for (; at < limit; at++) {
    if (json[at] === QUOTE) return at
    if (json[at] === BACKSLASH) return endOfEscaped(json, at)
  }
  const end = json.indexOf(QUOTE, at)
  if (end < 0) return json.length
  return json.subarray(at, end).includes(BACKSLASH) ? endOfEscaped(json, at) : end
}

/**
 * Searches byte by byte, because a native search per escaped quote takes ten times as long with a
 * million quotes.
 */
function endOfEscaped(json: Bytes, from: number): number {
  for (let at = from; at < json.length; at++) {
    if (json[at] === QUOTE) return at
    if (json[at] === BACKSLASH) at++
  }
  return json.length
}
