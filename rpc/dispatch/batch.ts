/** A batch: its items run over one view, in rounds until that stands still, and are answered together. */
import { describeMissing, type MissingKey } from '../../engine/state/reader.ts'
import { isBecause, type RpcErrorObject, responseTooLarge } from '../seam/errors.ts'
import type { Answer } from '../seam/exchange.ts'
import { type PoolReply, sizeOfReply } from '../seam/executor.ts'
import { type Deadlines, laneMs } from '../seam/lane.ts'
import type { Limits } from '../seam/limits.ts'
import { batchAnswer, lengthOf, type Said, saidOf } from './answers.ts'
import { type Caller, outOfTime } from './call.ts'
import { type Item, isReady, type Ready } from './items.ts'
import { noTries, type Rounds, type Tries } from './rounds.ts'
import type { Scope } from './scope.ts'
import type { Slices } from './slices.ts'

export type BatchOptions = {
  readonly limits: Deadlines & Pick<Limits, 'batchResponseBytes'>
  readonly rounds: Rounds
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Of the thread. */
  readonly slices: Slices
  /** Runs an item over the view of the batch. */
  readonly call: Caller
  /** Runs an item with a lease of its own, as often as its view vanishes. */
  readonly callApart: (item: Ready, scope: Scope) => Promise<PoolReply>
  /** The answer takes another node. */
  readonly isRouted: (item: Ready, scope: Scope) => boolean
  readonly headersOf: (scope: Scope) => Answer['headers']
  /** Of each call that has been answered. */
  readonly onReply: (reply: PoolReply, item: Ready, ms: number) => void
}

/** Characters of parameters beyond which what is done with them may be done by a worker. */
const LONG_TEXT = 65_536

export class Batch {
  readonly #options: BatchOptions
  readonly #items: readonly Item[]
  readonly #scope: Scope
  readonly #replies: (PoolReply | undefined)[]
  /** Of what runs apart, by the place in the batch. */
  readonly #apart = new Map<number, Promise<PoolReply>>()
  /** Questions to the other node that an older view of this batch has sent there. */
  readonly #asked = new Map<number, Promise<PoolReply>>()
  /** Of what has missed state. */
  readonly #tries = new Map<number, Tries>()
  /** What stays without the state that it reads. */
  readonly #without = new Set<number>()

  constructor(options: BatchOptions, items: readonly Item[], scope: Scope) {
    this.#options = options
    this.#items = items
    this.#scope = scope
    this.#replies = items.map((item) => (isReady(item) ? undefined : { error: item.error }))
  }

  /** At once where nothing has to be waited for. Throws bugs alone. */
  answer(): Answer | Promise<Answer> {
    const isWaiting = this.#items.some((item) => isReady(item) && item.found.isWaiting)
    if (isWaiting) return this.#answerLater(undefined)
    try {
      const running = this.#runRound()
      const isLater = running !== undefined || this.#apart.size > 0 || this.#replies.some(isVoid)
      if (isLater) return this.#answerLater(running ?? Promise.resolve())
      const headers = this.#options.headersOf(this.#scope)
      return this.#answered(headers)
    } catch (error) {
      this.#scope.release()
      throw error
    }
  }

  /** @param running the first round, where it has begun */
  async #answerLater(running: Promise<void> | undefined): Promise<Answer> {
    const scope = this.#scope
    try {
      if (running === undefined) await this.#startWaiting()
      await this.#runRounds(running ?? this.#runRound())
      const headers = this.#options.headersOf(scope)
      // What still waits may take seconds, and does not read this view.
      scope.release()
      for (const [at, reply] of this.#apart) this.#replies[at] = await reply
      return this.#answered(headers)
    } finally {
      scope.release()
    }
  }
  #answered(headers: Answer['headers']): Answer {
    this.#scope.release()
    const said = this.#said()
    this.#scope.answered()
    return batchAnswer(said, headers)
  }

  /** What is done before the wait is work like any other: a hundred sends take 20 ms. */
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
    const asked = this.#asked.get(at)
    this.#apart.set(at, asked ?? this.#options.callApart(item, this.#scope))
  }

  /**
   * A newer view may have what the other node was asked for, and its place is named then: the route is looked up again. Where that is the
   * one of before, nobody asks twice, but for logs, a part of which was read here.
   */
  #routeAgain(at: number, item: Ready): void {
    const running = this.#apart.get(at)
    if (running === undefined || item.found.isWaiting) return
    this.#apart.delete(at)
    if (item.found.about?.is !== 'query') this.#asked.set(at, running)
  }

  /**
   * All items over one view; when it is void they run again on a newer one, but for those that changed something, and so they do when state
   * had to be fetched for one of them. What has no time left for that is late, and the others go on: what it had read was of the view that
   * is void.
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
          this.#runAgain(at, item, time)
    }
  }
  #runAgain(at: number, item: Ready, now: number): void {
    const hasTime = this.#hasTime(item, now)
    if (hasTime) this.#routeAgain(at, item)
    if (!this.#apart.has(at))
      this.#replies[at] = hasTime ? undefined : this.#lateReply(at, item, now)
  }

  /** undefined: it is over, for nothing had to be waited for. */
  #runRound(): Promise<void> | undefined {
    return new Round(this.#options, this.#scope, this.#replies).run(this.#items, {
      isApart: (at) => this.#apart.has(at),
      callApart: (item, at) => this.#callApart(item, at),
    })
  }

  /** What all of them miss, at once and for as long as the last of them may take. The view is not held meanwhile. */
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
    const asked = { client, deadline, for: 'caller' } as const
    const problem = await rounds.fetch([...keys.values()], asked)
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
  /** How long it is tried again: what goes to a worker as long as its kind may take, a read of the front as the slowest of its batch. */
  #limitMs({ found }: Ready): number {
    const { limits } = this.#options
    if (found.runs !== 'front') return laneMs(found.runs, limits)
    const slow = this.#items.flatMap((item) =>
      isReady(item) && item.found.runs !== 'front' ? laneMs(item.found.runs, limits) : [],
    )
    return slow.length === 0 ? laneMs('front', limits) : Math.max(...slow)
  }
  /** Where it was late before, that stands. */
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
    const most = limits.batchResponseBytes
    let bytes = 0
    return this.#items.map((item, at) => {
      const reply = this.#replies[at]!
      const said = saidOf(item, isVoid(reply) && isReady(item) ? this.#late(item, now()) : reply)
      if (said === undefined) return undefined
      bytes += lengthOf(said)
      return bytes <= most ? said : saidOf(item, tooLarge(bytes, most))
    })
  }
}

