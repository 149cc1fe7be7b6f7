/**
 * Fills a flashblock: executes txpool transactions as they are offered, within quotas of gas and
 * time.
 */
import type { InvalidCode } from '../../execution/transaction/invalid.ts'
import type { BlockCheckpoint, BlockExecution } from '../../execution/transaction/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import type { SignedEnvelope, Transaction } from '../../primitives/transaction.ts'
import { decodeTransaction, TransactionError } from '../../primitives/transaction-codec.ts'
import { GaslessBudget, isFree } from './gasless-budget.ts'
import { createStops, LAST, SLICES, type Stops } from './stops.ts'
import type { Rejected, Reserved } from './types.ts'

export type Filled = {
  readonly executed: number
  readonly rejected: readonly Rejected[]
  /** Hashes of offered transactions that stay for later. */
  readonly left: readonly Bytes[]
  /** Time ran out before the end of the list, or a transaction was stopped. */
  readonly isOutOfTime: boolean
  /** A transaction that ran longer than a flashblock's quota. */
  readonly long?: Long
}
export type Long = { readonly hash: string; readonly gasLimit: bigint; readonly ms: number }
export type Quota = {
  /** Gas that the block may have used afterwards. */
  readonly gas: bigint
  /** Milliseconds of execution for the whole flashblock. */
  readonly ms: number
  readonly now: () => number
  /** Processor time of this thread. Other load on the machine does not shorten a long try. */
  readonly cpuMs: () => number
}

/** Part of the quota that must be left for the last slice. */
const NEARLY_ALL = 3 / 4
/**
 * Multiple of the quota. A try that lasts so long has an unstoppable step, so the next try is the
 * last.
 */
const FAR_TOO_LONG = 2
/**
 * 25 Mgas/s. Every opcode is several times as fast, so transactions of opcodes alone are included
 * also on a busy machine. The slower precompiled contracts are in bench/README.md.
 */
const MIN_GAS_PER_MS = 25_000n
/** Pause after a failed long try, in multiples of its duration, because no fee pays for it. */
const BACKOFF_FACTOR = 20
export const TOO_LONG = 'takes too long for its gas'
export const ABOVE_GASLESS = 'uses more gas than gasless transactions have in a block'

export interface Filler {
  start(execution: BlockExecution, quota: Quota): Filling
  /** Returns hashes of stopped transactions that will be tried again. */
  stopped(): readonly Bytes[]
  /** Whether gasless transactions wait for the next block. */
  isGaslessSpent(execution: BlockExecution): boolean
  /**
   * Forgets transactions included below block `number`, because the txpool knows of them by then.
   */
  forget(number: bigint): void
  /** Marks a transaction as included, e.g. when a block is started again. */
  include(number: bigint, hash: Bytes): void
  /** Unmarks a transaction whose flashblock was never cut. */
  exclude(hash: Bytes): void
  /** Unmarks all transactions from this height on, because those blocks were taken back. */
  excludeFrom(number: bigint): void
}

/**
 * Makes a filler.
 * @param gaslessGas limit of gas for gasless transactions in a block; undefined: no limit
 */
export function createFiller(gaslessGas?: bigint): Filler {
  const gasless = new GaslessBudget(gaslessGas)
  const memory: Memory = { included: new Map(), stops: createStops(), gasless, longFrom: 0 }
  const { included, stops } = memory
  return {
    start: (execution, quota) => new SlicedFilling(memory, execution, quota),
    stopped: () => stops.hashes(),
    isGaslessSpent: (execution) => gasless.isSpent(execution),
    forget(number) {
      for (const [hash, height] of included) if (height < number) included.delete(hash)
      stops.forget(number)
    },
    include(number, hash) {
      included.set(bytesToHex(hash), number)
    },
    exclude(hash) {
      included.delete(bytesToHex(hash))
    },
    excludeFrom(number) {
      for (const [hash, height] of included) if (height >= number) included.delete(hash)
    },
  }
}

