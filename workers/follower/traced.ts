/** A canonical block that no flashblocks came before: what it touches is asked of the upstream at once, instead of round by round. */

import type { Hex } from '../../engine/primitives/bytes.ts'
import { createTracer, type Tracer } from '../../engine/sources/lazy/trace.ts'
import type { Upstream } from '../../engine/sources/upstream/client.ts'
import type { MissingKey } from '../../engine/state/reader.ts'

export interface Traced {
  /** A block is on its way to the writer. */
  sent(number: number, hash: Hex): void
  /** What the block touches beside the keys, once for each block; the keys alone where nobody says. */
  with(keys: readonly MissingKey[], number: number): Promise<readonly MissingKey[]>
}

const MOST_SENT = 512
/** Of one fetch, with those that were asked for. */
const MOST_KEYS = 1_000
const WITHIN_MS = 3_000

/** @param upstreams the best first */
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
      if (sent.size > MOST_SENT) sent.delete(sent.keys().next().value!)
    },
    async with(keys, number) {
      const hash = sent.get(number)
      const [first] = upstreams()
      if (hash === undefined || first === undefined) return keys
      // What is missing after this is what the trace has not named.
      sent.delete(number)
      const most = MOST_KEYS - keys.length
      const more = await tracerOf(first).keysOf(hash, most, { withinMs: WITHIN_MS })
      return more === undefined ? keys : [...keys, ...more]
    },
  }
}
