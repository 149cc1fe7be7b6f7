/** The worker's side of a lazy node: a call that misses state goes on for a while, and tells all that it has missed instead of a result. */
import type { Block, BlockSelector, ChainView } from '../../engine/chain/types.ts'
import type { KeptReplays } from '../../engine/execution/call/kept-replays.ts'
import type { KeptSession } from '../../engine/execution/call/kept-session.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { EMPTY_HASH } from '../../engine/primitives/keccak.ts'
import { equalBytes } from '../../engine/primitives/words.ts'
import { collectingReader, MissingKeys } from '../../engine/state/collecting.ts'
import { readAccount, readSlot } from '../../engine/state/read.ts'
import type { MissingKey, StateReader } from '../../engine/state/reader.ts'
import type { Expected } from '../method/method.ts'
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
  for (const { from, to, accessList = [] } of messages) {
    if (missing.size >= most) return
    if (from !== undefined) readAccount(reader, from)
    if (to !== undefined) expectCode(reader, to)
    for (const { address, storageKeys } of accessList) {
      expectCode(reader, address)
      for (const key of storageKeys) readSlot(reader, address, key)
    }
  }
}

function expectCode(reader: StateReader, address: Bytes): void {
  const account = readAccount(reader, address)
  if (account !== undefined && !equalBytes(account.codeHash, EMPTY_HASH))
    reader.code(account.codeHash)
}

/** A view whose states note what is missing. */
class CollectingView implements ChainView {
  readonly record: number
  readonly endpoint: ChainView['endpoint']
  readonly canonical: ChainView['canonical']
  readonly latest: ChainView['latest']
  readonly pending: ChainView['pending']
  readonly earliest: bigint
  readonly oldestState: bigint
  readonly #view: ChainView
  readonly #missing: MissingKeys

  constructor(view: ChainView, missing: MissingKeys) {
    this.#view = view
    this.#missing = missing
    this.record = view.record
    this.endpoint = view.endpoint
    this.canonical = view.canonical
    this.latest = view.latest
    this.pending = view.pending
    this.earliest = view.earliest
    this.oldestState = view.oldestState
  }

  state(block: Block): StateReader {
    return collectingReader(this.#view.state(block), this.#missing)
  }
  block(selector: BlockSelector): Block | undefined {
    return this.#view.block(selector)
  }
  growth(...of: Parameters<ChainView['growth']>): ReturnType<ChainView['growth']> {
    return this.#view.growth(...of)
  }
  cacheKey(...of: Parameters<ChainView['cacheKey']>): string {
    return this.#view.cacheKey(...of)
  }
  logSpans(...of: Parameters<ChainView['logSpans']>): ReturnType<ChainView['logSpans']> {
    return this.#view.logSpans(...of)
  }
  logRows(number: bigint): ReturnType<ChainView['logRows']> {
    return this.#view.logRows(number)
  }
  findTransaction(hash: Bytes): ReturnType<ChainView['findTransaction']> {
    return this.#view.findTransaction(hash)
  }
  foldedNumbers(hashes: readonly Bytes[]): ReturnType<ChainView['foldedNumbers']> {
    return this.#view.foldedNumbers(hashes)
  }
  trieAt(...of: Parameters<ChainView['trieAt']>): ReturnType<ChainView['trieAt']> {
    return this.#view.trieAt(...of)
  }
  env(block: Block): ReturnType<ChainView['env']> {
    return this.#view.env(block)
  }
}
