/**
 * Fetches missing state from upstreams at our canonical head, and submits it to the persistence
 * thread. An upstream that lags is asked at its own head. Values that no local block wrote are the
 * same since our first block.
 * A key that is requested twice is fetched once. The persistence thread drops rows if the head has
 * moved meanwhile, and they are fetched again at the new head.
 */
import { bytesToHex, quantity } from '../../primitives/hex.ts'
import { describeMissing, type MissingKey } from '../../state/reader.ts'
import { slotKey } from '../../storage/blocks/block-codec.ts'
import type { FillRow, StoredHead, StoreReader } from '../../storage/types.ts'
import type { Upstream } from '../upstream/client.ts'
import { outsideText, UpstreamError } from '../upstream/error.ts'
import type { Call, CallOptions } from '../upstream/messages.ts'
import type { Clock } from '../upstream/permits.ts'
import { type Budget, BudgetError, type FetchFor, type Payer } from './budget.ts'
import {
  type FetchHead,
  messagesOf,
  nameOf,
  questionsOf,
  ResponseFault,
  readAll,
  type StateKey,
} from './calls.ts'
import type { Depth, LazyMode } from './depth.ts'
import type { Guesses } from './guesses.ts'

export interface Fetcher {
  /**
   * Resolves when each key has a row, or is known to have none. An aborted `signal` ends the wait.
   * @throws {FetchError} with the reason in one line
   */
  fetch(keys: readonly MissingKey[], payer: Payer): Promise<void>
  /**
   * Fetches rows of the state after a block for a comparison; they are not stored.
   * @throws {FetchError}
   */
  read(keys: readonly StateKey[], head: FetchHead, payer: Payer): Promise<readonly FillRow[]>
  close(): void
}

export type FetchLimits = {
  /** Keys of one request to the fetcher. */
  readonly fetchKeys: number
  /** Milliseconds until a request succeeds or fails. */
  readonly fetchMs: number
  /** Backoffs after a wrong response, and after a failure. */
  readonly upstreamRestMs: number
  readonly failedBackoffMs: number
  /** Milliseconds for a response if another upstream can be asked. */
  readonly otherMs: number
}

export const DEFAULT_FETCH_LIMITS: FetchLimits = {
  fetchKeys: 1_000,
  fetchMs: 8_000,
  upstreamRestMs: 60_000,
  failedBackoffMs: 5_000,
  otherMs: 1_500,
}

const HEAD_TRIES = 16
const FAILURE_TRIES = 4
const RETRY_MS = 100

export type FetcherOptions = {
  readonly mode: LazyMode
  /** Upstreams that give what the mode needs; the first response counts. */
  upstreams(): readonly FetchUpstream[]
  /** Returns our newest canonical block up to a height; undefined: a reorg is in progress. */
  head(max: number): FetchHead | undefined
  readonly store: Pick<StoreReader, 'flatAccount' | 'flatSlot' | 'code' | 'codeOrigin'>
  /** Submits rows to the persistence thread, and resolves with its response. */
  fill(block: StoredHead, rows: readonly FillRow[]): Promise<{ readonly written: number }>
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
  /**
   * Newest block that the upstream has announced, above which it has no state. undefined: none
   * announced.
   */
  readonly head: number | undefined
}
export type FetchCount =
  | 'state_fetched'
  | 'state_requests'
  | 'state_dropped'
  | 'state_wrong'
  | 'state_failed'

type Read = { readonly block: FetchHead; readonly rows: readonly FillRow[] }

export class FetchError extends Error {
  override name = 'FetchError'
  /** Message for clients, without hosts. */
  readonly outside: string
  constructor(message: string, outside = message) {
    super(message)
    this.outside = outside
  }
}

export const createFetcher = (options: FetcherOptions): Fetcher => new OpenFetcher(options)

/** Purposes by urgency, the most urgent first. */
const RANK: Readonly<Record<FetchFor, number>> = { canonical: 0, flashblock: 1, send: 2, call: 3 }

