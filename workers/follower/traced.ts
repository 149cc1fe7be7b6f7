/**
 * Prefetches state of a canonical block without flashblocks. One trace of the upstream names all
 * keys and replaces several rounds of fetches.
 */

import type { Hex } from '../../engine/primitives/bytes.ts'
import { createTracer, type Tracer } from '../../engine/sources/lazy/trace.ts'
import type { Upstream } from '../../engine/sources/upstream/client.ts'
import type { MissingKey } from '../../engine/state/reader.ts'

export interface Traced {
  sent(number: number, hash: Hex): void
  /**
   * Adds the block's further keys, once for each block; returns the keys alone if no trace is
   * available.
   */
  with(keys: readonly MissingKey[], number: number): Promise<readonly MissingKey[]>
}

const MAX_SENT = 512
/** Maximum number of keys in one fetch, including the requested ones. */
const MAX_KEYS = 1_000
const WITHIN_MS = 3_000

/** @param upstreams returns usable upstreams, the best first */
export function createTraced(upstreams: () => readonly Upstream[]): Traced {
  const sent = new Map<number, Hex>()
  const tracers = new Map<string, Tracer>()
  const tracerOf = (upstream: Upstream): Tracer => {
    const known = tracers.get(upstream.name) ?? createTracer(upstream)
    tracers.set(upstream.name, known)
    return known
  }
  return {
    sent(number, hash) {
      sent.set(number, hash)
      if (sent.size > MAX_SENT) sent.delete(sent.keys().next().value!)
    },
    async with(keys, number) {
      const hash = sent.get(number)
      const [first] = upstreams()
      if (hash === undefined || first === undefined) return keys
      // Keys that are missing later are not in the trace, so a second trace would not help.
      sent.delete(number)
      const max = MAX_KEYS - keys.length
      const more = await tracerOf(first).keysOf(hash, max, { withinMs: WITHIN_MS })
      return more === undefined ? keys : [...keys, ...more]
    },
  }
}
