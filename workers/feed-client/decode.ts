/** Decodes packets within their bounds; long work is done in pieces. */
import { createBrotliDecompress } from 'node:zlib'
import {
  type DecodedPacket,
  decodeJson,
  refusedFor,
  refusing,
} from '../../engine/flashblocks/codec.ts'
import {
  INFLATED_PIECE_BYTES,
  inflateNow,
  noBrotli,
  openPacket,
  type PacketBounds,
  tooLargeInflated,
} from '../../engine/flashblocks/packed.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { Refusal } from '../../engine/primitives/json-fields.ts'

export type Decoded = {
  readonly decoded: DecodedPacket
  /** Size after decompression, or the size reached when the packet was refused. */
  readonly jsonBytes: number
}
export type DecodeOptions = {
  readonly bounds: PacketBounds
  /** Timeout for decompressing one packet. */
  readonly packetMs: number
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/**
 * Longer packets are decompressed in pieces of this size.
 * A Brotli stream of code tables takes 85 ns a byte and more (2026-11). At once, 32 MiB would block
 * the thread for seconds.
 */
export const PIECE_BYTES = 64 << 10

/** Decodes a packet, or returns its refusal; never rejects. */
export async function decodeWithin(packet: Bytes, options: DecodeOptions): Promise<Decoded> {
  const { bounds } = options
  const packed = refusing(() => openPacket(packet, bounds))
  if ('refuse' in packed) return { decoded: packed, jsonBytes: 0 }
  if ('json' in packed) return decodeIt(packed.json, bounds)
  const inflated =
    packet.length <= PIECE_BYTES
      ? refusing(() => inflateNow(packed.brotli, bounds))
      : await inflateInPieces(packed.brotli, options)
  if (!('refuse' in inflated)) return decodeIt(inflated, bounds)
  return { decoded: inflated, jsonBytes: inflated.field === 'too-large' ? bounds.bytes : 0 }
}

const decodeIt = (json: Bytes, bounds: PacketBounds): Decoded => ({
  decoded: decodeJson(json, bounds),
  jsonBytes: json.length,
})

async function inflateInPieces(streams: readonly Bytes[], options: DecodeOptions) {
  const until = options.now() + options.packetMs
  try {
    for (const stream of streams) {
      const inflated = await inflateOne(stream, options, until)
      if (inflated !== undefined) return inflated
    }
    throw noBrotli()
  } catch (error) {
    if (error instanceof Refusal) return refusedFor(error)
    throw error
  }
}

/** Resolves to undefined if the stream is not Brotli; rejects with a Refusal. */
function inflateOne(
  stream: Bytes,
  { bounds, packetMs, now }: DecodeOptions,
  until: number,
): Promise<Bytes | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Bytes | undefined>()
  const inflater = createBrotliDecompress({ chunkSize: INFLATED_PIECE_BYTES })
  const pieces: Buffer[] = []
  let size = 0
  let at = 0
  const refuse = (refusal: Refusal) => {
    inflater.destroy()
    reject(refusal)
  }
  const isLate = () => now() > until
  const late = () => new Refusal('decode-time', `decompression takes longer than ${packetMs} ms`)
  const write = (error?: Error | null) => {
    if (error || inflater.destroyed) return
    if (isLate()) return refuse(late())
    const piece = stream.subarray(at, at + PIECE_BYTES)
    at += piece.length
    if (at < stream.length) inflater.write(piece, write)
    else inflater.end(piece)
  }
  inflater.on('data', (piece: Buffer) => {
    size += piece.length
    pieces.push(piece)
    if (size > bounds.bytes) refuse(tooLargeInflated(bounds))
    else if (isLate()) refuse(late())
  })
  inflater.on('error', () => resolve(undefined))
  inflater.on('end', () => resolve(Buffer.concat(pieces)))
  write()
  return promise
}
