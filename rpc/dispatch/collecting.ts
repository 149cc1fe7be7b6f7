/** The worker's side of a lazy node: a call that misses state goes on for a while, and tells all that it has missed instead of a result. */
import type { Block, ChainView } from '../../engine/chain/types.ts'
import type { KeptReplays } from '../../engine/execution/call/kept-replays.ts'
import type { KeptSession } from '../../engine/execution/call/kept-session.ts'
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

/** How long a call goes on at most that has missed something, with all its runs; each is bounded in gas. */
const MISSED_MS = 100
/** Keys that are guessed for a call beside what it has asked for. */
const MOST_GUESSES = 256

type Parts = Omit<Parameters<typeof createCallRunner>[0], 'lazy'>

/** Runs calls like another, but for those that have missed something: whatever came out of them, their reply is the keys. */
export function createCollectingRunner(parts: Parts): CallRunner {
  const collecting = new Collecting(parts)
  const runner = createCallRunner({
    ...parts,
    lazy: collecting,
    // Of what ran on nothing: no wonder.
    onBug(error, method) {
      if (!collecting.hasMissed) parts.onBug(error, method)
    },
  })
  const told = (reply: WorkerReply): WorkerReply =>
    collecting.hasMissed ? { stale: true, missing: collecting.missed() } : reply
  return {
    run(call, bounds) {
      collecting.begin()
      const isExpired = () => collecting.isSpent || bounds.isExpired()
      const running = runner.run(call, { ...bounds, isExpired })
      return running instanceof Promise ? running.then(told) : told(running)
    },
    endTask: () => runner.endTask(),
  }
}

/** Of a thread, which runs one call after the other. */
class Collecting implements LazyCalls {
  readonly #missing: MissingKeys
  readonly #now: () => number
  #missedAt: number | undefined
  #expected: (() => Expected) | undefined

  constructor({ limits, now }: Pick<Parts, 'limits' | 'now'>) {
    this.#missing = new MissingKeys(limits.fetchKeys)
    this.#now = now
  }

  /** A call begins. */
  begin(): void {
    if (this.hasMissed) this.#missing.clear()
    this.#missedAt = undefined
    this.#expected = undefined
  }
  get hasMissed(): boolean {
    return this.#missing.size > 0
  }
  /** Nothing that comes out will be believed, and it has told what is missing for a while. */
  get isSpent(): boolean {
    if (!this.hasMissed) return false
    this.#missedAt ??= this.#now()
    return this.#now() >= this.#missedAt + MISSED_MS
  }
  /** What the call has missed, and what it will read for certain. */
  missed(): readonly MissingKey[] {
    try {
      if (this.#expected !== undefined) guess(this.#expected(), this.#missing)
    } catch {
      // The state has gone meanwhile, or the call is wrong: what it has asked for stands.
    }
    return this.#missing.list()
  }

  readonly isLost = (): boolean => this.hasMissed
  readonly expects = (of: () => Expected): void => {
    this.#expected = of
  }
  readonly view = (view: ChainView): ChainView => new CollectingView(view, this.#missing)
  /** What has missed something holds what is not so. */
  readonly session = (kept: KeptSession): KeptSession => ({
    reader: kept.reader,
    take: () => kept.take(),
    give: (isWhole) => kept.give(isWhole && !this.hasMissed),
    close: () => kept.close(),
  })
  readonly replays = (kept: KeptReplays): KeptReplays => ({
    take: (engine, hash) => kept.take(engine, hash),
    give: (replay) => (this.hasMissed ? replay.block.close() : kept.give(replay)),
  })
}

function guess({ reader, messages }: Expected, missing: MissingKeys): void {
  const most = missing.size + MOST_GUESSES
  for (const message of messages) {
    if (missing.size >= most) return
    readNamed(reader, message)
  }
}

/** A view whose states note what is missing. */
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
