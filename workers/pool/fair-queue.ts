/**
 * One lane's waiting calls, which addresses have in turn: deficit round robin by cost. What a call costs is known after it has run, so an
 * address pays what was predicted when its call is taken, and the difference when it was measured; its credit may fall below zero, and it
 * is passed over until its turns have paid for that.
 */

import { createFifo, type Fifo } from '../../rpc/seam/fifo.ts'
import type { LaneRow } from '../../rpc/seam/lane.ts'

export type Queued = {
  /** Whose turn it needs. */
  readonly client: string
  /** Microseconds. */
  readonly predicted: number
  /** The same where such calls were measured; left out: it is a guess. */
  readonly knownUs?: number | undefined
}
type Account<T> = {
  readonly client: string
  readonly jobs: Fifo<T>
  /** Of its calls whose cost is known. */
  knownUs: number
  /** Microseconds. */
  credit: number
  /** It has been given the credit of the turn that it has now. */
  isInTurn: boolean
}

/** No address is in debt for more: ten seconds of a worker. */
const MOST_DEBT_US = 10_000_000
/** Nor is one ahead by more, which has been charged for calls that cost little. */
const MOST_CREDIT_US = 100_000
/** Addresses whose debt is kept while none of their calls waits. */
const MOST_DEBTORS = 4_096

export class FairQueue<T extends Queued> {
  readonly #row: LaneRow
  readonly #accounts = new Map<string, Account<T>>()
  /** Accounts with calls; the first has its turn. */
  readonly #ring: Fifo<Account<T>> = createFifo()
  readonly #debts: Debts
  #length = 0
  #waitingUs = 0

  /** @param now monotonic milliseconds */
  constructor(row: LaneRow, now: () => number) {
    this.#row = row
    this.#debts = createDebts(now)
  }

  get length(): number {
    return this.#length
  }
  /** Predicted microseconds of all that wait. */
  get waitingUs(): number {
    return this.#waitingUs
  }

  push(job: T, isFirst = false): void {
    const { client } = job
    let account = this.#accounts.get(client)
    if (account === undefined) {
      const credit = this.#debts.take(client)
      account = { client, jobs: createFifo(), knownUs: 0, credit, isInTurn: false }
      this.#accounts.set(client, account)
      this.#ring.push(account)
    }
    if (isFirst) account.jobs.unshift(job)
    else account.jobs.push(job)
    account.knownUs += job.knownUs ?? 0
    this.#length++
    this.#waitingUs += job.predicted
  }

  /** The next task: at most so many, of those that may start; empty: none may. */
  take(most: number, mayStart: (job: T) => boolean): readonly T[] {
    const { isMixed, taskUs } = this.#row
    const taken: T[] = []
    let micros = 0
    let account: Account<T> | undefined
    while (taken.length < most) {
      if (account === undefined || isMixed) account = this.#turn(mayStart)
      const job = account?.jobs.first
      if (account === undefined || job === undefined) break
      if (taken.length > 0 && micros + job.predicted > taskUs) break
      taken.push(account.jobs.shift()!)
      account.knownUs -= job.knownUs ?? 0
      micros += job.predicted
      account.credit -= job.predicted
      if (account.jobs.length === 0) {
        this.#close(this.#ring.shift()!)
        account = undefined
        if (!isMixed) break
      } else if (isMixed) this.#endTurn(account)
    }
    if (account !== undefined && !isMixed) this.#endTurn(account)
    return this.#left(taken)
  }

  /** What a call that was taken has cost beyond its prediction, or below it. */
  charge(client: string, micros: number): void {
    const account = this.#accounts.get(client)
    if (account === undefined) this.#debts.set(client, this.#debts.take(client) - micros)
    else account.credit = Math.max(-MOST_DEBT_US, Math.min(MOST_CREDIT_US, account.credit - micros))
  }

