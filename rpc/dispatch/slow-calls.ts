/** Reports calls that took longer than `--slow-call-ms`. */

import type { PoolReply, RunTimes } from '../core/executor.ts'
import { bytesOf } from '../core/pieces.ts'
import type { MethodLimits } from '../method/method.ts'
import type { Price } from '../method/price.ts'
import type { Ready } from './items.ts'

/**
 * Report of a slow call. Parameters are left out by default, because they reveal the client's
 * activity.
 */
export type SlowCall = {
  readonly method: string
  /** Points that the client was charged. */
  readonly cost: number
  readonly ms: number
  /** Milliseconds in the queue and of the worker's processor. Left out: no worker ran this call. */
  readonly queuedMs?: number
  readonly engineMs?: number
  /** Size of the result. */
  readonly bytes: number
  /** Code of the error. Left out: the call has a result. */
  readonly code?: number
  /** First characters of the parameters as JSON text. */
  readonly params?: string
  /** Number of unreported slow calls since the last report. */
  readonly unsaid?: number
}
export type SlowCallOptions = {
  /** Milliseconds from which a call is slow. */
  readonly ms: number
  readonly hasParams: boolean
  readonly report: (call: SlowCall) => void
}

type Options = SlowCallOptions & {
  readonly price: Price
  readonly limits: MethodLimits
  readonly now: () => number
}

/** Maximum reports in a second, because a slow node must not spend its time on reports. */
const MAX_REPORTED = 20
const PARAMS_CHARACTERS = 1_024

export class SlowCalls {
  readonly ms: number
  readonly #options: Options
  readonly #times = new WeakMap<object, RunTimes>()
  #second = { since: Number.NEGATIVE_INFINITY, reported: 0 }
  #unsaid = 0

  /** @param options `now` gives monotonic milliseconds */
  constructor(options: Options) {
    this.ms = options.ms
    this.#options = options
  }

  /** Records the times of a call that a worker has run. */
  ran(call: object, times: RunTimes): void {
    this.#times.set(call, times)
  }

  /**
   * Reports an answered call if it was slow. A call that waits for an event is never slow.
   * @param ms time since the start of the call
   */
  onResponse(item: Ready, reply: PoolReply, ms: number): void {
    if (ms < this.ms || item.found.isWaiting) return
    if (!this.#mayReport()) {
      this.#unsaid++
      return
    }
    const { hasParams, price, limits, report } = this.#options
    const times = this.#times.get(item)
    report({
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

  #mayReport(): boolean {
    const now = this.#options.now()
    if (now - this.#second.since >= 1_000) this.#second = { since: now, reported: 0 }
    return this.#second.reported++ < MAX_REPORTED
  }
}

function sizeOf(reply: PoolReply): number {
  if ('result' in reply) return reply.result.length
  return 'pieces' in reply ? bytesOf(reply.pieces) : 0
}