const isVoid = (reply: PoolReply | undefined): boolean => reply !== undefined && 'stale' in reply

/** What of a batch runs over views of its own. */
type Apart = {
  readonly isApart: (at: number) => boolean
  readonly callApart: (item: Ready, at: number) => void
}

/** One pass over the items that have no reply. Each is started in its order; what needs a worker is waited for at the end. */
class Round {
  readonly #options: BatchOptions
  readonly #scope: Scope
  readonly #replies: (PoolReply | undefined)[]
  readonly #running: Promise<void>[] = []
  /** Of these, what may have changed something, and whether one of them is long. */
  #effects: Promise<void>[] = []
  #isLongOut = false
  /** Bytes that replies may still take. */
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

  /** undefined: it is over, for nothing had to be waited for. */
  run(items: readonly Item[], apart: Apart): Promise<void> | undefined {
    const at = this.#runAtOnce(items, { from: 0, hasTurn: false }, apart)
    const isOver = at === items.length && this.#running.length === 0
    return isOver ? undefined : this.#runOn(items, at, apart)
  }

  async #runOn(items: readonly Item[], first: number, apart: Apart): Promise<void> {
    const { slices, now } = this.#options
    for (let from = first; from < items.length; ) {
      const item = items[from]!
      if (isReady(item) && this.#isBehindEffects(item)) await this.#settleEffects()
      const hasTurn = slices.isOver(this.#now)
      if (hasTurn) {
        // Here and not in a function of its own: what has its turn goes on in the next microtask.
        await slices.next()
        this.#now = now()
      }
      from = this.#runAtOnce(items, { from, hasTurn }, apart)
    }
    if (this.#running.length > 0) await Promise.all(this.#running)
  }

  /** Up to what has to wait; gives its place. @param hasTurn whether the first of them has waited for its turn */
  #runAtOnce(
    items: readonly Item[],
    { from, hasTurn }: { readonly from: number; readonly hasTurn: boolean },
    { isApart, callApart }: Apart,
  ): number {
    const { isRouted, slices } = this.#options
    for (let at = from; at < items.length; at++) {
      const item = items[at]!
      if (this.#replies[at] !== undefined || !isReady(item) || isApart(at)) continue
      if (this.#isBehindEffects(item)) return at
      if (!(hasTurn && at === from) && slices.isOver(this.#now)) return at
      // The other node may take longer than a view can be held.
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
      this.#keep(at, reply)
      onReply(reply, item, this.#now - startedAt)
      return
    }
    const settled = reply.then((value) => {
      this.#keep(at, value)
      onReply(value, item, now() - startedAt)
    })
    this.#running.push(settled)
    if (!item.found.hasEffect) return
    this.#effects.push(settled)
    this.#isLongOut ||= item.text.length > LONG_TEXT
  }

  /** What will not be sent is not kept until the others are there. */
  #keep(at: number, reply: PoolReply): void {
    const size = sizeOfReply(reply)
    const fits = size <= this.#left || 'error' in reply || 'stale' in reply
    const most = this.#options.limits.batchResponseBytes
    this.#replies[at] = fits ? reply : tooLarge(most + size - this.#left, most)
    if (fits) this.#left -= size
  }

  /** What follows a send in its batch may ask for what the send did; a send keeps its place behind a long one, which a worker looks at. */
  #isBehindEffects({ found }: Ready): boolean {
    return this.#effects.length > 0 && (!found.hasEffect || this.#isLongOut)
  }
  async #settleEffects(): Promise<void> {
    await Promise.all(this.#effects)
    this.#effects = []
    this.#isLongOut = false
    this.#now = this.#options.now()
  }
}

const tooLarge = (bytes: number, most: number): PoolReply => ({
  error: responseTooLarge(bytes, most).toObject(),
})