  /**
   * Microseconds of work that are done before the next call of an address: its own calls that wait, and of each other one as much, which has
   * its turns meanwhile. Of what is known of them, and of who is not in debt: it may be more.
   */
  beforeUs(client: string): number {
    const own = this.#accounts.get(client)?.knownUs ?? 0
    if (own === 0) return 0
    let before = own
    for (const other of this.#accounts.values())
      if (other.client !== client && other.credit >= 0) before += Math.min(own, other.knownUs)
    return before
  }

  lengthOf(client: string): number {
    return this.#accounts.get(client)?.jobs.length ?? 0
  }

  /** Of an address, the call that so many of its own have come after. */
  before(client: string, newer: number): T | undefined {
    return this.#accounts.get(client)?.jobs.before(newer)
  }

  /** Takes the newest of an address. */
  pop(client: string): T | undefined {
    const account = this.#accounts.get(client)
    const job = account?.jobs.pop()
    if (account === undefined || job === undefined) return undefined
    account.knownUs -= job.knownUs ?? 0
    if (account.jobs.length === 0)
      for (const one of this.#ring.remove((each) => each === account)) this.#close(one)
    return this.#left([job])[0]
  }

  remove(isGone: (job: T) => boolean): readonly T[] {
    const gone: T[] = []
    for (const account of this.#accounts.values())
      for (const job of account.jobs.remove(isGone)) {
        account.knownUs -= job.knownUs ?? 0
        gone.push(job)
      }
    if (gone.length > 0)
      for (const one of this.#ring.remove(({ jobs }) => jobs.length === 0)) this.#close(one)
    return this.#left(gone)
  }

  /** Whether a call whose turn it could be is such a one. */
  someFirst(is: (job: T) => boolean): boolean {
    return this.#ring.some(({ jobs }) => is(jobs.first!))
  }

  /** Whose turn it is; those before it that may not start or have nothing to spend go to the end. */
  #turn(mayStart: (job: T) => boolean): Account<T> | undefined {
    const { turnUs } = this.#row
    const ring = this.#ring
    let leastDebt = Number.POSITIVE_INFINITY
    for (let seen = ring.length; seen > 0; seen--) {
      const account = ring.first!
      if (mayStart(account.jobs.first!)) {
        if (!account.isInTurn) account.credit += turnUs
        account.isInTurn = true
        if (account.credit > 0) return account
        leastDebt = Math.min(leastDebt, -account.credit)
      }
      this.#rotate()
    }
    if (leastDebt === Number.POSITIVE_INFINITY) return undefined
    // All are in debt, so that nothing but rounds would pass: as many as one of them needs, at once.
    const paid = (Math.floor(leastDebt / turnUs) + 1) * turnUs
    for (let seen = ring.length; seen > 0; seen--) {
      if (mayStart(ring.first!.jobs.first!)) ring.first!.credit += paid
      this.#rotate()
    }
    return this.#turn(mayStart)
  }

  #rotate(): void {
    const account = this.#ring.shift()!
    account.isInTurn = false
    this.#ring.push(account)
  }

  #endTurn(account: Account<T>): void {
    if (account.credit > 0) return
    if (this.#ring.length > 1) this.#rotate()
    else account.isInTurn = false
  }

  #close({ client, credit }: Account<T>): void {
    this.#accounts.delete(client)
    this.#debts.set(client, credit)
  }

  #left(jobs: readonly T[]): readonly T[] {
    this.#length -= jobs.length
    for (const { predicted } of jobs) this.#waitingUs -= predicted
    if (this.#length === 0) this.#waitingUs = 0
    return jobs
  }
}

type Debts = {
  take(client: string): number
  set(client: string, credit: number): void
}
/** What addresses owe that have no call waiting: time pays it off as a worker would. */
function createDebts(now: () => number): Debts {
  const debts = new Map<string, { readonly credit: number; readonly at: number }>()
  return {
    take(client) {
      const debt = debts.get(client)
      if (debt === undefined) return 0
      debts.delete(client)
      return Math.min(0, debt.credit + (now() - debt.at) * 1_000)
    },
    set(client, credit) {
      debts.delete(client)
      if (credit >= 0) return
      debts.set(client, { credit: Math.max(-MOST_DEBT_US, credit), at: now() })
      if (debts.size > MOST_DEBTORS) debts.delete(debts.keys().next().value!)
    },
  }
}
