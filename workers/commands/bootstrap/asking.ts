/** The node that is copied, asked over HTTP: again while it does not answer, later where it says so, never with the token in the clear. */
import { lookup } from 'node:dns/promises'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { type Asked, writeAsked } from '../../../engine/storage/bootstrap/asked.ts'
import { type Chunk, ChunkError, decodeChunk } from '../../../engine/storage/bootstrap/chunk.ts'
import { BootstrapError } from '../../../engine/storage/bootstrap/fault.ts'
import { BOOTSTRAP_HEADER } from '../../../rpc/http/upgrades.ts'
import { reasonOf } from '../../../rpc/legacy/failures.ts'
import { isPrivate } from '../../../rpc/seam/address.ts'

export interface AskedNode {
  /** Without what is secret in its URL. */
  readonly name: string
  /**
   * `take` is called with what came, and once more with another answer where it throws a {ChunkError}.
   * @throws {BootstrapError} {StoppedError}
   */
  ask<T>(asked: Asked, take: (chunk: Chunk) => T): Promise<T>
  /** Bytes that came, and answers. */
  readonly came: () => { readonly bytes: number; readonly answers: number }
}

export type AskingOptions = {
  readonly url: URL
  readonly token: string
  /** Which copy it is, there. */
  readonly by: string
  /** How long a node that does not answer is asked again. */
  readonly retryMs: number
  readonly isStopped: () => boolean
  readonly tell: (text: string) => void
}

/** A signal came while the node did not answer. */
export class StoppedError extends Error {
  override name = 'StoppedError'
}

/** Of one answer: as it comes, and unpacked. A block has no bound of its own but the gas that it may use. */
const MOST_BYTES = 128 * 2 ** 20
const MOST_RAW_BYTES = 256 * 2 ** 20
const ANSWER_MS = 60_000
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 5_000

export function openAskedNode(options: AskingOptions): AskedNode {
  const { url, retryMs, isStopped } = options
  const name = url.origin
  const came = { bytes: 0, answers: 0 }
  const pause = async (ms: number) => {
    for (let left = ms; left > 0 && !isStopped(); left -= FIRST_PAUSE_MS)
      await new Promise((resolve) => setTimeout(resolve, Math.min(left, FIRST_PAUSE_MS)))
    if (isStopped()) throw new StoppedError('stopped')
  }

  /** @throws {BootstrapError} {ChunkError} */
  async function bytesOf(asked: Asked): Promise<Bytes> {
    const until = performance.now() + retryMs
    for (let ms = FIRST_PAUSE_MS; ; ms = Math.min(2 * ms, LONGEST_PAUSE_MS)) {
      const said = await exchange(options, asked)
      if ('bytes' in said) return said.bytes
      if (said.isFinal) throw new BootstrapError(said.reason)
      if (performance.now() + ms > until)
        throw new BootstrapError(
          `${said.reason}; what is here stays: the same command goes on where it was`,
        )
      options.tell(`${said.reason}; asking again`)
      await pause(Math.max(ms, said.restMs))
    }
  }

  return {
    name,
    came: () => came,
    async ask(asked, take) {
      for (let attempt = 1; ; attempt++)
        try {
          const bytes = await bytesOf(asked)
          came.bytes += bytes.length
          came.answers++
          return take(decodeChunk(bytes, MOST_RAW_BYTES))
        } catch (error) {
          if (!(error instanceof ChunkError)) throw error
          if (attempt === 2)
            throw new BootstrapError(
              `what ${name} sent was wrong twice: ${error.message}; look at that node (\`flashnode verify\`), or copy another one`,
            )
          options.tell(`what ${name} sent is wrong: ${error.message}; asking once more`)
        }
    },
  }
}

type Said =
  | { readonly bytes: Bytes }
  | { readonly reason: string; readonly isFinal: boolean; readonly restMs: number }

const later = (reason: string, restMs = 0): Said => ({ reason, isFinal: false, restMs })
const never = (reason: string): Said => ({ reason, isFinal: true, restMs: 0 })

async function exchange({ url, token, by }: AskingOptions, asked: Asked): Promise<Said> {
  const target = new URL('/bootstrap', url.origin)
  target.search = `${writeAsked(asked)}&by=${by}`
  let response: Response
  try {
    if (target.protocol === 'http:' && !(await isNear(target.hostname)))
      return never(
        `${url.origin} is no private address: give https://, the token would be read on the way`,
      )
    response = await fetch(target, {
      headers: { [BOOTSTRAP_HEADER]: token },
      redirect: 'error',
      signal: AbortSignal.timeout(ANSWER_MS),
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
  const rest = Number(headers.get('retry-after'))
  if (status === 429 || status >= 500)
    return later(`${origin} says ${status}: ${text}`, rest > 0 && rest < 3_600 ? 1_000 * rest : 0)
  if (status === 404)
    return never(`${origin} is copied by nobody (404): start it with --bootstrap-token-file FILE`)
  const advice = status === 401 ? ': give its --bootstrap-token-file as --token-file' : ''
  return never(`${origin} refuses with ${status}: ${text}${advice}`)
}

/** @throws {ChunkError} for more than is read */
async function bytesWithin({ body }: Response): Promise<Bytes> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of body ?? []) {
    bytes += piece.length
    if (bytes > MOST_BYTES) throw new ChunkError(`it is longer than ${MOST_BYTES} bytes`)
    pieces.push(piece)
  }
  const whole = new Uint8Array(bytes)
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

/** Every address that the name has. */
async function isNear(host: string): Promise<boolean> {
  const found = await lookup(host.replace(/^\[|\]$/g, ''), { all: true })
  return found.every(({ address }) => isPrivate(address))
}
