/**
 * Runs a batch: its items run over one view, in rounds until that view stays valid, and are
 * answered together.
 */
import { describeMissing, type MissingKey } from '../../engine/state/reader.ts'
import { isBecause, type RpcErrorObject, responseTooLarge } from '../core/errors.ts'
import type { RpcResponse } from '../core/exchange.ts'
import { type PoolReply, sizeOfReply } from '../core/executor.ts'
import type { Limits } from '../core/limits.ts'
import { type Deadlines, timeoutMsOf } from '../core/queue-class.ts'
import { type Caller, outOfTime } from './call.ts'
import { type Item, isReady, type Ready } from './items.ts'
import { batchResponse, lengthOf, type Said, saidOf } from './responses.ts'
import { noTries, type Rounds, type Tries } from './rounds.ts'
import type { Scope } from './scope.ts'
import type { Slices } from './slices.ts'

export type BatchOptions = {
  readonly limits: Deadlines & Pick<Limits, 'batchResponseBytes'>
  readonly rounds: Rounds
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Time slices of the thread. */
  readonly slices: Slices
  /** Runs an item over the view of the batch. */
  readonly call: Caller
  /** Runs an item with a lease of its own, again on a newer view if the view becomes void. */
  readonly callApart: (item: Ready, scope: Scope) => Promise<PoolReply>
  /** Tells whether another node must answer the item. */
  readonly isRouted: (item: Ready, scope: Scope) => boolean
  readonly headersOf: (scope: Scope) => RpcResponse['headers']
  /** Called for each answered call. */
  readonly onReply: (reply: PoolReply, item: Ready, ms: number) => void
}

/** Length of parameters, in characters, above which a worker may process a send. */
const LONG_TEXT = 65_536

export class Batch {
  readonly #options: BatchOptions
  readonly #items: readonly Item[]
  readonly #scope: Scope
  readonly #replies: (PoolReply | undefined)[]
  /** Replies of items that run outside the batch's view, by index in the batch. */
  readonly #apart = new Map<number, Promise<PoolReply>>()
  /** Requests to the other node that an earlier round sent, by index in the batch. */
  readonly #requested = new Map<number, Promise<PoolReply>>()
  /** Counts of state fetches, by index in the batch. */
  readonly #tries = new Map<number, Tries>()
  /** Indexes of items that failed for missing state and do not run again. */
  readonly #without = new Set<number>()

  constructor(options: BatchOptions, items: readonly Item[], scope: Scope) {
    this.#options = options
    this.#items = items
    this.#scope = scope
    this.#replies = items.map((item) => (isReady(item) ? undefined : { error: item.error }))
  }

  /** Answers the batch, synchronously if no item has to wait. Only bugs are thrown. */
  respond(): RpcResponse | Promise<RpcResponse> {
    const isWaiting = this.#items.some((item) => isReady(item) && item.found.isWaiting)
    if (isWaiting) return this.#respondLater(undefined)
    try {
      const running = this.#runRound()
      const isLater = running !== undefined || this.#apart.size > 0 || this.#replies.some(isVoid)
      if (isLater) return this.#respondLater(running ?? Promise.resolve())
      const headers = this.#options.headersOf(this.#scope)
      return this.#batchResponse(headers)
    } catch (error) {
      this.#scope.release()
      throw error
    }
  }