export interface Filling {
  /**
   * Tries transactions in this order until `part` of the time is spent. Those that do not fit, or
   * wait for an earlier nonce, are left for later.
   */
  offer(transactions: readonly SignedEnvelope[], part?: number): Promise<Tried>
  /** Reserves gas in the rest of the block for this transaction; undefined reserves none. */
  reserve(reserved: Reserved | undefined): void
  /** Raises the flashblock's time to at least `ms`. */
  extend(ms: number): void
  /** Tries the stopped transactions. */
  finish(): Promise<Filled>
  /** Milliseconds spent in `offer` and `finish`. */
  readonly spentMs: number
}
export type Tried = {
  /** A stopped transaction left gas to others, and there is time for them. */
  readonly isMoreWanted: boolean
  /** Hashes of transactions that the time did not reach; they may be offered again. */
  readonly unreached: readonly Bytes[]
}

/** State that lasts from one flashblock to the next. */
type Memory = {
  /** Height by transaction hash; the txpool learns of an inclusion only at its publish. */
  readonly included: Map<string, bigint>
  readonly stops: Stops
  readonly gasless: GaslessBudget
  /** Time before which no long try starts. */
  longFrom: number
}
type Candidate = {
  readonly transaction: Transaction
  readonly hash: string
  readonly sender: string
  readonly nonce: bigint
  /** The transaction is not tried again in this flashblock. */
  isSettled: boolean
}

/** Fills one flashblock level by level, and within each level in the given order. */
class SlicedFilling implements Filling {
  readonly #memory: Memory
  readonly #execution: BlockExecution
  #quota: Quota
  readonly #candidates = new Map<string, Candidate>()
  readonly #rejected: Rejected[] = []
  readonly #left = new Map<string, Bytes>()
  /** Senders whose later nonces wait for another flashblock. */
  readonly #waiting = new Set<string>()
  /** Levels by sender at which an earlier nonce is tried. */
  readonly #levels: Map<string, number>
  #executed = 0
  #isOutOfTime = false
  #long: Long | undefined
  #reserved: { readonly hash: string; readonly gasLimit: bigint } | undefined
  #spentMs = 0
  #since = 0

  constructor(memory: Memory, execution: BlockExecution, quota: Quota) {
    this.#memory = memory
    this.#execution = execution
    this.#quota = quota
    this.#levels = memory.stops.levels()
  }

  get spentMs(): number {
    return this.#spentMs
  }

  offer(transactions: readonly SignedEnvelope[], part = 1): Promise<Tried> {
    return this.#timed(() => this.#offer(transactions, part))
  }

  reserve(reserved: Reserved | undefined): void {
    this.#reserved = reserved && { hash: bytesToHex(reserved.hash), gasLimit: reserved.gasLimit }
  }

  extend(ms: number): void {
    this.#quota = { ...this.#quota, ms: Math.max(ms, this.#quota.ms) }
  }

  finish(): Promise<Filled> {
    return this.#timed(() => this.#finish())
  }

