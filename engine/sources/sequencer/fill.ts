/** Fills a flashblock: executes transactions of the txpool as they are offered, within a gas and a time quota. */
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
  /** Hashes of those that were offered and stay for later. */
  readonly left: readonly Bytes[]
  /** The time was over before the list was, or a transaction was stopped. */
  readonly isOutOfTime: boolean
  /** Had more time than a flashblock has. */
  readonly long?: Long
}
export type Long = { readonly hash: string; readonly gasLimit: bigint; readonly ms: number }
export type Quota = {
  /** What the block may have used afterwards. */
  readonly gas: bigint
  /** Milliseconds of work for all of it. */
  readonly ms: number
  readonly now: () => number
  /** Processor time of this thread: what else the machine does takes none of a long try. */
  readonly cpuMs: () => number
}

/** The last slice is worth a try while this part of the quota is left. */
const NEARLY_ALL = 3 / 4
/** Quotas that a try may last when a single step of it cannot be stopped: the next one is the last. */
const FAR_TOO_LONG = 2
/**
 * 25 Mgas/s. Every opcode is several times as fast, so that a transaction of them alone is included also where the machine has other work;
 * the precompiled contracts that are slower are in bench/README.md.
 */
const LEAST_GAS_PER_MS = 25_000n
/** After a long try in vain, for which nobody has paid, there is none for so many times as long. */
const REST = 20
export const TOO_LONG = 'takes too long for its gas'
export const ABOVE_GASLESS = 'uses more gas than gasless transactions have in a block'

export interface Filler {
  /** The next flashblock. */
  begin(execution: BlockExecution, quota: Quota): Filling
  /** Hashes of those that were stopped and are to be tried again. */
  stopped(): readonly Bytes[]
  /** Whether transactions without a fee wait for the block after this one. */
  isGaslessSpent(execution: BlockExecution): boolean
  /** Forgets what was included below block `number`: the txpool has heard of it by then. */
  forget(number: bigint): void
  /** Counts as included, e.g. when a block is begun again. */
  include(number: bigint, hash: Bytes): void
  /** It is not: its flashblock was never cut. */
  exclude(hash: Bytes): void
  /** Nothing is included from this height on: those blocks were taken back. */
  excludeFrom(number: bigint): void
}

