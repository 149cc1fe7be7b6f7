/** Nodes that a command asks: many questions in batches, no more of them a second than it may, asked again where a node wants to be left alone. */
import type { Upstream } from '../../../engine/sources/upstream/client.ts'
import { UpstreamError } from '../../../engine/sources/upstream/error.ts'
import { DEFAULT_UPSTREAM_LIMITS } from '../../../engine/sources/upstream/limits.ts'
import { openUpstream } from '../../follower/upstreams.ts'

export type Asked = { readonly method: string; readonly params: readonly unknown[] }
export type Replied =
  | { readonly result: unknown }
  | {
      readonly error: { readonly code: number; readonly message: string; readonly data?: unknown }
    }

export interface Asking {
  readonly name: string
  /** In the order of the questions. @throws {UpstreamError} where it gives no answer at all */
  ask(questions: readonly Asked[]): Promise<readonly Replied[]>
  /** @throws {UpstreamError} for an error too */
  one(method: string, params: readonly unknown[]): Promise<unknown>
  close(): void
}

/** A trace of a whole block takes its time. */
const CALL_MS = 60_000
/** Times that a node may say that it is asked too much. */
const MOST_REFUSALS = 20
const LEAST_REST_MS = 1_000

/** @param rate questions a second */
export function openAsking(url: string, rate = Number.POSITIVE_INFINITY): Asking {
  const upstream = openUpstream(url, { ...DEFAULT_UPSTREAM_LIMITS, upstreamCallMs: CALL_MS })
  let freeAt = performance.now()

  async function ask(questions: readonly Asked[]): Promise<readonly Replied[]> {
    const replies: Replied[] = []
    for (let refusals = 0; replies.length < questions.length; ) {
      const left = questions.slice(replies.length)
      await pause(freeAt - performance.now())
      freeAt = Math.max(freeAt, performance.now()) + (1_000 * left.length) / rate
      const found = await settled(upstream, left)
      replies.push(...found.replies)
      if (found.restMs === undefined) continue
      if (++refusals > MOST_REFUSALS)
        throw new UpstreamError('limited', `${upstream.name} answers no more: give a lower --rate`)
      await pause(Math.max(LEAST_REST_MS, found.restMs))
    }
    return replies
  }
  return {
    name: upstream.name,
    ask,
    one: async (method, params) => {
      const [reply] = await ask([{ method, params }])
      if (reply !== undefined && 'result' in reply) return reply.result
      const { code, message } = reply!.error
      throw new UpstreamError('refused', `${upstream.name}: ${method}: ${code} ${message}`)
    },
    close: () => upstream.close(),
  }
}

/** Up to the first that the node had no time for: then for how long it wants none. @throws {UpstreamError} */
async function settled(
  upstream: Upstream,
  questions: readonly Asked[],
): Promise<{ readonly replies: readonly Replied[]; readonly restMs: number | undefined }> {
  const replies: Replied[] = []
  for (const answer of await batched(upstream, questions)) {
    if ('result' in answer) replies.push({ result: answer.result })
    else if (answer.error.kind === 'limited') return { replies, restMs: answer.error.retryAfterMs }
    else if (answer.error.fault !== undefined) replies.push({ error: answer.error.fault })
    else throw answer.error
  }
  return { replies, restMs: undefined }
}

async function batched(upstream: Upstream, questions: readonly Asked[]) {
  try {
    return await upstream.batch(questions)
  } catch (error) {
    if (error instanceof UpstreamError && error.kind === 'limited') return [{ error }]
    throw error
  }
}

const pause = (ms: number): Promise<void> =>
  ms <= 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, ms))
