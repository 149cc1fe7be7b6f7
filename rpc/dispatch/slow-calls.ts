/** Calls that took longer than an operator wants to hear of (`--slow-call-ms`). */
import type { MethodLimits } from '../method/method.ts'
import type { Price } from '../method/price.ts'
import type { PoolReply, RunTimes } from '../seam/executor.ts'
import { bytesOf } from '../seam/pieces.ts'
import type { Ready } from './items.ts'

/** What is said of one: no parameters unless that is asked for, because they say what a client does. */
export type SlowCall = {
  readonly method: string
  /** Points that it took from its caller. */
  readonly cost: number
  readonly ms: number
  /** Before a worker had it, and of the worker's processor; left out: no worker ran it for this call. */
  readonly queuedMs?: number
  readonly engineMs?: number
  /** Of its result. */
  readonly bytes: number
  /** Of its error; left out: it has a result. */
  readonly code?: number
  /** JSON text, its beginning. */
  readonly params?: string
  /** Slow calls since the last that was told of, of which nothing was said. */
  readonly unsaid?: number
}
export type SlowCallOptions = {
  /** From so many milliseconds on. */
  readonly ms: number
  readonly hasParams: boolean
  readonly tell: (call: SlowCall) => void
}

type Options = SlowCallOptions & {
  readonly price: Price
  readonly limits: MethodLimits
  readonly now: () => number
}

/** In a second: a node that is slow has other things to do. */
const MOST_TOLD = 20
const PARAMS_CHARACTERS = 1_024

export class SlowCalls {
  readonly ms: number
  readonly #options: Options
  readonly #times = new WeakMap<object, RunTimes>()
  #second = { since: Number.NEGATIVE_INFINITY, told: 0 }
  #unsaid = 0

  /** @param options `now`: monotonic milliseconds */
  constructor(options: Options) {
    this.ms = options.ms
    this.#options = options
  }

  /** A worker has run it. */
  ran(call: object, times: RunTimes): void {
    this.#times.set(call, times)
  }

  /** A call has been answered, `ms` after it was begun. What waits for an event is not slow. */
  answered(item: Ready, reply: PoolReply, ms: number): void {
    if (ms < this.ms || item.found.isWaiting) return
    if (!this.#mayTell()) {
      this.#unsaid++
      return
    }
    const { hasParams, price, limits, tell } = this.#options
    const times = this.#times.get(item)
    tell({
      method: item.method,
      cost: price(item.found, item.params, limits),
      ms: Math.round(ms),
      ...(times && { queuedMs: Math.round(times.queuedMs), engineMs: Math.round(times.runMs) }),
      bytes: sizeOf(reply),
      ...('error' in reply && { code: reply.error.code }),
      ...(hasParams && { params: item.text.slice(0, PARAMS_CHARACTERS) }),
      ...(this.#unsaid > 0 && { unsaid: this.#unsaid }),
    })
    this.#unsaid = 0
  }

  #mayTell(): boolean {
    const now = this.#options.now()
    if (now - this.#second.since >= 1_000) this.#second = { since: now, told: 0 }
    return this.#second.told++ < MOST_TOLD
  }
}

function sizeOf(reply: PoolReply): number {
  if ('result' in reply) return reply.result.length
  return 'pieces' in reply ? bytesOf(reply.pieces) : 0
}
