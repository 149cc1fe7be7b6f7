/**
 * HTTP client of the copied node: retries, respects its backoff, and sends the token only over a
 * safe connection.
 */
import { lookup } from 'node:dns/promises'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { type Chunk, ChunkError, decodeChunk } from '../../../engine/storage/bootstrap/chunk.ts'
import {
  type CopyRequest,
  writeCopyRequest,
} from '../../../engine/storage/bootstrap/copy-request.ts'
import { BootstrapError } from '../../../engine/storage/bootstrap/progress.ts'
import { reasonOf } from '../../../rpc/forwarding/failures.ts'
import { BOOTSTRAP_HEADER } from '../../../rpc/http/upgrades.ts'
import { isPrivate } from '../../../rpc/limiter/address.ts'

export interface SourceClient {
  /** URL without its secrets. */
  readonly name: string
  /**
   * `take` gets the response, and a further response if it throws a {ChunkError}.
   * @throws {BootstrapError} {StoppedError}
   */
  request<T>(request: CopyRequest, take: (chunk: Chunk) => T): Promise<T>
  readonly came: () => { readonly bytes: number; readonly responses: number }
}

export type SourceClientOptions = {
  readonly url: URL
  readonly token: string
  /** Name of the copy at the node. */
  readonly by: string
  /** Duration of retries while the node does not respond. */
  readonly retryMs: number
  readonly isStopped: () => boolean
  readonly report: (text: string) => void
}

/** A signal arrived while the node did not respond. */
export class StoppedError extends Error {
  override name = 'StoppedError'
}

/** Limits of one response, compressed and uncompressed. Only its gas limits the size of a block. */
const MAX_BYTES = 128 * 2 ** 20
const MAX_RAW_BYTES = 256 * 2 ** 20
const RESPONSE_MS = 60_000
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 5_000

export function openSourceClient(options: SourceClientOptions): SourceClient {
  const { url, retryMs, isStopped } = options
  const name = url.origin
  const came = { bytes: 0, responses: 0 }
  const pause = async (ms: number) => {
    for (let left = ms; left > 0 && !isStopped(); left -= FIRST_PAUSE_MS)
      await new Promise((resolve) => setTimeout(resolve, Math.min(left, FIRST_PAUSE_MS)))
    if (isStopped()) throw new StoppedError('stopped')
  }

  /** @throws {BootstrapError} {ChunkError} */
  async function bytesOf(request: CopyRequest): Promise<Bytes> {
    const until = performance.now() + retryMs
    for (let ms = FIRST_PAUSE_MS; ; ms = Math.min(2 * ms, LONGEST_PAUSE_MS)) {
      const said = await exchange(options, request)
      if ('bytes' in said) return said.bytes
      if (said.isFinal) throw new BootstrapError(said.reason)
      if (performance.now() + ms > until)
        throw new BootstrapError(
          `${said.reason}; the copied data is retained: run the same command again to continue`,
        )
      options.report(`${said.reason}; retrying`)
      await pause(Math.max(ms, said.backoffMs))
    }
  }

  return {
    name,
    came: () => came,
    async request(request, take) {
      for (let attempt = 1; ; attempt++)
        try {
          const bytes = await bytesOf(request)
          came.bytes += bytes.length
          came.responses++
          return take(decodeChunk(bytes, MAX_RAW_BYTES))
        } catch (error) {
          if (!(error instanceof ChunkError)) throw error
          if (attempt === 2)
            throw new BootstrapError(
              `${name} sent invalid data twice: ${error.message}; check that node (\`flashnode verify\`), or copy another one`,
            )
          options.report(`${name} sent invalid data: ${error.message}; retrying once`)
        }
    },
  }
}

type Said =
  | { readonly bytes: Bytes }
  | { readonly reason: string; readonly isFinal: boolean; readonly backoffMs: number }

const later = (reason: string, backoffMs = 0): Said => ({ reason, isFinal: false, backoffMs })
const never = (reason: string): Said => ({ reason, isFinal: true, backoffMs: 0 })

async function exchange(
  { url, token, by }: SourceClientOptions,
  request: CopyRequest,
): Promise<Said> {
  const target = new URL('/bootstrap', url.origin)
  target.search = `${writeCopyRequest(request)}&by=${by}`
  let response: Response
  try {
    if (target.protocol === 'http:' && !(await isPrivateHost(target.hostname)))
      return never(
        `${url.origin} is a public address without TLS, so others could read the token: give an https:// URL`,
      )
    response = await fetch(target, {
      headers: { [BOOTSTRAP_HEADER]: token },
      redirect: 'error',
      signal: AbortSignal.timeout(RESPONSE_MS),
    })
    const bytes = await bytesWithin(response)
    if (response.ok) return { bytes }
    return refusalOf(url.origin, response, Buffer.from(bytes).toString().trim().slice(0, 300))
  } catch (error) {
    if (error instanceof ChunkError) throw error
    return later(`${url.origin} does not answer: ${reasonOf(error)}`)
  }
}

function refusalOf(origin: string, { status, headers }: Response, text: string): Said {
  const retryAfter = Number(headers.get('retry-after'))
  if (status === 429 || status >= 500)
    return later(
      `${origin} answers ${status}: ${text}`,
      retryAfter > 0 && retryAfter < 3_600 ? 1_000 * retryAfter : 0,
    )
  if (status === 404)
    return never(
      `${origin} allows no copies (404): start that node with --bootstrap-token-file FILE`,
    )
  const advice = status === 401 ? ': give its --bootstrap-token-file as --token-file' : ''
  return never(`${origin} refuses the copy with ${status}: ${text}${advice}`)
}

/** @throws {ChunkError} if the response exceeds the limit */
async function bytesWithin({ body }: Response): Promise<Bytes> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of body ?? []) {
    bytes += piece.length
    if (bytes > MAX_BYTES) throw new ChunkError(`it is longer than ${MAX_BYTES} bytes`)
    pieces.push(piece)
  }
  const full = new Uint8Array(bytes)
  let at = 0
  for (const piece of pieces) {
    full.set(piece, at)
    at += piece.length
  }
  return full
}

/** True if every address of the host is private. */
async function isPrivateHost(host: string): Promise<boolean> {
  const found = await lookup(host.replace(/^\[|\]$/g, ''), { all: true })
  return found.every(({ address }) => isPrivate(address))
}
