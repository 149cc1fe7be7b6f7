/** Whether this node can answer: a head is known, a read went through the pool, the canonical head moves. */
import { type Doubt, openDoubt } from '../../engine/sources/doubt.ts'
import type { Readiness } from '../../rpc/http/state.ts'
import type { StateMode } from '../../rpc/seam/ports.ts'

export type HealthOptions = {
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Longest time between two canonical heads; undefined: the head need not move. */
  readonly headMs: number | undefined
  /** Longest silence of the feed before the node counts as degraded; undefined: there is no feed. */
  readonly feedMs: number | undefined
  /** What the state of a node that follows others is worth; undefined: nothing is said of it. */
  readonly mode?: StateMode | undefined
  /** A state read through the pool. Rejects, or never settles, when the pool cannot answer. */
  readonly probe: () => Promise<void>
  /** What the source of the blocks says of itself, once there is one. */
  readonly source?: () => SourceState | undefined
}

/** Of what a node follows. */
export type SourceState = {
  /** Everything is answered, and somebody should look. */
  readonly degraded: readonly Doubt[]
  /** It does not follow the chain. */
  readonly unready: readonly Doubt[]
  /** Somebody has said that its chain is to stand still: the head need not move, and the feed may be silent. */
  readonly isStanding?: boolean
  /** Milliseconds since the newest frame of any of its feeds; left out: nothing is known of them. */
  readonly feedSilentMs?: number | undefined
  /** Further keys of the answer. */
  readonly details: Readonly<Record<string, unknown>>
}

/** `outside`: the reasons as anybody may read them. */
export type ToldReadiness = Readiness & { readonly outside: readonly string[] }

export interface Health {
  /**
   * A publish: `canonical` is the height of its canonical head; whether it shows a flashblock that was just executed: canonical blocks
   * say nothing of the feed. True: another canonical head than before.
   */
  published(canonical: number, pending: number, isFlashblock: boolean): boolean
  /** Canonical progress stopped, until the canonical head moves again. */
  halted(why: Doubt): void
  /** Nothing will be written any more; for good. */
  failed(why: Doubt): void
  /** Whether requests are answered. */
  readonly isServing: boolean
  /** It ends: whoever asks shall ask another. */
  readonly isStopping: boolean
  /** Requests are answered from now on, until `stopping`. */
  started(): void
  stopping(): void
  /** Asks the pool now; gives what went wrong, undefined when it has answered. */
  probe(): Promise<string | undefined>
  /** @param maxLagMs without a new flashblock or canonical block, where one has to come: unready; left out: no matter */
  readiness(maxLagMs?: number): ToldReadiness
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
  #halt: Doubt | undefined
  #failure: Doubt | undefined
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
  halted(why: Doubt): void {
    this.#halt = why
  }
  failed(why: Doubt): void {
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
    // A start may take long on a busy machine: only from here on the head and the feed have to move.
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

  readiness(maxLagMs?: number): ToldReadiness {
    const { mode, source } = this.#options
    const said = source?.()
    const isStanding = said?.isStanding === true
    const late = maxLagMs === undefined ? [] : this.#lateness(maxLagMs, isStanding)
    const why = [...this.#reasons(isStanding), ...late, ...(said?.unready ?? [])]
    const silence = isStanding ? [] : this.#silence(said?.feedSilentMs)
    const doubts = [...silence, ...(said?.degraded ?? [])]
    const all = [...why, ...doubts]
    return {
      status: why.length > 0 ? 'unready' : doubts.length > 0 ? 'degraded' : 'ready',
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

  /** Frames that come and are not shown are no silence of the feed: they wait for canonical blocks, or are refused. */
  #silence(feedSilentMs: number | undefined): Doubt[] {
    const { now, feedMs } = this.#options
    const silentMs = now() - this.#flashblockAt
    if (feedMs === undefined || silentMs <= feedMs) return []
    if (feedSilentMs === undefined || feedSilentMs > feedMs)
      return [openDoubt(`the feed is silent for ${seconds(feedSilentMs ?? silentMs)}`)]
    const standsMs = now() - this.#movedAt
    const why =
      standsMs > feedMs
        ? `they are too far ahead of canonical block ${this.#canonical}, which has stood for ${seconds(standsMs)}`
        : `none of them goes on from canonical block ${this.#canonical}`
    const text = `no flashblock was shown for ${seconds(silentMs)}: frames come, the newest ${seconds(feedSilentMs)} ago, and ${why}`
    return [openDoubt(text)]
  }

  #lateness(maxLagMs: number, isStanding: boolean): Doubt[] {
    const { now, headMs, feedMs } = this.#options
    if (isStanding || (headMs === undefined && feedMs === undefined)) return []
    const lagMs = now() - Math.max(this.#movedAt, this.#flashblockAt)
    if (lagMs <= maxLagMs) return []
    const text = `nothing new was published for ${seconds(lagMs)}, and ${maxLagMs} ms may pass`
    return [openDoubt(text)]
  }

  #reasons(isStanding: boolean): Doubt[] {
    const { now, headMs } = this.#options
    const found: Doubt[] = []
    const open = (text: string) => void found.push(openDoubt(text))
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

/** How often the pool is asked. */
export const HEALTH_PROBE_MS = PROBE_MS