  /** @param running the first round, if it has started */
  async #respondLater(running: Promise<void> | undefined): Promise<RpcResponse> {
    const scope = this.#scope
    try {
      if (running === undefined) await this.#startWaiting()
      await this.#runRounds(running ?? this.#runRound())
      const headers = this.#options.headersOf(scope)
      // Waiting items may take seconds and do not read this view.
      scope.release()
      for (const [at, reply] of this.#apart) this.#replies[at] = await reply
      return this.#batchResponse(headers)
    } finally {
      scope.release()
    }
  }
  #batchResponse(headers: RpcResponse['headers']): RpcResponse {
    this.#scope.release()
    const said = this.#said()
    this.#scope.onResponded()
    return batchResponse(said, headers)
  }

  /**
   * Starts the items that wait for an event. Slices interrupt the loop, because a hundred sends
   * take 20 ms.
   */
  async #startWaiting(): Promise<void> {
    const { slices, now } = this.#options
    for (let at = 0; at < this.#items.length; at++) {
      const item = this.#items[at]!
      if (!isReady(item) || !item.found.isWaiting) continue
      if (slices.isOver(now())) await slices.next()
      this.#callApart(item, at)
    }
  }
  #callApart(item: Ready, at: number): void {
    const request = this.#requested.get(at)
    this.#apart.set(at, request ?? this.#options.callApart(item, this.#scope))
  }

  /**
   * Decides the route of an item again, because a newer view may have the requested block. A
   * pending request to the other node is reused. Log queries are requested again, because part of
   * their logs was read from the void view.
   */
  #reroute(at: number, item: Ready): void {
    const running = this.#apart.get(at)
    if (running === undefined || item.found.isWaiting) return
    this.#apart.delete(at)
    if (item.found.about?.is !== 'query') this.#requested.set(at, running)
  }

  /**
   * Runs rounds until the view stays valid and no state is missing. A new round repeats all items
   * except those with effects. An item without time left is answered as late, because its earlier
   * reads are of a void view.
   */
  async #runRounds(first: Promise<void> | undefined): Promise<void> {
    const { now } = this.#options
    for (let running = first; ; running = this.#runRound()) {
      await running
      await this.#fetchMissing()
      const time = now()
      const mayGoOn = this.#items.some(
        (item, at) => isVoid(this.#replies[at]) && isReady(item) && this.#hasTime(item, time),
      )
      if (!mayGoOn) return
      this.#scope.release()
      for (const [at, item] of this.#items.entries())
        if (isReady(item) && !item.found.hasEffect && !this.#without.has(at))
          this.#rerun(at, item, time)
    }
  }
  #rerun(at: number, item: Ready, now: number): void {
    const hasTime = this.#hasTime(item, now)
    if (hasTime) this.#reroute(at, item)
    if (!this.#apart.has(at))
      this.#replies[at] = hasTime ? undefined : this.#lateReply(at, item, now)
  }

  /** Runs one round. undefined: the round is over, because no item had to wait. */
  #runRound(): Promise<void> | undefined {
    return new Round(this.#options, this.#scope, this.#replies).run(this.#items, {
      isApart: (at) => this.#apart.has(at),
      callApart: (item, at) => this.#callApart(item, at),
    })
  }

  /**
   * Fetches the missing state of all items together, until the latest of their deadlines. The view
   * is released meanwhile.
   */
  async #fetchMissing(): Promise<void> {
    const { rounds } = this.#options
    const keys = new Map<string, MissingKey>()
    const waiting: { readonly at: number; readonly missing: readonly MissingKey[] }[] = []
    let deadline = 0
    for (const [at, reply] of this.#replies.entries()) {
      const item = this.#items[at]!
      if (reply === undefined || !('stale' in reply) || !isReady(item)) continue
      const { missing } = reply
      if (missing === undefined) continue
      const refused = rounds.admit(missing, this.#triesOf(at))
      if (refused !== undefined) {
        this.#leave(at, refused)
        continue
      }
      waiting.push({ at, missing })
      for (const key of missing) keys.set(describeMissing(key), key)
      deadline = Math.max(deadline, this.#scope.startedAt + this.#limitMs(item))
    }
    if (waiting.length === 0) return
    const { client } = this.#scope
    this.#scope.release()
    const request = { client, deadline, for: 'caller' } as const
    const problem = await rounds.fetch([...keys.values()], request)
    if (problem === undefined) return
    for (const { at, missing } of waiting)
      this.#leave(at, rounds.without(missing, problem.why, this.#triesOf(at)))
  }
  #triesOf(at: number): Tries {
    const tries = this.#tries.get(at) ?? noTries()
    this.#tries.set(at, tries)
    return tries
  }
  #leave(at: number, error: RpcErrorObject): void {
    this.#without.add(at)
    this.#replies[at] = { error }
  }

  #hasTime(item: Ready, now: number): boolean {
    return now <= this.#scope.startedAt + this.#limitMs(item)
  }
  /**
   * Returns the time for repeats of an item. An item of a worker has the time of its kind. A front
   * read has the time of the slowest item in the batch.
   */
  #limitMs({ found }: Ready): number {
    const { limits } = this.#options
    if (found.runs !== 'front') return timeoutMsOf(found.runs, limits)
    const slow = this.#items.flatMap((item) =>
      isReady(item) && item.found.runs !== 'front' ? timeoutMsOf(item.found.runs, limits) : [],
    )
    return slow.length === 0 ? timeoutMsOf('front', limits) : Math.max(...slow)
  }
  /** Returns a timeout error; an earlier timeout of the item stays. */
  #lateReply(at: number, item: Ready, now: number): PoolReply {
    const reply = this.#replies[at]!
    return 'error' in reply && isBecause(reply.error, 'timeout') ? reply : this.#late(item, now)
  }
  #late(item: Ready, now: number): PoolReply {
    return {
      error: outOfTime({ scope: this.#scope, now, limitMs: this.#limitMs(item) }).toObject(),
    }
  }

  #said(): (Said | undefined)[] {
    const { now, limits } = this.#options
    const max = limits.batchResponseBytes
    let bytes = 0
    return this.#items.map((item, at) => {
      const reply = this.#replies[at]!
      const said = saidOf(item, isVoid(reply) && isReady(item) ? this.#late(item, now()) : reply)
      if (said === undefined) return undefined
      bytes += lengthOf(said)
      return bytes <= max ? said : saidOf(item, tooLarge(bytes, max))
    })
  }
}

