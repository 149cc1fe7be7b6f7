/**
 * Client of a node for commands: sends requests in batches, limits their rate, and retries when the
 * node is busy.
 */
import type { Upstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../engine/sources/upstream/limits.ts'
import { openUpstream } from '../../follower/upstreams.ts'

export type RpcCall = { readonly method: string; readonly params: readonly unknown[] }
export type Replied =
  | { readonly result: unknown }
  | {
      readonly error: { readonly code: number; readonly message: string; readonly data?: unknown }
    }

export interface RpcClient {
  readonly name: string
  /**
   * Replies come in the order of the requests.
   * @throws {UpstreamError} if the node does not respond
   */
  request(questions: readonly RpcCall[]): Promise<readonly Replied[]>
  /** @throws {UpstreamError} also if the response is an error */
  one(method: string, params: readonly unknown[]): Promise<unknown>
  close(): void
}

/** A trace of a full block takes long. */
const CALL_MS = 60_000
/** The client gives up after this many refusals by rate limits. */
const MAX_REFUSALS = 20
const MIN_BACKOFF_MS = 1_000

/** @param rate requests a second */
export function openRpcClient(url: string, rate = Number.POSITIVE_INFINITY): RpcClient {
  const upstream = openUpstream(url, { ...DEFAULT_UPSTREAM_LIMITS, upstreamCallMs: CALL_MS })
  let freeAt = performance.now()

  async function request(questions: readonly RpcCall[]): Promise<readonly Replied[]> {
    const replies: Replied[] = []
    for (let refusals = 0; replies.length < questions.length; ) {
      const left = questions.slice(replies.length)
      await pause(freeAt - performance.now())
      freeAt = Math.max(freeAt, performance.now()) + (1_000 * left.length) / rate
      const found = await settled(upstream, left)
      replies.push(...found.replies)
      if (found.backoffMs === undefined) continue
      if (++refusals > MAX_REFUSALS)
        throw new UpstreamError(
          'limited',
          `${upstream.name} refuses further requests (429): give a lower --rate`,
        )
      await pause(Math.max(MIN_BACKOFF_MS, found.backoffMs))
    }
    return replies
  }
  return {
    name: upstream.name,
    request,
    one: async (method, params) => {
      const [reply] = await request([{ method, params }])
      if (reply !== undefined && 'result' in reply) return reply.result
      const { code, message } = reply!.error
      throw new UpstreamError('refused', `${upstream.name}: ${method}: ${code} ${message}`)
    },
    close: () => upstream.close(),
  }
}

/**
 * Returns the replies before the first refusal by a rate limit, and the backoff of that refusal.
 * @throws {UpstreamError}
 */
async function settled(
  upstream: Upstream,
  questions: readonly RpcCall[],
): Promise<{ readonly replies: readonly Replied[]; readonly backoffMs: number | undefined }> {
  const replies: Replied[] = []
  for (const response of await batched(upstream, questions)) {
    if ('result' in response) replies.push({ result: response.result })
    else if (response.error.kind === 'limited')
      return { replies, backoffMs: response.error.retryAfterMs }
    else if (response.error.fault !== undefined) replies.push({ error: response.error.fault })
    else throw response.error
  }
  return { replies, backoffMs: undefined }
}

async function batched(upstream: Upstream, questions: readonly RpcCall[]) {
  try {
    return await upstream.batch(questions)
  } catch (error) {
    if (error instanceof UpstreamError && error.kind === 'limited') return [{ error }]
    throw error
  }
}

const pause = (ms: number): Promise<void> =>
  ms <= 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, ms))
