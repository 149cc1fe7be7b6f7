/**
 * State that is missing, fetched from upstreams at our canonical head and handed to the keeper. An upstream that lags is asked at its own
 * head: what no local block wrote has one value from the first of our blocks on. A key that is asked for twice is fetched once; what the
 * keeper drops because the head has moved meanwhile is fetched again at the new one.
 */
import { bytesToHex, quantity } from '../../primitives/hex.ts'
import { describeMissing, type MissingKey } from '../../state/reader.ts'
import { slotKey } from '../../storage/blocks/block-codec.ts'
import type { FillRow, StoredHead, StoreReader } from '../../storage/types.ts'
import type { Upstream } from '../upstream/client.ts'
import { outsideText, UpstreamError } from '../upstream/error.ts'
import type { Clock } from '../upstream/places.ts'
import type { Call, CallOptions } from '../upstream/transport.ts'
import { type Budget, BudgetError, type FetchFor, type Payer } from './budget.ts'
import {
  AnswerFault,
  type FetchHead,
  nameOf,
  type Question,
  questionsOf,
  type StateKey,
} from './calls.ts'
import type { Depth, LazyMode } from './depth.ts'
import type { Guesses } from './guesses.ts'

export interface Fetcher {
  /**
   * Resolves when each key has a row, or is known to have none. `client`: whose call it is for; once `signal` is aborted nobody waits.
   * @throws {FetchError} in one line why not
   */
  fetch(keys: readonly MissingKey[], payer: Payer): Promise<void>
  /** Rows of the state after a block, for who compares them with ours; nothing is kept. @throws {FetchError} */
  read(keys: readonly StateKey[], head: FetchHead, payer: Payer): Promise<readonly FillRow[]>
  close(): void
}

export type FetchLimits = {
  /** Keys of one question to us. */
  readonly fetchKeys: number
  /** Milliseconds until it is answered, one way or the other. */
  readonly fetchMs: number
  /** Rest of an upstream that has given something wrong, and of one that has given nothing. */
  readonly upstreamRestMs: number
  readonly failedRestMs: number
  /** For an answer, where somebody else can be asked. */
  readonly otherMs: number
}

export const DEFAULT_FETCH_LIMITS: FetchLimits = {
  fetchKeys: 1_000,
  fetchMs: 8_000,
  upstreamRestMs: 60_000,
  failedRestMs: 5_000,
  otherMs: 1_500,
}

const HEAD_TRIES = 16
const FAILURE_TRIES = 4
const RETRY_MS = 100

export type FetcherOptions = {
  readonly mode: LazyMode
  /** Those that give what the mode needs; the first that answers counts. */
  upstreams(): readonly FetchUpstream[]
  /** Our newest canonical block up to a height; undefined: blocks are being taken back. */
  head(most: number): FetchHead | undefined
  readonly store: Pick<StoreReader, 'flatAccount' | 'flatSlot' | 'code' | 'codeOrigin'>
  /** Hands rows to the keeper; resolves with its answer. */
  fill(block: StoredHead, rows: readonly FillRow[]): Promise<{ readonly kept: number }>
  readonly budget: Budget
  readonly guesses: Guesses
  readonly clock: Clock
  readonly limits: FetchLimits
  warn(message: string): void
  count(what: FetchCount, by: number): void
}
export type FetchUpstream = {
  readonly upstream: Pick<Upstream, 'name' | 'batch'>
  readonly depth: Depth
  /** The newest block that it has told of: it has no state above. undefined: it has not told. */
  readonly head: number | undefined
}
/** For the metrics. */
export type FetchCount =
  | 'state_fetched'
  | 'state_requests'
  | 'state_dropped'
  | 'state_wrong'
  | 'state_failed'

/** Rows, and the block after which they are so. */
type Read = { readonly block: FetchHead; readonly rows: readonly FillRow[] }

/** Something is not at hand, and why. */
export class FetchError extends Error {
  override name = 'FetchError'
  /** For clients: the message without hosts. */
  readonly outside: string
  constructor(message: string, outside = message) {
    super(message)
    this.outside = outside
  }
}

export const createFetcher = (options: FetcherOptions): Fetcher => new OpenFetcher(options)

/** The more urgent first. */
const RANK: Readonly<Record<FetchFor, number>> = { canonical: 0, flashblock: 1, send: 2, call: 3 }

class OpenFetcher implements Fetcher {
  readonly #options: FetcherOptions
  /** By key: what fetches it. */
  readonly #flights = new Map<string, { readonly rank: number; readonly done: Promise<void> }>()
  /** By name of an upstream: until when it is not asked. */
  readonly #rests = new Map<string, number>()
  readonly #closing = new AbortController()

  constructor(options: FetcherOptions) {
    this.#options = options
  }

