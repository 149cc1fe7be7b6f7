/**
 * Compresses large responses for clients that ask for it (RFC 9110, 12.5.3). Node's thread pool
 * compresses a few responses at a time. Without capacity a response is sent uncompressed.
 */
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { Readable, type Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createBrotliCompress, createGzip, createZstdCompress } from 'node:zlib'
import { LARGE, LargeResponse, type Part, type RpcResponse } from '../core/exchange.ts'
import { createFifo } from '../core/fifo.ts'
import type { Limits } from '../core/limits.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { POINT_COMPRESSED_BYTES } from '../limiter/points.ts'

export type EncodingLimits = Pick<Limits, 'compressFromBytes' | 'compressingBytes'>

export interface Encoding {
  /**
   * Compresses a response. undefined: it is sent unchanged. The promise never rejects; after a
   * failure it gives the unchanged response.
   */
  encode(response: RpcResponse, to: Receiver): Promise<RpcResponse> | undefined
  readonly stats: {
    /** Number of compressed responses. */
    readonly responses: number
    /** Bytes of these responses, before and after compression. */
    readonly from: number
    readonly to: number
    /** Responses sent uncompressed for lack of capacity. */
    readonly refused: number
  }
}
type Receiver = {
  /** Address that pays for the compression. */
  readonly address: () => string
  readonly request: Pick<IncomingMessage, 'headers'>
  readonly response: { readonly destroyed: boolean }
  /** Headers of the response in addition to its own. */
  readonly headers: OutgoingHttpHeaders
}

/**
 * Maximum number of concurrent compressions. Node's pool has four threads, which file access needs
 * too.
 */
const AT_ONCE = 2

/**
 * Codings in order of preference, for clients without one: least work for the saving, on hex in
 * JSON (2026-11).
 */
const CODINGS: ReadonlyMap<string, () => Transform> = new Map([
  [
    'zstd',
    () =>
      createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 1 }, chunkSize: LARGE }),
  ],
  [
    'br',
    () =>
      createBrotliCompress({
        params: { [constants.BROTLI_PARAM_QUALITY]: 1, [constants.BROTLI_PARAM_LGWIN]: 18 },
        chunkSize: LARGE,
      }),
  ],
  ['gzip', () => createGzip({ level: 1, chunkSize: LARGE })],
])

type EncodingOptions = {
  readonly limiter: Pick<Limiter, 'owe'>
  /** Reports a part that cannot be compressed, which no client can cause. */
  readonly onBug: (error: unknown) => void
}

export function createEncoding(
  { compressFromBytes, compressingBytes }: EncodingLimits,
  { limiter, onBug }: EncodingOptions,
): Encoding {
  /** Responses that wait, bounded by their bytes. */
  const waiting = createFifo<() => void>()
  let running = 0
  let bytes = 0
  const stats = { responses: 0, from: 0, to: 0, refused: 0 }

  async function inTurn<T>(run: () => Promise<T>): Promise<T> {
    if (running === AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve))
    else running++
    try {
      return await run()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }

  async function encoded(
    response: RpcResponse,
    {
      coding,
      length,
      to,
    }: { readonly coding: string; readonly length: number; readonly to: Receiver },
  ): Promise<RpcResponse> {
    const headers = { ...response.headers, vary: varyOf(to.headers) }
    bytes += length
    try {
      const parts = await inTurn(() => compress(response, CODINGS.get(coding)!(), to.response))
      if (parts === undefined) return response
      const points = Math.floor(length / POINT_COMPRESSED_BYTES)
      if (points > 0) limiter.owe(to.address(), points)
      stats.responses++
      stats.from += length
      for (const part of parts) stats.to += part.length
      return new LargeResponse(parts, { ...headers, 'content-encoding': coding })
    } catch (error) {
      onBug(error)
      return response
    } finally {
      bytes -= length
    }
  }

  return {
    encode(response, to) {
      if (compressFromBytes === 0 || response.status !== 200) return undefined
      const length = lengthOf(response)
      if (length < compressFromBytes) return undefined
      const coding = codingOf(to.request.headers['accept-encoding'])
      if (coding === undefined) return undefined
      if (bytes + length > compressingBytes) {
        stats.refused++
        return undefined
      }
      return encoded(response, { coding, length, to })
    },
    stats,
  }
}

/** Compresses a response. undefined: the client has disconnected. */
async function compress(
  reply: RpcResponse,
  stream: Transform,
  response: Receiver['response'],
): Promise<readonly Uint8Array[] | undefined> {
  const parts: Uint8Array[] = []
  let isLeft = false
  function* pieces(): Generator<Uint8Array, void> {
    for (const piece of bytesOf(reply.parts ?? [reply.text ?? ''])) {
      isLeft = response.destroyed
      if (isLeft) return
      yield piece
    }
  }
  await pipeline(Readable.from(pieces(), { objectMode: false }), stream, async (compressed) => {
    for await (const part of compressed) parts.push(part as Uint8Array)
  })
  return isLeft ? undefined : parts
}

/** Yields pieces of bytes, one per turn of the event loop, so that no copy takes long. */
function* bytesOf(parts: readonly Part[]): Generator<Uint8Array, void> {
  for (const part of parts)
    if (typeof part !== 'string') yield part
    else
      for (let from = 0; from < part.length; from += LARGE)
        yield Buffer.from(part.slice(from, from + LARGE), 'utf8')
}

/**
 * Returns the length of a response without joining its parts, because `text` joins them on access.
 */
const lengthOf = (response: RpcResponse): number =>
  response.parts === undefined
    ? (response.text?.length ?? 0)
    : response.parts.reduce((sum, { length }) => sum + length, 0)

/** Returns the coding that the client prefers. undefined: the client accepts none of them. */
function codingOf(accepted: string | undefined): string | undefined {
  if (accepted === undefined) return undefined
  const weights = new Map<string, number>()
  for (const one of accepted.split(',')) {
    const [name, ...parameters] = one.split(';').map((part) => part.trim().toLowerCase())
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
    weights.set(name!, weight === undefined ? 1 : Number(weight) || 0)
  }
  let best: string | undefined
  let max = 0
  for (const name of CODINGS.keys()) {
    const weight = weights.get(name) ?? weights.get('*') ?? 0
    if (weight > max) [best, max] = [name, weight]
  }
  return best
}

/** Adds Accept-Encoding to the Vary header. */
function varyOf({ vary }: OutgoingHttpHeaders): string {
  return vary === undefined ? 'Accept-Encoding' : `${String(vary)}, Accept-Encoding`
}
