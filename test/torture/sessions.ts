/**
 * The sessions of a reading thread: several leases at once, short and long, of new and old
 * snapshots, with questions to each.
 */
import type { ChainReader, Endpoint, LeasedView } from '../../engine/chain/types.ts'
import { ViewError } from '../../engine/state/reader.ts'
import { PERSISTED_ID } from '../../engine/views/arena.ts'
import { blockOf, FINAL_STEP, markSeen } from './ledger.ts'
import { requestChain } from './questions-chain.ts'
import { chooseState, requestState, type StateAt } from './questions-state.ts'
import { checkRefusal, openReading, type Reader, type Reading } from './reading.ts'

export type SessionHabits = {
  readonly leases: number
  readonly longestMs: number
  /** Percentage of sessions that wait between two reads until another block is being persisted. */
  readonly persistPaced: number
  /** Share of questions about blocks rather than state. */
  readonly chainShare: number
}

type Session = {
  readonly reading: Reading
  readonly untilMs: number
  readonly isPersistPaced: boolean
  /** The persisted-id word at the last read, and the time of that read. */
  persistedId: number
  readAtMs: number
  at: StateAt | undefined
  /** The session holds the snapshot until another thread has adopted it. */
  isLent: boolean
  /** The view is void, or the session is no longer needed. */
  isOver: boolean
}

const SHORTEST_MS = 1
/** Maximum of sessions in a thread that adopts snapshots. */
const MAX = 12
/** A paced session continues without a persist pass after this time. */
const TIMEOUT_MS = 400

export class Sessions {
  readonly #reader: Reader
  readonly #chain: ChainReader
  readonly #habits: SessionHabits
  readonly #cancel: Int32Array
  #open: Session[] = []

  constructor(options: {
    readonly reader: Reader
    readonly chain: ChainReader
    readonly habits: SessionHabits
    readonly cancel: Int32Array
  }) {
    this.#reader = options.reader
    this.#chain = options.chain
    this.#habits = options.habits
    this.#cancel = options.cancel
  }

  /** Makes one read in each session that is due, and starts sessions up to the wanted number. */
  turn(): void {
    this.#reader.count('beats')
    while (this.#open.length < this.#habits.leases) this.lease()
    const now = performance.now()
    for (const session of this.#open) this.#read(session, now)
    this.#end(now)
  }

  /** Returns whether the next turn would read something. */
  get isBusy(): boolean {
    return this.#open.some(({ isPersistPaced }) => !isPersistPaced)
  }

  /** Leases the newest snapshot, through a random endpoint where none is named. */
  lease(wanted?: Endpoint): Session {
    const endpoint = wanted ?? (this.#reader.random() < 0.3 ? 'standard' : 'flashblocks')
    return this.#take(this.#chain.lease(endpoint), endpoint)
  }

  /** Adopts a snapshot that another thread holds for this one. Returns false when it is gone. */
  adopt(snapshot: number): boolean {
    const leased = this.#chain.adopt(snapshot, 'flashblocks')
    if (leased === undefined) return false
    this.#reader.count('adopted')
    const oldest = this.#open.length > MAX ? this.#open[0] : undefined
    if (oldest !== undefined) this.release(oldest)
    this.#take(leased, 'flashblocks')
    return true
  }

  #take(leased: LeasedView, endpoint: Endpoint): Session {
    const { random, count, truth } = this.#reader
    if (markSeen(truth.ledger, leased.snapshot)) count('snapshots')
    count('leases')
    const longest = this.#habits.longestMs / SHORTEST_MS
    const now = performance.now()
    const session: Session = {
      reading: openReading(this.#reader, leased, endpoint),
      untilMs: now + SHORTEST_MS * longest ** random(),
      isPersistPaced: random() * 100 < this.#habits.persistPaced,
      persistedId: this.#persistedId(),
      readAtMs: now,
      at: undefined,
      isLent: false,
      isOver: false,
    }
    this.#open.push(session)
    return session
  }

  releaseAll(): void {
    for (const { reading } of this.#open) reading.leased.release()
    this.#open = []
  }

  #persistedId(): number {
    return Atomics.load(this.#reader.arena.words, PERSISTED_ID)
  }

  #read(session: Session, now: number): void {
    if (session.isOver) return
    const persistedId = this.#persistedId()
    const isSame = persistedId === session.persistedId
    if (session.isPersistPaced && isSame && now - session.readAtMs < TIMEOUT_MS) return
    if (!isSame) this.#reader.count('persistsBetween')
    session.persistedId = persistedId
    session.readAtMs = now
    this.#reader.count('reads')
    this.#countOlder(session.reading)
    try {
      this.#request(session)
    } catch (error) {
      if (!(error instanceof ViewError)) throw error
      checkRefusal(session.reading, error, session.reading.topHeight, false)
      this.#reader.count('voids')
      session.isOver = true
    }
  }

  #request(session: Session): void {
    const { random } = this.#reader
    const { reading } = session
    if (random() < this.#habits.chainShare) {
      requestChain(reading)
      return
    }
    if (session.at === undefined || random() < 0.3) session.at = chooseState(reading)
    if (session.at !== undefined) requestState(session.at)
  }

  /** Counts views whose block has more flashblocks by now. */
  #countOlder({ top }: Reading): void {
    if (top.step === FINAL_STEP) return
    const { steps } = blockOf(this.#reader.truth.ledger, top.salt)
    if (steps > top.step + 1) this.#reader.count('olderIndices')
  }

  #end(now: number): void {
    const cancelled = Atomics.load(this.#cancel, 0)
    for (const session of [...this.#open]) {
      if (session.isLent) continue
      const isCancelled = session.reading.leased.snapshot <= cancelled
      if (isCancelled) this.#reader.count('cancelled')
      if (isCancelled || session.isOver || now >= session.untilMs) this.release(session)
    }
  }

  release(session: Session): void {
    session.reading.leased.release()
    this.#open = this.#open.filter((each) => each !== session)
  }
}
