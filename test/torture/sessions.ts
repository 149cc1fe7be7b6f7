/** What a reading thread does: several leases at once, short and long, of new records and old, and questions to each of them. */
import type { ChainReader, Endpoint, LeasedView } from '../../engine/chain/types.ts'
import { ViewError } from '../../engine/state/reader.ts'
import { FOLD } from '../../engine/views/arena.ts'
import { blockOf, noteSeen, WHOLE } from './ledger.ts'
import { askChain } from './questions-chain.ts'
import { askState, choosePlace, type Place } from './questions-state.ts'
import { checkRefusal, openReading, type Reader, type Reading } from './reading.ts'

export type SessionHabits = {
  readonly leases: number
  readonly longestMs: number
  /** How many of 100 wait between two reads until another block is being folded. */
  readonly foldPaced: number
  /** Share of questions about blocks rather than state. */
  readonly chainShare: number
}

type Session = {
  readonly reading: Reading
  readonly untilMs: number
  readonly isFoldPaced: boolean
  /** The fold word at the last read, and when that was. */
  fold: number
  readAtMs: number
  place: Place | undefined
  /** Somebody else is to take the record over: held until then. */
  isLent: boolean
  /** Void, or not needed any more. */
  isOver: boolean
}

const SHORTEST_MS = 1
/** Sessions of a thread that takes records over. */
const MOST = 12
/** A fold-paced session goes on without a fold after this. */
const PATIENCE_MS = 400

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

  /** One read in each session that may; begins new ones up to the wanted number. */
  turn(): void {
    this.#reader.count('beats')
    while (this.#open.length < this.#habits.leases) this.lease()
    const now = performance.now()
    for (const session of this.#open) this.#read(session, now)
    this.#end(now)
  }

  /** Whether the next turn would read something. */
  get isBusy(): boolean {
    return this.#open.some(({ isFoldPaced }) => !isFoldPaced)
  }

  /** The newest record, through either endpoint where none is named. */
  lease(wanted?: Endpoint): Session {
    const endpoint = wanted ?? (this.#reader.random() < 0.3 ? 'standard' : 'flashblocks')
    return this.#take(this.#chain.lease(endpoint), endpoint)
  }

  /** A record that another thread holds for this one. False: it is gone. */
  adopt(record: number): boolean {
    const leased = this.#chain.adopt(record, 'flashblocks')
    if (leased === undefined) return false
    this.#reader.count('adopted')
    const oldest = this.#open.length > MOST ? this.#open[0] : undefined
    if (oldest !== undefined) this.release(oldest)
    this.#take(leased, 'flashblocks')
    return true
  }

  #take(leased: LeasedView, endpoint: Endpoint): Session {
    const { random, count, truth } = this.#reader
    if (noteSeen(truth.ledger, leased.record)) count('records')
    count('leases')
    const longest = this.#habits.longestMs / SHORTEST_MS
    const now = performance.now()
    const session: Session = {
      reading: openReading(this.#reader, leased, endpoint),
      untilMs: now + SHORTEST_MS * longest ** random(),
      isFoldPaced: random() * 100 < this.#habits.foldPaced,
      fold: this.#fold(),
      readAtMs: now,
      place: undefined,
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

  #fold(): number {
    return Atomics.load(this.#reader.arena.words, FOLD)
  }

  #read(session: Session, now: number): void {
    if (session.isOver) return
    const fold = this.#fold()
    const isSame = fold === session.fold
    if (session.isFoldPaced && isSame && now - session.readAtMs < PATIENCE_MS) return
    if (!isSame) this.#reader.count('foldsBetween')
    session.fold = fold
    session.readAtMs = now
    this.#reader.count('reads')
    this.#countOlder(session.reading)
    try {
      this.#ask(session)
    } catch (error) {
      if (!(error instanceof ViewError)) throw error
      checkRefusal(session.reading, error, session.reading.topHeight, false)
      this.#reader.count('voids')
      session.isOver = true
    }
  }

  #ask(session: Session): void {
    const { random } = this.#reader
    const { reading } = session
    if (random() < this.#habits.chainShare) {
      askChain(reading)
      return
    }
    if (session.place === undefined || random() < 0.3) session.place = choosePlace(reading)
    if (session.place !== undefined) askState(session.place)
  }

  /** The block of this view has got further flashblocks since. */
  #countOlder({ top }: Reading): void {
    if (top.step === WHOLE) return
    const { steps } = blockOf(this.#reader.truth.ledger, top.salt)
    if (steps > top.step + 1) this.#reader.count('olderIndices')
  }

  #end(now: number): void {
    const cancelled = Atomics.load(this.#cancel, 0)
    for (const session of [...this.#open]) {
      if (session.isLent) continue
      const isCancelled = session.reading.leased.record <= cancelled
      if (isCancelled) this.#reader.count('cancelled')
      if (isCancelled || session.isOver || now >= session.untilMs) this.release(session)
    }
  }

  release(session: Session): void {
    session.reading.leased.release()
    this.#open = this.#open.filter((each) => each !== session)
  }
}
