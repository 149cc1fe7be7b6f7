/** An upstream that is asked nothing before it has shown its chain, and nothing ever after it has shown another one. */
import type { Upstream } from './client.ts'
import { UpstreamError } from './error.ts'
import type { CallOptions } from './transport.ts'

/**
 * The chain is looked at before the first call and again after each failure or lost connection, because another node may answer then.
 * A call that the look prevents fails as `unreachable`: it never left.
 * @param foreignness says what is wrong with the chain, or undefined where nothing is
 */
export function checkedUpstream(
  upstream: Upstream,
  foreignness: (options: CallOptions) => Promise<string | undefined>,
): Upstream {
  let foreign: string | undefined
  /** Connections that were lost when the chain was last looked at; undefined: it has to be looked at. */
  let checkedAt: number | undefined

  /** @throws {UpstreamError} */
  async function check(options: CallOptions): Promise<void> {
    const connections = upstream.lostConnections
    if (foreign === undefined && checkedAt !== connections) {
      foreign = (await answered(foreignness(options))) ?? foreign
      checkedAt = connections
    }
    if (foreign !== undefined) throw new UpstreamError('foreign', foreign)
  }

  async function ask<T>(options: CallOptions, call: () => Promise<T>): Promise<T> {
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
      ask(options, () => upstream.call(method, params, options)),
    batch: (calls, options = {}) => ask(options, () => upstream.batch(calls, options)),
    watchHeads: watchHeads && ((listener) => ask({}, () => watchHeads(listener))),
    get isWatching() {
      return upstream.isWatching
    },
    get lostConnections() {
      return upstream.lostConnections
    },
    close: () => upstream.close(),
  }
}

/** After these another node may have taken the address. */
const LOST: ReadonlySet<string> = new Set(['unreachable', 'broken', 'silent'])

async function answered<T>(look: Promise<T>): Promise<T> {
  try {
    return await look
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.kind === 'limited') throw error
    throw new UpstreamError('unreachable', error.message)
  }
}
