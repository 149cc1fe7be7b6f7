/**
 * Worker side of a lazy node. A call that misses state continues for a while and reports all
 * missing keys instead of a result.
 */
import type { Block, ChainView } from '../../engine/chain/types.ts'
import type { CachedSession } from '../../engine/execution/call/cached-session.ts'
import type { ReplayCache } from '../../engine/execution/call/replay-cache.ts'
import { collectingReader, MissingKeys, readNamed } from '../../engine/state/collecting.ts'
import type { MissingKey, StateReader } from '../../engine/state/reader.ts'
import type { Expected } from '../method/method.ts'
import { ForwardingView } from './forwarding-view.ts'
import {
  type CallRunner,
  createCallRunner,
  type LazyCalls,
  type WorkerReply,
} from './worker-call.ts'

/**
 * Maximum milliseconds for which a call continues after its first miss, over all its runs. Each run
 * is bounded in gas.
 */
const MISSED_MS = 100
/** Maximum number of guessed keys, in addition to the keys that a call requested. */
const MAX_GUESSES = 256

type Parts = Omit<Parameters<typeof createCallRunner>[0], 'lazy'>

/**
 * Creates a runner whose replies are the missing keys if a call missed state, whatever its result.
 */
export function createCollectingRunner(parts: Parts): CallRunner {
  const collecting = new Collecting(parts)
  const runner = createCallRunner({
    ...parts,
    lazy: collecting,
    // Errors of a call that missed state are expected, because it ran on empty state.
    onBug(error, method) {
      if (!collecting.hasMissed) parts.onBug(error, method)
    },
  })
  const withMissing = (reply: WorkerReply): WorkerReply =>
    collecting.hasMissed ? { stale: true, missing: collecting.missed() } : reply
  return {
    run(call, bounds) {
      collecting.start()
      const isExpired = () => collecting.isSpent || bounds.isExpired()
      const running = runner.run(call, { ...bounds, isExpired })
      return running instanceof Promise ? running.then(withMissing) : withMissing(running)
    },
    endTask: () => runner.endTask(),
  }
}

/** Collector of one thread, which runs one call at a time. */
class Collecting implements LazyCalls {
  readonly #missing: MissingKeys
  readonly #now: () => number
  #missedAt: number | undefined
  #expected: (() => Expected) | undefined

  constructor({ limits, now }: Pick<Parts, 'limits' | 'now'>) {
    this.#missing = new MissingKeys(limits.fetchKeys)
    this.#now = now
  }

  /** Resets the collector at the start of a call. */
  start(): void {
    if (this.hasMissed) this.#missing.clear()
    this.#missedAt = undefined
    this.#expected = undefined
  }
  get hasMissed(): boolean {
    return this.#missing.size > 0
  }
  /**
   * True when a call has continued long enough after its first miss. Its result is discarded
   * anyway.
   */
  get isSpent(): boolean {
    if (!this.hasMissed) return false
    this.#missedAt ??= this.#now()
    return this.#now() >= this.#missedAt + MISSED_MS
  }
  /** Returns the missing keys and those that the call will certainly read. */
  missed(): readonly MissingKey[] {
    try {
      if (this.#expected !== undefined) guess(this.#expected(), this.#missing)
    } catch {
      // The state has gone meanwhile, or the call is invalid. The requested keys are still
      // reported.
    }
    return this.#missing.list()
  }

  readonly isLost = (): boolean => this.hasMissed
  readonly expects = (of: () => Expected): void => {
    this.#expected = of
  }
  readonly view = (view: ChainView): ChainView => new CollectingView(view, this.#missing)
  /** A session of a call that missed state has wrong values, so it is not reused. */
  readonly session = (cached: CachedSession): CachedSession => ({
    reader: cached.reader,
    take: () => cached.take(),
    give: (isIntact) => cached.give(isIntact && !this.hasMissed),
    close: () => cached.close(),
  })
  readonly replays = (cached: ReplayCache): ReplayCache => ({
    take: (engine, hash) => cached.take(engine, hash),
    give: (replay) => (this.hasMissed ? replay.block.close() : cached.give(replay)),
  })
}

function guess({ reader, messages }: Expected, missing: MissingKeys): void {
  const max = missing.size + MAX_GUESSES
  for (const message of messages) {
    if (missing.size >= max) return
    readNamed(reader, message)
  }
}

/** A view whose states record missing keys. */
class CollectingView extends ForwardingView {
  readonly #missing: MissingKeys

  constructor(view: ChainView, missing: MissingKeys) {
    super(view)
    this.#missing = missing
  }

  override state(block: Block): StateReader {
    return collectingReader(super.state(block), this.#missing)
  }
}
