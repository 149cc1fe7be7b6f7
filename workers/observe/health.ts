/**
 * Readiness of this node: a head is known, a read went through the pool, and the canonical head
 * moves.
 */
import { openSuspicion, type Suspicion } from '../../engine/sources/suspicion.ts'
import type { StateMode } from '../../rpc/core/ports.ts'
import type { Readiness } from '../../rpc/http/server-state.ts'

export type HealthOptions = {
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Maximum time between two canonical heads; undefined means that the head need not move. */
  readonly headMs: number | undefined
  /**
   * Maximum silence of the feed before the node counts as degraded; undefined when there is no
   * feed.
   */
  readonly feedMs: number | undefined
  /** Trust in the state of a node that follows others; undefined leaves it out. */
  readonly mode?: StateMode | undefined
  /** Reads state through the pool. It rejects or never settles when the pool cannot answer. */
  readonly probe: () => Promise<void>
  /** State of the source of blocks, once there is one. */
  readonly source?: () => SourceState | undefined
}

export type SourceState = {
  /** Everything is answered, and an operator should look. */
  readonly degraded: readonly Suspicion[]
  /** The node does not follow the chain. */
  readonly unready: readonly Suspicion[]
  /** An operator has paused the chain: the head need not move, and the feed may be silent. */
  readonly isStanding?: boolean
  /** Milliseconds since the newest frame of any feed; left out when unknown. */
  readonly feedSilentMs?: number | undefined
  /** Further keys of the response. */
  readonly details: Readonly<Record<string, unknown>>
}

/** `outside` has the reasons in a form for the public. */
export type ReportedReadiness = Readiness & { readonly outside: readonly string[] }

export interface Health {
  /**
   * Records a publish.
   * @param canonical height of the canonical head
   * @param isFlashblock the publish made an executed flashblock visible; canonical blocks alone
   * prove no working feed
   * @returns whether the canonical head has changed
   */
  published(canonical: number, pending: number, isFlashblock: boolean): boolean
  /** Records that canonical progress stopped, until the canonical head moves again. */
  halted(why: Suspicion): void
  /** Records that nothing can be written any more; this is final. */
  failed(why: Suspicion): void
  readonly isServing: boolean
  /** The node is stopping, so clients should use another one. */
  readonly isStopping: boolean
  /** Starts to answer requests, until `stopping`. */
  started(): void
  stopping(): void
  /**
   * Sends a read through the pool now; undefined means that it was answered, a text is the error.
   */
  probe(): Promise<string | undefined>
  /**
   * @param maxLagMs maximum time without an expected flashblock or canonical block, before the node
   * is unready; a missing value disables the check
   */
  readiness(maxLagMs?: number): ReportedReadiness
}

const PROBE_MS = 10_000

export const createHealth = (options: HealthOptions): Health => new NodeHealth(options)

class NodeHealth implements Health {
  readonly #options: HealthOptions
  #phase: 'starting' | 'serving' | 'stopping' = 'starting'
  #canonical: number | undefined
  #pending = 0
  #movedAt: number
  #flashblockAt: number
  #halt: Suspicion | undefined
  #failure: Suspicion | undefined
  #probed: { readonly at: number; readonly problem: string | undefined } | undefined
  #probing: Promise<string | undefined> | undefined

  constructor(options: HealthOptions) {
    this.#options = options
    this.#movedAt = options.now()
    this.#flashblockAt = options.now()
  }

  published(canonical: number, pending: number, isFlashblock: boolean): boolean {
    const now = this.#options.now()
    const hasMoved = canonical !== this.#canonical
    if (hasMoved) {
      this.#movedAt = now
      this.#halt = undefined
    }
    this.#canonical = canonical
    this.#pending = pending
    if (isFlashblock) this.#flashblockAt = now
    return hasMoved
  }
  halted(why: Suspicion): void {
    this.#halt = why
  }
  failed(why: Suspicion): void {
    this.#failure ??= why
  }

  get isServing(): boolean {
    return this.#phase === 'serving'
  }
  get isStopping(): boolean {
    return this.#phase === 'stopping'
  }
  started(): void {
    this.#phase = 'serving'
    /*
     * The deadlines of head and feed count from here, because a start may take long on a busy
     * machine.
     */
    this.#movedAt = this.#options.now()
    this.#flashblockAt = this.#movedAt
  }
  stopping(): void {
    this.#phase = 'stopping'
  }