  async #timed<T>(work: () => Promise<T>): Promise<T> {
    this.#since = this.#quota.now()
    try {
      return await work()
    } finally {
      this.#spentMs += this.#quota.now() - this.#since
    }
  }

  async #offer(transactions: readonly SignedEnvelope[], part: number): Promise<Tried> {
    const { stops } = this.#memory
    let isOneStopped = false
    for (const [at, envelope] of transactions.entries()) {
      if (this.#isOver(part)) {
        this.#isOutOfTime ||= part === 1
        const unreached = transactions.slice(at).map(({ raw }) => keccak256(raw))
        for (const hash of unreached) this.#left.set(bytesToHex(hash), hash)
        return { isMoreWanted: false, unreached }
      }
      const transaction = decode(envelope, (rejected) => this.#reject(rejected))
      if (!transaction) continue
      const [hash, sender] = [bytesToHex(transaction.hash), bytesToHex(transaction.from)]
      if (this.#candidates.has(hash)) continue
      const candidate = { transaction, hash, sender, nonce: nonceOf(transaction), isSettled: false }
      this.#candidates.set(hash, candidate)
      // A sender that replaces a slow transaction no longer waits for it.
      if (stops.replace(candidate)) this.#levels.set(sender, stops.levels().get(sender) ?? 0)
      this.#left.set(hash, transaction.hash)
      await this.#visit(candidate, 0)
      isOneStopped ||= !candidate.isSettled
    }
    return { isMoreWanted: isOneStopped && !this.#isOver(part), unreached: [] }
  }

  async #finish(): Promise<Filled> {
    // The transactions came in several lists, so each sender's are sorted by nonce.
    const left = [...this.#candidates.values()]
      .filter(({ isSettled }) => !isSettled)
      .toSorted((a, b) => compare(a.nonce, b.nonce))
    for (let level = 1; level <= LAST; level++) {
      this.#levels.clear()
      for (const candidate of left) if (!candidate.isSettled) await this.#visit(candidate, level)
    }
    return {
      executed: this.#executed,
      rejected: this.#rejected,
      left: [...this.#left.values()],
      isOutOfTime: this.#isOutOfTime,
      ...(this.#long === undefined ? {} : { long: this.#long }),
    }
  }

  #remainingMs(now: number, part = 1): number {
    return this.#quota.ms * part - this.#spentMs - (now - this.#since)
  }

  #isOver(part: number): boolean {
    return this.#remainingMs(this.#quota.now(), part) <= 0
  }

  #reject(rejected: Rejected): void {
    this.#left.delete(bytesToHex(rejected.hash))
    this.#rejected.push(rejected)
  }

  async #visit(candidate: Candidate, level: number): Promise<void> {
    const { transaction, hash, sender } = candidate
    const { included, stops } = this.#memory
    const own = Math.max(stops.level(candidate), this.#levels.get(sender) ?? 0)
    this.#levels.set(sender, own)
    // After a reorg, the sender's stopped transaction may have a larger nonce. The level is then
    // higher than necessary.
    if (own > level) return
    candidate.isSettled = true
    if (included.has(hash)) this.#left.delete(hash)
    if (included.has(hash) || this.#waiting.has(sender)) return
    const remainingMs = this.#remainingMs(this.#quota.now())
    const isFullSlice =
      remainingMs >= this.#quota.ms * (level === LAST ? NEARLY_ALL : SLICES[level]!)
    const isLong = stops.isLong(candidate) && longMs(transaction) > this.#quota.ms
    const isBackedOff = isLong && this.#quota.now() < this.#memory.longFrom
    if (isBackedOff || (level > 0 && !isFullSlice)) {
      this.#isOutOfTime = true
      return
    }
    // Later nonces of the sender wait unless this transaction is included.
    this.#waiting.add(sender)
    if (isFree(transaction, this.#execution) && this.#memory.gasless.isSpent(this.#execution))
      return
    if (transaction.gasLimit <= this.#gasLimitFor(hash) - this.#execution.gasUsed)
      await this.#execute(candidate, { level, isFullSlice, isLong })
  }

  /** Gas that the block may have used after the transaction with this hash. */
  #gasLimitFor(hash: string): bigint {
    const { gas } = this.#quota
    if (this.#reserved === undefined || this.#reserved.hash === hash) return gas
    const others = this.#execution.attributes.gasLimit - this.#reserved.gasLimit
    return others < gas ? others : gas
  }

  async #execute(candidate: Candidate, by: Try): Promise<void> {
    const { transaction, hash } = candidate
    const { stops } = this.#memory
    const { now, cpuMs, ms } = this.#quota
    const before = this.#execution.checkpoint()
    const startedAt = now()
    const isExpired = by.isLong
      ? after(longMs(transaction), cpuMs)
      : after(Math.min(this.#remainingMs(startedAt), ms * SLICES[by.level]!), now)
    const done = await this.#execution.execute(transaction, { isExpired })
    const lastedMs = now() - startedAt
    if (lastedMs > ms) this.#long = { hash, gasLimit: transaction.gasLimit, ms: lastedMs }
    if (done.status === 'executed') {
      stops.delete(candidate)
      if (this.#fitsGasless(candidate, before)) this.#include(candidate)
    } else if (done.status === 'invalid') {
      if (!isForLater(done.reason.code, transaction))
        this.#reject({ hash: transaction.hash, reason: done.reason.message })
    } else {
      this.#isOutOfTime = true
      if (by.isLong) this.#memory.longFrom = now() + BACKOFF_FACTOR * lastedMs
      if (by.isFullSlice) this.#stopped(candidate, { level: by.level, lastedMs })
    }
  }

  #include({ hash, sender }: Candidate): void {
    this.#waiting.delete(sender)
    this.#left.delete(hash)
    this.#memory.included.set(hash, this.#execution.attributes.number)
    this.#executed++
  }

  /** Reverts a gasless transaction that exceeds the gasless budget. */
  #fitsGasless({ transaction }: Candidate, before: BlockCheckpoint): boolean {
    if (!isFree(transaction, this.#execution)) return true
    const verdict = this.#memory.gasless.judge(this.#execution)
    if (verdict === 'fits') return true
    this.#execution.revert(before)
    if (verdict === 'never') this.#reject({ hash: transaction.hash, reason: ABOVE_GASLESS })
    return false
  }

  #stopped(
    candidate: Candidate,
    { level, lastedMs }: { readonly level: number; readonly lastedMs: number },
  ): void {
    const { number } = this.#execution.attributes
    const isFarTooLong = lastedMs >= this.#quota.ms * FAR_TOO_LONG
    const next = this.#memory.stops.add(candidate, number, isFarTooLong)
    if (next === 'hopeless')
      this.#reject({ hash: candidate.transaction.hash, reason: TOO_LONG, isFinal: true })
    else if (level < LAST) {
      this.#waiting.delete(candidate.sender)
      this.#levels.set(candidate.sender, next)
      candidate.isSettled = false
    }
  }
}
type Try = { readonly level: number; readonly isFullSlice: boolean; readonly isLong: boolean }

function after(ms: number, clock: () => number): () => boolean {
  const end = clock() + ms
  return () => clock() >= end
}
/** Milliseconds that the transaction's gas is worth. */
const longMs = ({ gasLimit }: Transaction): number => Number(gasLimit / MIN_GAS_PER_MS)

const compare = (a: bigint, b: bigint) => (a < b ? -1 : a > b ? 1 : 0)
const nonceOf = (transaction: Transaction) => ('nonce' in transaction ? transaction.nonce : 0n)

/**
 * Whether an invalid transaction may become valid in a later block; the txpool decides how long to
 * retain it. A fee cap of zero is never enough later.
 */
function isForLater(code: InvalidCode, transaction: Transaction): boolean {
  if (code === 'feeBelowBaseFee') return feeCapOf(transaction) > 0n
  return (
    code === 'nonceTooHigh' || code === 'exceedsBlockGasLimit' || code === 'exceedsDaFootprintLimit'
  )
}

function feeCapOf(transaction: Transaction): bigint {
  if ('maxFeePerGas' in transaction) return transaction.maxFeePerGas
  return 'gasPrice' in transaction ? transaction.gasPrice : 0n
}

function decode(
  { raw, from }: SignedEnvelope,
  reject: (rejected: Rejected) => void,
): Transaction | undefined {
  try {
    return decodeTransaction(raw, from)
  } catch (error) {
    if (!(error instanceof TransactionError)) throw error
    reject({ hash: keccak256(raw), reason: error.message })
    return undefined
  }
}