class OpenFetcher implements Fetcher {
  readonly #options: FetcherOptions
  /** Running fetches by key. */
  readonly #flights = new Map<string, { readonly rank: number; readonly done: Promise<void> }>()
  /** End of the backoff by upstream name. */
  readonly #backoffs = new Map<string, number>()
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
      error instanceof UpstreamError ||
      error instanceof ResponseFault ||
      error instanceof BudgetError
    if (!isOurs) return error
    const outside = error instanceof UpstreamError ? outsideText(error) : undefined
    return new FetchError(error.message, outside)
  }

  /**
   * Joins running fetches of the same keys if they are as urgent. Keys that they do not bring are
   * fetched again.
   */
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
      // Without joined fetches, its own result is final.
      if (under.size === 0) return
    }
  }

  #fly(mine: ReadonlyMap<string, StateKey>, rank: number, payer: Payer): Promise<void> {
    const done = this.#load([...mine.values()], payer).finally(() => {
      for (const name of mine.keys())
        if (this.#flights.get(name)?.done === done) this.#flights.delete(name)
    })
    // Waiters see the error. The handler is for the case that none waits any more.
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
      const { written } = await fill({ number: block.number, hash: block.hash }, rows)
      count('state_fetched', written)
      if (written < rows.length) count('state_dropped', rows.length - written)
      left = left.filter((key) => !this.#isKnown(key))
      if (left.length > 0) await this.#sleep(RETRY_MS, payer.signal!)
    }
    guesses.learn(keys)
  }

  /**
   * Fetches at our head, or at an older block of ours that an upstream has. A silent upstream is
   * tried again.
   */
  async #readAtHead(keys: readonly StateKey[], payer: Payer): Promise<Read> {
    for (let tries = 1; ; tries++) {
      const newest = await this.#settledHead(payer.signal!)
      const headOf = ({ head = newest.number }: FetchUpstream) =>
        head < newest.number ? (this.#options.head(head) ?? newest) : newest
      try {
        return await this.#read(keys, headOf, payer)
      } catch (error) {
        const isOfUpstream = error instanceof UpstreamError || error instanceof ResponseFault
        if (!isOfUpstream || tries === FAILURE_TRIES) throw error
      }
      await this.#sleep(RETRY_MS * 2 ** tries, payer.signal!)
    }
  }

  /** Waits until no reorg is in progress. */
  async #settledHead(signal: AbortSignal): Promise<FetchHead> {
    for (;;) {
      const head = this.#options.head(Number.POSITIVE_INFINITY)
      if (head !== undefined) return head
      await this.#sleep(RETRY_MS, signal)
    }
  }

  /** Whether a local block or another fetch has brought the key. */
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
        return { block, rows: await this.#request(upstream, keys, of) }
      } catch (error) {
        if (!(error instanceof UpstreamError) && !(error instanceof ResponseFault)) throw error
        if (payer.signal?.aborted) throw payer.signal.reason
        this.#rest(upstream.name, error)
        last = error
      }
    }
    throw last ?? new FetchError('no upstream gives state now')
  }

  /**
   * Returns upstreams without a backoff. If all have one, all are tried, because they may have
   * recovered.
   */
  #usable(): readonly FetchUpstream[] {
    const { upstreams, clock } = this.#options
    const all = upstreams()
    const now = clock.now()
    const awake = all.filter(({ upstream }) => (this.#backoffs.get(upstream.name) ?? 0) <= now)
    return awake.length > 0 ? awake : all
  }

  #rest(name: string, error: UpstreamError | ResponseFault): void {
    const { clock, limits, warn, count } = this.#options
    const isWrong = error instanceof ResponseFault || error.kind === 'wrong'
    this.#backoffs.set(
      name,
      clock.now() + (isWrong ? limits.upstreamRestMs : limits.failedBackoffMs),
    )
    if (!isWrong) return
    count('state_wrong', 1)
    warn(`${name} is not asked for state for a while: ${error.message}`)
  }

  async #request(
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
    // After a reorg a number means another block. A response without a proof would be silently
    // wrong, and a proof would seem invalid.
    const isChecked = !takesHash
    const messages = messagesOf(questions, budget.batch - 1)
    const rows = await Promise.all(
      messages.map(async (own) => {
        const calls = own.flatMap(({ calls }) => calls)
        if (isChecked)
          calls.push({ method: 'eth_getBlockByNumber', params: [quantity(head.number), false] })
        const responses = await this.#send(upstream, calls, { payer, options })
        if (isChecked) checkHash(responses.pop(), head)
        return readAll(own, responses)
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
    const responses = await upstream.batch(calls, {
      ...options,
      ...(signal === undefined ? {} : { signal }),
    })
    return responses.map((response) => {
      if ('error' in response) throw response.error
      return response.result
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