  async fetch(keys: readonly MissingKey[], { what, client, signal }: Payer): Promise<void> {
    const { limits, clock, guesses, count } = this.#options
    if (keys.length > limits.fetchKeys)
      throw new FetchError(`${keys.length} values are missing, at most ${limits.fetchKeys}`)
    const wanted = keys.map(stateKey)
    const ending = new AbortController()
    const end = (reason: string) => ending.abort(new FetchError(reason))
    const onClose = () => end('nothing is fetched any more: the node stops')
    this.#closing.signal.addEventListener('abort', onClose, { once: true })
    const onGone = () => end('nobody waits for it any more')
    if (signal?.aborted === true) onGone()
    signal?.addEventListener('abort', onGone, { once: true })
    const stop = clock.after(limits.fetchMs, () =>
      end(`${describeMissing(keys[0]!)} did not come within ${limits.fetchMs} ms`),
    )
    const payer = { what, client, signal: ending.signal }
    try {
      await this.#all([...wanted, ...guesses.slotsOf(wanted)], payer)
      await this.#all(guesses.slotsOf(wanted), payer)
    } catch (error) {
      count('state_failed', 1)
      throw this.#failure(error)
    } finally {
      stop()
      this.#closing.signal.removeEventListener('abort', onClose)
      signal?.removeEventListener('abort', onGone)
    }
  }

  close(): void {
    this.#closing.abort()
  }

  async read(
    keys: readonly StateKey[],
    head: FetchHead,
    payer: Payer,
  ): Promise<readonly FillRow[]> {
    try {
      return (await this.#read(keys, () => head, payer)).rows
    } catch (error) {
      throw this.#failure(error)
    }
  }

  #failure(error: unknown): unknown {
    const isOurs =
      error instanceof UpstreamError || error instanceof AnswerFault || error instanceof BudgetError
    if (!isOurs) return error
    const outside = error instanceof UpstreamError ? outsideText(error) : undefined
    return new FetchError(error.message, outside)
  }

  /** Joins what is under way for the same keys, where that is as urgent; what comes to nothing there is fetched again. */
  async #all(keys: readonly StateKey[], payer: Payer): Promise<void> {
    const rank = RANK[payer.what]
    for (;;) {
      const under = new Set<Promise<void>>()
      const mine = new Map<string, StateKey>()
      for (const key of keys) {
        if (this.#isKnown(key)) continue
        const name = nameOf(key)
        const flight = this.#flights.get(name)
        if (flight !== undefined && flight.rank <= rank) under.add(flight.done)
        else mine.set(name, key)
      }
      if (under.size + mine.size === 0) return
      const own = mine.size === 0 ? undefined : this.#fly(mine, rank, payer)
      const ends = [own, Promise.allSettled(under)]
      await Promise.race([Promise.all(ends), aborted(payer.signal!)])
      // Its own end is the last word.
      if (under.size === 0) return
    }
  }