const isVoid = (reply: PoolReply | undefined): boolean => reply !== undefined && 'stale' in reply

/** Items that run over views of their own. */
type Apart = {
  readonly isApart: (at: number) => boolean
  readonly callApart: (item: Ready, at: number) => void
}

/**
 * One pass over the items without a reply. Items start in order; calls in workers are awaited at
 * the end.
 */
class Round {
  readonly #options: BatchOptions
  readonly #scope: Scope
  readonly #replies: (PoolReply | undefined)[]
  readonly #running: Promise<void>[] = []
  /** Running calls with effects, and whether one of them has long parameters. */
  #effects: Promise<void>[] = []
  #isLongOut = false
  /** Bytes left for further replies. */
  #left: number
  #now: number

  constructor(options: BatchOptions, scope: Scope, replies: (PoolReply | undefined)[]) {
    this.#options = options
    this.#scope = scope
    this.#replies = replies
    this.#left = replies.reduce(
      (sum, reply) => sum - (reply === undefined ? 0 : sizeOfReply(reply)),
      options.limits.batchResponseBytes,
    )
    this.#now = options.now()
  }

  /** Runs the round. undefined: the round is over, because no item had to wait. */
  run(items: readonly Item[], apart: Apart): Promise<void> | undefined {
    const at = this.#runAtOnce(items, { from: 0, hasTurn: false }, apart)
    const isOver = at === items.length && this.#running.length === 0
    return isOver ? undefined : this.#runOn(items, at, apart)
  }

  async #runOn(items: readonly Item[], first: number, apart: Apart): Promise<void> {
    const { slices, now } = this.#options
    for (let from = first; from < items.length; ) {
      const item = items[from]!
      if (isReady(item) && this.#followsEffects(item)) await this.#settleEffects()
      const hasTurn = slices.isOver(this.#now)
      if (hasTurn) {
        // The await stands in this function, because work with a turn must continue in the next
        // microtask.
        await slices.next()
        this.#now = now()
      }
      from = this.#runAtOnce(items, { from, hasTurn }, apart)
    }
    if (this.#running.length > 0) await Promise.all(this.#running)
  }

  /**
   * Runs items until one has to wait.
   * @param start `hasTurn`: the first item has already waited for its turn
   * @returns index of the item that has to wait
   */
  #runAtOnce(
    items: readonly Item[],
    { from, hasTurn }: { readonly from: number; readonly hasTurn: boolean },
    { isApart, callApart }: Apart,
  ): number {
    const { isRouted, slices } = this.#options
    for (let at = from; at < items.length; at++) {
      const item = items[at]!
      if (this.#replies[at] !== undefined || !isReady(item) || isApart(at)) continue
      if (this.#followsEffects(item)) return at
      if (!(hasTurn && at === from) && slices.isOver(this.#now)) return at
      // The other node may take longer than a view can be leased.
      if (item.id !== undefined && isRouted(item, this.#scope)) callApart(item, at)
      else this.#start(item, at)
    }
    return items.length
  }

  #start(item: Ready, at: number): void {
    const { call, now, onReply } = this.#options
    const startedAt = this.#now
    const reply = call(item, this.#scope, true)
    this.#now = now()
    if (!(reply instanceof Promise)) {
      this.#store(at, reply)
      onReply(reply, item, this.#now - startedAt)
      return
    }
    const settled = reply.then((value) => {
      this.#store(at, value)
      onReply(value, item, now() - startedAt)
    })
    this.#running.push(settled)
    if (!item.found.hasEffect) return
    this.#effects.push(settled)
    this.#isLongOut ||= item.text.length > LONG_TEXT
  }

  /**
   * Stores a reply, or an error if the response of the batch would become too large. The reply is
   * dropped early to save memory.
   */
  #store(at: number, reply: PoolReply): void {
    const size = sizeOfReply(reply)
    const fits = size <= this.#left || 'error' in reply || 'stale' in reply
    const max = this.#options.limits.batchResponseBytes
    this.#replies[at] = fits ? reply : tooLarge(max + size - this.#left, max)
    if (fits) this.#left -= size
  }

  /**
   * Tells whether an item must wait for earlier sends, because it may ask for their effects. A send
   * waits only behind a long send, which a worker decodes.
   */
  #followsEffects({ found }: Ready): boolean {
    return this.#effects.length > 0 && (!found.hasEffect || this.#isLongOut)
  }
  async #settleEffects(): Promise<void> {
    await Promise.all(this.#effects)
    this.#effects = []
    this.#isLongOut = false
    this.#now = this.#options.now()
  }
}

const tooLarge = (bytes: number, max: number): PoolReply => ({
  error: responseTooLarge(bytes, max).toObject(),
})
