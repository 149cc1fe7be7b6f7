/**
 * Large answers made smaller for clients that ask for it (RFC 9110, 12.5.3): in Node's own threads, never in this one, few at a time, and
 * sent as they are where there is no room.
 */
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { Readable, type Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createBrotliCompress, createGzip, createZstdCompress } from 'node:zlib'
import type { Limiter } from '../limiter/limiter.ts'
import { POINT_COMPRESSED_BYTES } from '../limiter/points.ts'
import { type Answer, LARGE, LargeAnswer, type Part } from '../seam/exchange.ts'
import { createFifo } from '../seam/fifo.ts'
import type { Limits } from '../seam/limits.ts'

export type EncodingLimits = Pick<Limits, 'compressFromBytes' | 'compressingBytes'>

export interface Encoding {
  /** undefined: it is sent as it is. Never rejects: where it cannot be compressed it comes back as it was. */
  encode(answer: Answer, to: Receiver): Promise<Answer> | undefined
  readonly stats: {
    /** Answers that were compressed. */
    readonly answers: number
    /** Of these, before and after. */
    readonly from: number
    readonly to: number
    /** Sent as they are, because there was no room. */
    readonly refused: number
  }
}
type Receiver = {
  /** Who pays for it. */
  readonly address: () => string
  readonly request: Pick<IncomingMessage, 'headers'>
  readonly response: { readonly destroyed: boolean }
  /** Those of the answer beside its own. */
  readonly headers: OutgoingHttpHeaders
}

/** Node has four threads, which its files need too. */
const AT_ONCE = 2

/** In the order in which they are taken where a client has no wish: the least work for what they save, on hex in JSON (2026-11). */
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
  /** A part cannot be compressed, which no client can cause. */
  readonly onBug: (error: unknown) => void
}

export function createEncoding(
  { compressFromBytes, compressingBytes }: EncodingLimits,
  { limiter, onBug }: EncodingOptions,
): Encoding {
  /** Bounded by their bytes. */
  const waiting = createFifo<() => void>()
  let running = 0
  let bytes = 0
  const stats = { answers: 0, from: 0, to: 0, refused: 0 }

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
    answer: Answer,
    {
      coding,
      length,
      to,
    }: { readonly coding: string; readonly length: number; readonly to: Receiver },
  ): Promise<Answer> {
    const headers = { ...answer.headers, vary: varyOf(to.headers) }
    bytes += length
    try {
      const parts = await inTurn(() => compress(answer, CODINGS.get(coding)!(), to.response))
      if (parts === undefined) return answer
      const points = Math.floor(length / POINT_COMPRESSED_BYTES)
      if (points > 0) limiter.owe(to.address(), points)
      stats.answers++
      stats.from += length
      for (const part of parts) stats.to += part.length
      return new LargeAnswer(parts, { ...headers, 'content-encoding': coding })
    } catch (error) {
      onBug(error)
      return answer
    } finally {
      bytes -= length
    }
  }

  return {
    encode(answer, to) {
      if (compressFromBytes === 0 || answer.status !== 200) return undefined
      const length = lengthOf(answer)
      if (length < compressFromBytes) return undefined
      const coding = codingOf(to.request.headers['accept-encoding'])
      if (coding === undefined) return undefined
      if (bytes + length > compressingBytes) {
        stats.refused++
        return undefined
      }
      return encoded(answer, { coding, length, to })
    },
    stats,
  }
}

/** undefined: nobody waits for it any more. */
async function compress(
  answer: Answer,
  stream: Transform,
  response: Receiver['response'],
): Promise<readonly Uint8Array[] | undefined> {
  const parts: Uint8Array[] = []
  let isLeft = false
  function* pieces(): Generator<Uint8Array, void> {
    for (const piece of bytesOf(answer.parts ?? [answer.text ?? ''])) {
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

/** A turn of the event loop each: no piece takes long to be copied. */
function* bytesOf(parts: readonly Part[]): Generator<Uint8Array, void> {
  for (const part of parts)
    if (typeof part !== 'string') yield part
    else
      for (let from = 0; from < part.length; from += LARGE)
        yield Buffer.from(part.slice(from, from + LARGE), 'utf8')
}

/** The text of what has parts is made when it is looked at. */
const lengthOf = (answer: Answer): number =>
  answer.parts === undefined
    ? (answer.text?.length ?? 0)
    : answer.parts.reduce((sum, { length }) => sum + length, 0)

/** What the client likes best of ours; undefined: it takes none of them. */
function codingOf(accepted: string | undefined): string | undefined {
  if (accepted === undefined) return undefined
  const weights = new Map<string, number>()
  for (const one of accepted.split(',')) {
    const [name, ...parameters] = one.split(';').map((part) => part.trim().toLowerCase())
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
    weights.set(name!, weight === undefined ? 1 : Number(weight) || 0)
  }
  let best: string | undefined
  let most = 0
  for (const name of CODINGS.keys()) {
    const weight = weights.get(name) ?? weights.get('*') ?? 0
    if (weight > most) [best, most] = [name, weight]
  }
  return best
}

/** The answer depends on what was asked for, beside what it depended on before. */
function varyOf({ vary }: OutgoingHttpHeaders): string {
  return vary === undefined ? 'Accept-Encoding' : `${String(vary)}, Accept-Encoding`
}
