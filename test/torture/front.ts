/** A front reads by itself in short turns, and lends the snapshots of its batches to readers. */
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
  /** Batches lent to readers at the same time. */
  readonly loans: number
  /** Share of the batches that the front holds until a reader takes them over. */
  readonly pinnedLoans: number
  /** Indexes of its readers. */
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
  readonly snapshot: number
  readonly isPinned: boolean
}

/** Average number of turns between two lent batches. */
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

  /**
   * Leases a batch here and offers it to a reader. Mostly the front holds it until the reader has
   * it; otherwise the offer may come too late.
   */
  #lend(): void {
    const { lend, random, habits } = this.#options
    const { readers, loans, pinnedLoans } = habits
    if (this.#loans.length >= loans) return
    const session = this.#sessions.lease('flashblocks')
    const { snapshot } = session.reading.leased
    const state = lend(snapshot, readers[Math.floor(random() * readers.length)]!)
    if (state === undefined) return
    const isPinned = random() < pinnedLoans
    if (isPinned) session.isLent = true
    else this.#sessions.release(session)
    const isShort = random() < 0.5
    const end = () => {
      session.isLent = false
      session.isOver ||= isShort
    }
    this.#loans.push({ state, snapshot, isPinned, end })
  }

  #settle(): void {
    for (const loan of this.#loans) {
      const state = loan.state()
      if (state === 'waiting') continue
      loan.end()
      this.#loans = this.#loans.filter((each) => each !== loan)
      if (state !== 'gone') continue
      if (loan.isPinned)
        this.#options.onFault(`snapshot ${loan.snapshot} was refused while the front held it`)
      else this.#options.count('refused')
    }
  }
}
