/** Whether this node can answer: a head is known, a read went through the pool, the canonical head moves. */
import type { Readiness } from '../../rpc/http/server.ts'

export type HealthOptions = {
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Longest time between two canonical heads; undefined: the head need not move. */
  readonly headMs: number | undefined
  /** Longest silence of the feed before the node counts as degraded; undefined: there is no feed. */
  readonly feedMs: number | undefined
  /** A state read through the pool. Rejects, or never settles, when the pool cannot answer. */
  readonly probe: () => Promise<void>
}

export interface Health {
  /** A publish: `canonical` is the height of its canonical head. */
  published(canonical: number, pending: number): void
  /** Canonical progress stopped, until the canonical head moves again. */
  halted(message: string): void
  /** Nothing will be written any more; for good. */
  failed(message: string): void
  /** Whether requests are answered. */
  readonly isServing: boolean
  /** Requests are answered from now on, until `stopping`. */
  started(): void
  stopping(): void
  /** Asks the pool now; gives what went wrong, undefined when it has answered. */
  probe(): Promise<string | undefined>
  readiness(): Readiness
}

const PROBE_MS = 10_000

export function createHealth(options: HealthOptions): Health {
  const { now, headMs, feedMs } = options
  let canonical: number | undefined
  let pending = 0
  let movedAt = now()
  let publishedAt = now()
  let halt: string | undefined
  let failure: string | undefined
  let phase: 'starting' | 'serving' | 'stopping' = 'starting'
  let probed: { readonly at: number; readonly problem: string | undefined } | undefined
  let probing: Promise<string | undefined> | undefined

  function reasons(): string[] {
    const found: string[] = []
    const at = now()
    if (phase !== 'serving') found.push(phase)
    if (canonical === undefined) found.push('no head is known yet')
    if (failure !== undefined) found.push(failure)
    else if (halt !== undefined) found.push(halt)
    if (probed === undefined) found.push('no read went through the pool yet')
    else if (probed.problem !== undefined)
      found.push(`a read through the pool failed: ${probed.problem}`)
    else if (at - probed.at > 3 * PROBE_MS) found.push('no read went through the pool lately')
    if (headMs !== undefined && canonical !== undefined && at - movedAt > headMs)
      found.push(`the canonical head ${canonical} has not moved for ${seconds(at - movedAt)}`)
    return found
  }
  return {
    published(newCanonical, newPending) {
      if (newCanonical !== canonical) {
        movedAt = now()
        halt = undefined
      }
      canonical = newCanonical
      pending = newPending
      publishedAt = now()
    },
    halted(message) {
      halt = message
    },
    failed(message) {
      failure ??= message
    },
    get isServing() {
      return phase === 'serving'
    },
    started() {
      phase = 'serving'
      // A start may take long on a busy machine: only from here on the head and the feed have to move.
      movedAt = now()
      publishedAt = now()
    },
    stopping() {
      phase = 'stopping'
    },
    probe() {
      probing ??= options
        .probe()
        .then(
          () => undefined,
          (error: Error) => error.message,
        )
        .then((problem) => {
          probed = { at: now(), problem }
          probing = undefined
          return problem
        })
      return probing
    },
    readiness() {
      const why = reasons()
      const silentMs = now() - publishedAt
      const isSilent = feedMs !== undefined && silentMs > feedMs
      const silence = isSilent ? [`the feed is silent for ${seconds(silentMs)}`] : []
      return {
        status: why.length > 0 ? 'unready' : isSilent ? 'degraded' : 'ready',
        reasons: [...why, ...silence],
        details: { canonical: canonical ?? null, pending },
      }
    },
  }
}

const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`

/** How often the pool is asked. */
export const HEALTH_PROBE_MS = PROBE_MS
