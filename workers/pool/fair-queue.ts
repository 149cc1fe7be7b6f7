/**
 * The waiting calls of one queue class. Addresses take turns, by deficit round robin over cost. An
 * address pays the predicted cost when its call is taken, and the difference once the cost is
 * measured. Its credit may fall below zero; the address is then skipped until its turns have paid
 * the debt.
 */

import { createFifo, type Fifo } from '../../rpc/core/fifo.ts'
import type { QueueClassRow } from '../../rpc/core/queue-class.ts'

export type Queued = {
  /** Address whose turn the call needs. */
  readonly client: string
  /** Predicted cost in microseconds. */
  readonly predicted: number
  /** Predicted cost where such calls were measured; undefined means that `predicted` is a guess. */
  readonly knownUs?: number | undefined
}
type Account<T> = {
  readonly client: string
  readonly jobs: Fifo<T>
  /** Sum of the costs of its waiting calls whose cost is known. */
  knownUs: number
  /** Credit in microseconds. */
  credit: number
  /** The account has already received the credit of its current turn. */
  isInTurn: boolean
}

/** Maximum debt of an address: ten seconds of a worker. */
const MAX_DEBT_US = 10_000_000
/** Maximum credit of an address that was charged more than its calls cost. */
const MAX_CREDIT_US = 100_000
/** Number of addresses without a waiting call whose debt is remembered. */
const MAX_DEBTORS = 4_096

export class FairQueue<T extends Queued> {
  readonly #row: QueueClassRow
  readonly #accounts = new Map<string, Account<T>>()
  /** Accounts with waiting calls; the first has the turn. */
  readonly #ring: Fifo<Account<T>> = createFifo()
  readonly #debts: Debts
  #length = 0
  #waitingUs = 0

  /** @param now monotonic milliseconds */
  constructor(row: QueueClassRow, now: () => number) {
    this.#row = row
    this.#debts = createDebts(now)
  }

  get length(): number {
    return this.#length
  }
  /** Sum of the predicted costs of all waiting calls, in microseconds. */
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

  /** Takes the next task: at most `max` calls that may start. It is empty when none may. */
  take(max: number, mayStart: (job: T) => boolean): readonly T[] {
    const { isMixed, taskUs } = this.#row
    const taken: T[] = []
    let micros = 0
    let account: Account<T> | undefined
    while (taken.length < max) {
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

  /** Corrects the credit of an address by the difference between measured and predicted cost. */
  charge(client: string, micros: number): void {
    const account = this.#accounts.get(client)
    if (account === undefined) this.#debts.set(client, this.#debts.take(client) - micros)
    else account.credit = Math.max(-MAX_DEBT_US, Math.min(MAX_CREDIT_US, account.credit - micros))
  }

  /**
   * Estimates the work that is done before the next call of an address runs. That is its own
   * waiting calls and, for each other address, up to as much. Only known costs and addresses
   * without debt count, so the real wait may be longer.
   * @returns microseconds
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

  /** Returns the call of an address that has `newer` calls of that address after it. */
  before(client: string, newer: number): T | undefined {
    return this.#accounts.get(client)?.jobs.before(newer)
  }

  /** Removes the newest call of an address. */
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

  /** Tells whether the next call of any address satisfies `is`. */
  someFirst(is: (job: T) => boolean): boolean {
    return this.#ring.some(({ jobs }) => is(jobs.first!))
  }

  /**
   * Returns the account that has the turn. Accounts before it move to the end when they may not
   * start or have no credit.
   */
  #turn(mayStart: (job: T) => boolean): Account<T> | undefined {
    const { turnUs } = this.#row
    const ring = this.#ring
    let minDebt = Number.POSITIVE_INFINITY
    for (let seen = ring.length; seen > 0; seen--) {
      const account = ring.first!
      if (mayStart(account.jobs.first!)) {
        if (!account.isInTurn) account.credit += turnUs
        account.isInTurn = true
        if (account.credit > 0) return account
        minDebt = Math.min(minDebt, -account.credit)
      }
      this.#rotate()
    }
    if (minDebt === Number.POSITIVE_INFINITY) return undefined
    /*
     * All accounts are in debt. Each gets as many turns at once as the smallest debt needs, which
     * saves empty rounds.
     */
    const granted = (Math.floor(minDebt / turnUs) + 1) * turnUs
    for (let seen = ring.length; seen > 0; seen--) {
      if (mayStart(ring.first!.jobs.first!)) ring.first!.credit += granted
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
/** Debts of addresses without a waiting call. Time reduces a debt as fast as a worker would. */
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
      debts.set(client, { credit: Math.max(-MAX_DEBT_US, credit), at: now() })
      if (debts.size > MAX_DEBTORS) debts.delete(debts.keys().next().value!)
    },
  }
}