  #fly(mine: ReadonlyMap<string, StateKey>, rank: number, payer: Payer): Promise<void> {
    const done = this.#load([...mine.values()], payer).finally(() => {
      for (const name of mine.keys())
        if (this.#flights.get(name)?.done === done) this.#flights.delete(name)
    })
    // Who waits for it hears of its end; it may be that nobody does any more.
    done.catch(() => {})
    for (const name of mine.keys()) this.#flights.set(name, { rank, done })
    return done
  }

  async #load(keys: readonly StateKey[], payer: Payer): Promise<void> {
    const { fill, guesses, count } = this.#options
    let left = keys.filter((key) => !this.#isKnown(key))
    for (let tries = 0; left.length > 0; tries++) {
      if (tries === HEAD_TRIES)
        throw new FetchError(
          `${describeMissing(left[0]!)} was fetched ${tries} times, and the chain had moved each time`,
        )
      const { block, rows } = await this.#readAtHead(left, payer)
      const { kept } = await fill({ number: block.number, hash: block.hash }, rows)
      count('state_fetched', kept)
      if (kept < rows.length) count('state_dropped', rows.length - kept)
      left = left.filter((key) => !this.#isKnown(key))
      if (left.length > 0) await this.#sleep(RETRY_MS, payer.signal!)
    }
    guesses.learn(keys)
  }

  /** At our head, or an older block of ours that an upstream has, which may be silent for a moment. */
  async #readAtHead(keys: readonly StateKey[], payer: Payer): Promise<Read> {
    for (let tries = 1; ; tries++) {
      const newest = await this.#settledHead(payer.signal!)
      const headOf = ({ head = newest.number }: FetchUpstream) =>
        head < newest.number ? (this.#options.head(head) ?? newest) : newest
      try {
        return await this.#read(keys, headOf, payer)
      } catch (error) {
        const isOfUpstream = error instanceof UpstreamError || error instanceof AnswerFault
        if (!isOfUpstream || tries === FAILURE_TRIES) throw error
      }
      await this.#sleep(RETRY_MS * 2 ** tries, payer.signal!)
    }
  }

  /** Waits while blocks are taken back. */
  async #settledHead(signal: AbortSignal): Promise<FetchHead> {
    for (;;) {
      const head = this.#options.head(Number.POSITIVE_INFINITY)
      if (head !== undefined) return head
      await this.#sleep(RETRY_MS, signal)
    }
  }

  /** What a local block or another fetch has brought needs none. */
  #isKnown(key: StateKey): boolean {
    const { store } = this.#options
    if (key.kind === 'code') return store.code(key.hash) !== undefined
    if (key.kind === 'slot') return store.flatSlot(slotKey(key.address, key.key)) !== 'missing'
    return store.flatAccount(key.address) !== 'missing'
  }

  async #read(
    keys: readonly StateKey[],
    headOf: (upstream: FetchUpstream) => FetchHead,
    payer: Payer,
  ): Promise<Read> {
    let last: unknown
    const usable = this.#usable()
    for (const [at, one] of usable.entries()) {
      const { upstream, depth } = one
      const block = headOf(one)
      try {
        const { takesHash } = depth
        const isLast = at === usable.length - 1
        const options: CallOptions = isLast
          ? {}
          : { hasOthers: true, withinMs: this.#options.limits.otherMs }
        const of = { head: block, takesHash, payer, options }
        return { block, rows: await this.#ask(upstream, keys, of) }
      } catch (error) {
        if (!(error instanceof UpstreamError) && !(error instanceof AnswerFault)) throw error
        if (payer.signal?.aborted) throw payer.signal.reason
        this.#rest(upstream.name, error)
        last = error
      }
    }
    throw last ?? new FetchError('no upstream gives state now')
  }

  /** Those that do not rest; where all do, all: they may be back. */
  #usable(): readonly FetchUpstream[] {
    const { upstreams, clock } = this.#options
    const all = upstreams()
    const now = clock.now()
    const awake = all.filter(({ upstream }) => (this.#rests.get(upstream.name) ?? 0) <= now)
    return awake.length > 0 ? awake : all
  }

  #rest(name: string, error: UpstreamError | AnswerFault): void {
    const { clock, limits, warn, count } = this.#options
    const isWrong = error instanceof AnswerFault || error.kind === 'wrong'
    this.#rests.set(name, clock.now() + (isWrong ? limits.upstreamRestMs : limits.failedRestMs))
    if (!isWrong) return
    count('state_wrong', 1)
    warn(`${name} is not asked for state for a while: ${error.message}`)
  }

  async #ask(
    upstream: FetchUpstream['upstream'],
    keys: readonly StateKey[],
    of: {
      readonly head: FetchHead
      readonly takesHash: boolean
      readonly payer: Payer
      readonly options: CallOptions
    },
  ): Promise<readonly FillRow[]> {
    const { mode, budget, store } = this.#options
    const { head, takesHash, payer, options } = of
    const { codeOrigin: originOf } = store
    const questions = questionsOf(keys, { mode, head, takesHash, originOf })
    // A number is another block after a reorganisation: without a proof nobody would see it, with one it would seem to be wrong.
    const isLookedAt = !takesHash
    const messages = messagesOf(questions, budget.batch - 1)
    const rows = await Promise.all(
      messages.map(async (own) => {
        const calls = own.flatMap(({ calls }) => calls)
        if (isLookedAt)
          calls.push({ method: 'eth_getBlockByNumber', params: [quantity(head.number), false] })
        const answers = await this.#send(upstream, calls, { payer, options })
        if (isLookedAt) checkHash(answers.pop(), head)
        return readAll(own, answers)
      }),
    )
    return rows.flat()
  }

  async #send(
    upstream: FetchUpstream['upstream'],
    calls: readonly Call[],
    { payer, options }: { readonly payer: Payer; readonly options: CallOptions },
  ): Promise<unknown[]> {
    const { budget, count } = this.#options
    await budget.take(calls.length, payer)
    count('state_requests', calls.length)
    const { signal } = payer
    const answers = await upstream.batch(calls, {
      ...options,
      ...(signal === undefined ? {} : { signal }),
    })
    return answers.map((answer) => {
      if ('error' in answer) throw answer.error
      return answer.result
    })
  }

  #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const stop = this.#options.clock.after(ms, resolve)
    return Promise.race([promise, aborted(signal)]).finally(stop)
  }
}

/** @throws {FetchError} */
function stateKey(key: MissingKey): StateKey {
  if (key.kind !== 'blockHash') return key
  throw new FetchError(`${describeMissing(key)} is not kept: it is below the first block here`)
}

/** A question's calls stay together. */
function messagesOf(questions: readonly Question[], most: number): readonly Question[][] {
  const messages: Question[][] = []
  let calls = Number.POSITIVE_INFINITY
  for (const question of questions) {
    calls += question.calls.length
    if (calls > most) {
      messages.push([])
      calls = question.calls.length
    }
    messages.at(-1)!.push(question)
  }
  return messages
}

function readAll(questions: readonly Question[], answers: readonly unknown[]): readonly FillRow[] {
  let at = 0
  return questions.flatMap(({ calls, read }) => {
    at += calls.length
    return read(answers.slice(at - calls.length, at))
  })
}

function checkHash(block: unknown, { number, hash }: FetchHead): void {
  const theirs = (block as { readonly hash?: unknown } | null)?.hash
  if (typeof theirs === 'string' && theirs.toLowerCase() === bytesToHex(hash)) return
  throw new UpstreamError('refused', `its block ${number} is another one than ours`)
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