  probe(): Promise<string | undefined> {
    this.#probing ??= this.#options
      .probe()
      .then(
        () => undefined,
        (error: Error) => error.message,
      )
      .then((problem) => {
        this.#probed = { at: this.#options.now(), problem }
        this.#probing = undefined
        return problem
      })
    return this.#probing
  }

  readiness(maxLagMs?: number): ReportedReadiness {
    const { mode, source } = this.#options
    const said = source?.()
    const isStanding = said?.isStanding === true
    const late = maxLagMs === undefined ? [] : this.#lateness(maxLagMs, isStanding)
    const why = [...this.#reasons(isStanding), ...late, ...(said?.unready ?? [])]
    const silence = isStanding ? [] : this.#silence(said?.feedSilentMs)
    const suspicions = [...silence, ...(said?.degraded ?? [])]
    const all = [...why, ...suspicions]
    return {
      status: why.length > 0 ? 'unready' : suspicions.length > 0 ? 'degraded' : 'ready',
      reasons: all.map(({ text }) => text),
      outside: all.map(({ outside }) => outside),
      details: {
        canonical: this.#canonical ?? null,
        pending: this.#pending,
        ...(mode === undefined ? {} : { mode }),
        ...said?.details,
      },
    }
  }

  /**
   * Frames that arrive without becoming visible do not count as silence: they wait for canonical
   * blocks, or are refused.
   */
  #silence(feedSilentMs: number | undefined): Suspicion[] {
    const { now, feedMs } = this.#options
    const silentMs = now() - this.#flashblockAt
    if (feedMs === undefined || silentMs <= feedMs) return []
    if (feedSilentMs === undefined || feedSilentMs > feedMs)
      return [openSuspicion(`the feed is silent for ${seconds(feedSilentMs ?? silentMs)}`)]
    const standsMs = now() - this.#movedAt
    const why =
      standsMs > feedMs
        ? `they are too far ahead of canonical block ${this.#canonical}, which has stood for ${seconds(standsMs)}`
        : `none of them goes on from canonical block ${this.#canonical}`
    const text = `no flashblock was shown for ${seconds(silentMs)}: frames come, the newest ${seconds(feedSilentMs)} ago, and ${why}`
    return [openSuspicion(text)]
  }

  #lateness(maxLagMs: number, isStanding: boolean): Suspicion[] {
    const { now, headMs, feedMs } = this.#options
    if (isStanding || (headMs === undefined && feedMs === undefined)) return []
    const lagMs = now() - Math.max(this.#movedAt, this.#flashblockAt)
    if (lagMs <= maxLagMs) return []
    const text = `nothing new was published for ${seconds(lagMs)}, and ${maxLagMs} ms may pass`
    return [openSuspicion(text)]
  }

  #reasons(isStanding: boolean): Suspicion[] {
    const { now, headMs } = this.#options
    const found: Suspicion[] = []
    const open = (text: string) => void found.push(openSuspicion(text))
    const at = now()
    if (this.#phase !== 'serving') open(this.#phase)
    if (this.#canonical === undefined) open('no head is known yet')
    if (this.#failure !== undefined) found.push(this.#failure)
    else if (this.#halt !== undefined) found.push(this.#halt)
    const probed = this.#probed
    if (probed === undefined) open('no read went through the pool yet')
    else if (probed.problem !== undefined) {
      const outside = 'a read through the pool failed'
      found.push({ text: `${outside}: ${probed.problem}`, outside })
    } else if (at - probed.at > 3 * PROBE_MS) open('no read went through the pool lately')
    const standsMs = at - this.#movedAt
    const shallMove = headMs !== undefined && this.#canonical !== undefined && !isStanding
    if (shallMove && standsMs > headMs)
      open(`the canonical head ${this.#canonical} has not moved for ${seconds(standsMs)}`)
    return found
  }
}

const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`

/** Interval of the probes of the pool. */
export const HEALTH_PROBE_MS = PROBE_MS
