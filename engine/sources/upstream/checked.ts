/**
 * An upstream that receives no calls before its chain is checked, and none after a foreign chain is
 * found.
 */
import type { Upstream } from './client.ts'
import { UpstreamError } from './error.ts'
import type { CallOptions } from './messages.ts'

/**
 * Wraps an upstream. Its chain is checked before the first call, and after failures and lost
 * connections, because another node may answer then. If the check fails, the call fails as
 * `unreachable`, because it never left.
 * @param foreignness says what is wrong with the chain; undefined: nothing
 */
export function checkedUpstream(
  upstream: Upstream,
  foreignness: (options: CallOptions) => Promise<string | undefined>,
): Upstream {
  let foreign: string | undefined
  /** Lost connections at the last check; undefined: a check is due. */
  let checkedAt: number | undefined

  /** @throws {UpstreamError} */
  async function check(options: CallOptions): Promise<void> {
    const connections = upstream.lostConnections
    if (foreign === undefined && checkedAt !== connections) {
      foreign = (await withUpstreamError(foreignness(options))) ?? foreign
      checkedAt = connections
    }
    if (foreign !== undefined) throw new UpstreamError('foreign', foreign)
  }

  async function request<T>(options: CallOptions, call: () => Promise<T>): Promise<T> {
    await check(options)
    try {
      return await call()
    } catch (error) {
      if (error instanceof UpstreamError && LOST.has(error.kind)) checkedAt = undefined
      throw error
    }
  }

  const { name, watchHeads } = upstream
  return {
    name,
    call: (method, params, options = {}) =>
      request(options, () => upstream.call(method, params, options)),
    batch: (calls, options = {}) => request(options, () => upstream.batch(calls, options)),
    watchHeads: watchHeads && ((listener) => request({}, () => watchHeads(listener))),
    get isWatching() {
      return upstream.isWatching
    },
    get lostConnections() {
      return upstream.lostConnections
    },
    close: () => upstream.close(),
  }
}

/** Failures after which another node may have the address. */
const LOST: ReadonlySet<string> = new Set(['unreachable', 'broken', 'silent'])

async function withUpstreamError<T>(check: Promise<T>): Promise<T> {
  try {
    return await check
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.kind === 'limited') throw error
    throw new UpstreamError('unreachable', error.message)
  }
}