/** @param gaslessGas that gasless transactions may use of a block; undefined: no bound */
export function createFiller(gaslessGas?: bigint): Filler {
  const gasless = new GaslessBudget(gaslessGas)
  const memory: Memory = { included: new Map(), stops: createStops(), gasless, longFrom: 0 }
  const { included, stops } = memory
  return {
    begin: (execution, quota) => new SlicedFilling(memory, execution, quota),
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
   * Tries them in this order until `part` of the time is spent. What does not fit, or must wait for another of its sender, is left for
   * later.
   */
  offer(transactions: readonly SignedEnvelope[], part?: number): Promise<Tried>
  /** Keeps this transaction's gas free for it in the rest of the block; undefined keeps none free. */
  reserve(reserved: Reserved | undefined): void
  /** Gives all of it at least `ms` of work. */
  extend(ms: number): void
  /** Tries those that were stopped, now or before. */
  finish(): Promise<Filled>
  /** Milliseconds spent in both. */
  readonly spentMs: number
}
export type Tried = {
  /** One was stopped whose gas others could have, and there is time for them. */
  readonly isMoreWanted: boolean
  /** Hashes of those that the time did not reach: they may be offered again. */
  readonly unreached: readonly Bytes[]
}

/** What is kept from one flashblock to the next. */
type Memory = {
  /** Hash → height: the txpool learns of an inclusion only when it is published. */
  readonly included: Map<string, bigint>
  readonly stops: Stops
  readonly gasless: GaslessBudget
  /** No long try before. */
  longFrom: number
}
type Candidate = {
  readonly transaction: Transaction
  readonly hash: string
  readonly sender: string
  readonly nonce: bigint
  /** Not to be tried again in this flashblock. */
  isSettled: boolean
}

/** One flashblock: level after level, and in each the transactions of that level in the order given. */
class SlicedFilling implements Filling {
  readonly #memory: Memory
  readonly #execution: BlockExecution
  #quota: Quota
  readonly #candidates = new Map<string, Candidate>()
  readonly #rejected: Rejected[] = []
  readonly #left = new Map<string, Bytes>()
  /** A later nonce of these senders has to wait for another flashblock, */
  readonly #waiting = new Set<string>()
  /** of these for the level at which an earlier one is tried. */
  readonly #levels: Map<string, number>
  #executed = 0
  #isOutOfTime = false
  #long: Long | undefined
  #reserved: { readonly hash: string; readonly gasLimit: bigint } | undefined
  #spentMs = 0
  /** When the work in progress began. */
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
      // A sender who takes a slow one back need not wait for it any more.
      if (stops.replace(candidate)) this.#levels.set(sender, stops.levels().get(sender) ?? 0)
      this.#left.set(hash, transaction.hash)
      await this.#visit(candidate, 0)
      isOneStopped ||= !candidate.isSettled
    }
    return { isMoreWanted: isOneStopped && !this.#isOver(part), unreached: [] }
  }

  async #finish(): Promise<Filled> {
    // They came in several lists: within a sender the nonce decides.
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

  /** Milliseconds until `part` of the time is spent. */
  #restMs(now: number, part = 1): number {
    return this.#quota.ms * part - this.#spentMs - (now - this.#since)
  }

  #isOver(part: number): boolean {
    return this.#restMs(this.#quota.now(), part) <= 0
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
    // Lower than it is where the one that its sender waits for has a nonce above its own: the chain went back meanwhile.
    if (own > level) return
    candidate.isSettled = true
    if (included.has(hash)) this.#left.delete(hash)
    if (included.has(hash) || this.#waiting.has(sender)) return
    const restMs = this.#restMs(this.#quota.now())
    const isWhole = restMs >= this.#quota.ms * (level === LAST ? NEARLY_ALL : SLICES[level]!)
    const isLong = stops.isLong(candidate) && longMs(transaction) > this.#quota.ms
    const isResting = isLong && this.#quota.now() < this.#memory.longFrom
    if (isResting || (level > 0 && !isWhole)) {
      this.#isOutOfTime = true
      return
    }
    // Until something else is known of it.
    this.#waiting.add(sender)
    if (isFree(transaction, this.#execution) && this.#memory.gasless.isSpent(this.#execution))
      return
    if (transaction.gasLimit <= this.#gasLimitFor(hash) - this.#execution.gasUsed)
      await this.#execute(candidate, { level, isWhole, isLong })
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
      : after(Math.min(this.#restMs(startedAt), ms * SLICES[by.level]!), now)
    const done = await this.#execution.execute(transaction, { isExpired })
    const lastedMs = now() - startedAt
    if (lastedMs > ms) this.#long = { hash, gasLimit: transaction.gasLimit, ms: lastedMs }
    if (done.status === 'executed') {
      stops.delete(candidate)
      if (this.#isKept(candidate, before)) this.#include(candidate)
    } else if (done.status === 'invalid') {
      if (!isForLater(done.reason.message, transaction))
        this.#reject({ hash: transaction.hash, reason: done.reason.message })
    } else {
      this.#isOutOfTime = true
      if (by.isLong) this.#memory.longFrom = now() + REST * lastedMs
      if (by.isWhole) this.#stopped(candidate, { level: by.level, lastedMs })
    }
  }

  #include({ hash, sender }: Candidate): void {
    this.#waiting.delete(sender)
    this.#left.delete(hash)
    this.#memory.included.set(hash, this.#execution.attributes.number)
    this.#executed++
  }

  /** A gasless transaction leaves the block again where it uses more than its kind has left. */
  #isKept({ transaction }: Candidate, before: BlockCheckpoint): boolean {
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
type Try = { readonly level: number; readonly isWhole: boolean; readonly isLong: boolean }

function after(ms: number, clock: () => number): () => boolean {
  const end = clock() + ms
  return () => clock() >= end
}
/** Milliseconds that its gas is worth. */
const longMs = ({ gasLimit }: Transaction): number => Number(gasLimit / LEAST_GAS_PER_MS)

const compare = (a: bigint, b: bigint) => (a < b ? -1 : a > b ? 1 : 0)
const nonceOf = (transaction: Transaction) => ('nonce' in transaction ? transaction.nonce : 0n)

/** Invalid in this block and perhaps not in a later one: the txpool decides how long it keeps them. Paying nothing is never enough later. */
function isForLater(reason: string, transaction: Transaction): boolean {
  if (/^max fee per gas less than/.test(reason)) return feeCapOf(transaction) > 0n
  return /^(nonce too high|exceeds block (gas|DA footprint) limit)/.test(reason)
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
