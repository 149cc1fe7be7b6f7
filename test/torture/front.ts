/** A front: reads by itself in short turns, and lends the records of its batches to the readers. */
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import type { ChainReader } from '../../engine/chain/types.ts'
import { openArena } from '../../engine/views/arena.ts'
import type { SharedViews } from '../../engine/views/types.ts'
import type { Count } from './counters.ts'
import type { SharedLedger } from './ledger.ts'
import type { Lend } from './offers.ts'
import { type SessionHabits, Sessions } from './sessions.ts'
import { openTruth } from './truth.ts'

export type FrontHabits = {
  readonly sessions: SessionHabits
  /** Batches lent to readers at a time. */
  readonly loans: number
  /** Share of them that are held until they are taken over. */
  readonly heldLoans: number
  /** The numbers of its readers. */
  readonly readers: readonly number[]
}
type Options = {
  readonly chain: ChainReader
  readonly habits: FrontHabits
  readonly views: SharedViews
  readonly ledger: SharedLedger
  readonly control: Int32Array<SharedArrayBuffer>
  readonly lend: Lend
  readonly random: () => number
  readonly count: Count
  readonly onFault: (message: string) => void
}

type Loan = {
  readonly state: () => 'waiting' | 'taken' | 'gone'
  end(): void
  readonly record: number
  readonly isHeld: boolean
}

/** Turns between two batches that are lent, on average. */
const LEND_EVERY = 2

export class Front {
  readonly #options: Options
  readonly #sessions: Sessions
  #loans: Loan[] = []

  constructor(options: Options) {
    this.#options = options
    const { chain, habits, views, ledger, control, random, count } = options
    const arena = openArena(views)
    const reader = { arena, truth: openTruth(ledger), random, count, flatReads: () => 0 }
    this.#sessions = new Sessions({ reader, chain, habits: habits.sessions, cancel: control })
  }

  async turn(): Promise<void> {
    try {
      if (this.#options.random() * LEND_EVERY < 1) this.#lend()
      this.#settle()
      this.#sessions.turn()
    } catch (error) {
      this.#options.onFault(`the front: ${(error as Error).stack}`)
    }
    await (this.#options.random() < 0.5 ? turn() : sleep(1))
  }

  releaseAll(): void {
    this.#sessions.releaseAll()
  }

  /** A batch: leased here, read there as well. Mostly it is held until the other has it; otherwise that may come too late. */
  #lend(): void {
    const { lend, random, habits } = this.#options
    const { readers, loans, heldLoans } = habits
    if (this.#loans.length >= loans) return
    const session = this.#sessions.lease('flashblocks')
    const { record } = session.reading.leased
    const state = lend(record, readers[Math.floor(random() * readers.length)]!)
    if (state === undefined) return
    const isHeld = random() < heldLoans
    if (isHeld) session.isLent = true
    else this.#sessions.release(session)
    const isShort = random() < 0.5
    const end = () => {
      session.isLent = false
      session.isOver ||= isShort
    }
    this.#loans.push({ state, record, isHeld, end })
  }

  #settle(): void {
    for (const loan of this.#loans) {
      const state = loan.state()
      if (state === 'waiting') continue
      loan.end()
      this.#loans = this.#loans.filter((each) => each !== loan)
      if (state !== 'gone') continue
      if (loan.isHeld)
        this.#options.onFault(`record ${loan.record} was refused while the front held it`)
      else this.#options.count('refused')
    }
  }
}
