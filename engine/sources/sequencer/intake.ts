/**
 * Transactions of the next flashblock. Transactions of the txpool are executed as they arrive, so
 * little work is left at the tick. Half of the flashblock's gas and time is for early transactions.
 * The other half is for the best transactions that wait at the tick.
 *
 * A flashblock has a gas budget, as op-rbuilder's batches have: after index k of n the block may
 * have used k/n of its gas. A transaction with a larger gas limit waits for a later index with a
 * larger budget. Gas in the block is reserved for the best-paying such transaction, so that cheaper
 * ones cannot use that gas. The transaction is included by the last index of this block or of the
 * next one. Its unused gas goes to others in the same flashblock.
 */
import type { ExecutedTransaction } from '../../execution/transaction/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import { createFiller, type Filler, type Filling, type Long } from './fill.ts'
import type { Payload } from './payload.ts'
import { type ChainClock, gasQuota } from './schedule.ts'
import type { SequencerPorts } from './types.ts'

/** Transactions in one request to the txpool. */
const MAX_WANTED = 5_000
/** Requests to the txpool at a tick, because stopped transactions use gas of an offered list. */
const MAX_REQUESTED = 4
/**
 * Part of the time between flashblocks for execution; the writer needs as much for the same
 * flashblock.
 */
const TIME_QUOTA = 0.5
/**
 * Minimum milliseconds of execution for a flashblock without a due time. A busy machine took 150 ms
 * for a transfer (2026-11), and no other flashblock follows for the rest.
 */
const PATIENT_MS = 5_000
/** Part of a flashblock's gas (in percent) and time that may be used before its tick. */
const PREFETCH_PERCENT = 50n
const PREFETCH_SHARE = Number(PREFETCH_PERCENT) / 100
/**
 * Interval of requests before the tick, as part of the flashblock time. Each request costs both
 * threads 0.1 ms.
 */
const APART = 1 / 8

export class Intake {
  readonly #ports: SequencerPorts
  readonly #clock: ChainClock
  readonly #flashblockTimeMs: number
  readonly #filler: Filler
  /** Milliseconds of execution for a flashblock. */
  readonly #ms: number
  #filling: Filling | undefined
  /** A request may return transactions although the txpool has no news. */
  #hasMore = true
  #hasPrefetched = false
  #prefetchedAt = Number.NEGATIVE_INFINITY
  /** Hashes of transactions that the time before the tick did not reach. */
  #unreached: readonly Bytes[] = []
  /** Hash of the newest transaction whose reserved gas exceeded the next flashblock's gas. */
  #large: Bytes | undefined

  constructor(options: {
    readonly ports: SequencerPorts
    readonly clock: ChainClock
    readonly flashblockTimeMs: number
    /** Limit of gas for gasless transactions in a block; undefined: no limit. */
    readonly gaslessGas?: bigint | undefined
  }) {
    this.#filler = createFiller(options.gaslessGas)
    this.#ports = options.ports
    this.#clock = options.clock
    this.#flashblockTimeMs = options.flashblockTimeMs
    this.#ms = options.flashblockTimeMs * TIME_QUOTA
  }

  /**
   * Forgets transactions included below block `number`, because the txpool knows of them by then.
   */
  forget(number: bigint): void {
    this.#filler.forget(number)
  }

  /** Marks a transaction as included, e.g. when a block is started again. */
  include(number: bigint, hash: Bytes): void {
    this.#filler.include(number, hash)
  }

  /** Takes back blocks from this height on; their transactions may come again. */
  goBack(number: bigint): void {
    this.#filler.excludeFrom(number)
    this.#hasMore = true
  }

  /** Prepares for the start or restart of a block. */
  reset(): void {
    this.#next()
    this.#hasMore = true
  }

  /**
   * Returns the time of the next request before the tick; infinity: no news, or the quotas are used
   * up.
   */
  prefetchAt(payload: Payload, targetIndex: number): number {
    if (payload.execution.attributes.isDepositsOnly === true) return Number.POSITIVE_INFINITY
    const isWorthRequesting = this.#ports.hasNews() || (this.#hasMore && !this.#hasPrefetched)
    const hasTime = (this.#filling?.spentMs ?? 0) < this.#ms * PREFETCH_SHARE
    const hasGas = payload.execution.gasUsed < prefetchLimit(payload, targetIndex)
    if (!isWorthRequesting || !hasTime || !hasGas) return Number.POSITIVE_INFINITY
    return this.#prefetchedAt + this.#flashblockTimeMs * APART
  }

  async prefetch(payload: Payload, targetIndex: number): Promise<void> {
    this.#hasPrefetched = true
    this.#prefetchedAt = this.#clock.now()
    const limit = prefetchLimit(payload, targetIndex)
    const excluded = this.#filler.stopped()
    const work = this.#started(payload, gasLimit(payload, targetIndex))
    const offered = await this.#request(payload, work, {
      targetIndex,
      limit,
      excluded,
      isPatient: false,
    })
    const tried = await work.offer(offered, PREFETCH_SHARE)
    this.#unreached = [...this.#unreached, ...tried.unreached]
  }

  /**
   * Executes other transactions of the txpool at the tick, within the rest of the quotas.
   * @param isPatient the flashblock has no due time, so txpool and execution get more time
   */
  async finish(
    payload: Payload,
    targetIndex: number,
    { isPatient = false }: { readonly isPatient?: boolean } = {},
  ): Promise<void> {
    const [ports, filler] = [this.#ports, this.#filler]
    const limit = gasLimit(payload, targetIndex)
    this.#giveBack(this.#unreached)
    const work = this.#started(payload, limit)
    if (isPatient) work.extend(PATIENT_MS)
    // Stopped transactions come last, and their gas in the list goes to others.
    let isMoreWanted = this.#hasMore || ports.hasNews()
    for (let requested = 0; isMoreWanted && requested < MAX_REQUESTED; requested++) {
      const question = { targetIndex, limit, excluded: filler.stopped(), isPatient }
      const before = payload.execution.executed.length
      const offered = await this.#request(payload, work, question)
      const tried = await work.offer(offered)
      // The large transaction's unused gas is available to others, which were left out for it.
      const hasWaited =
        this.#hasMore && this.#isLargeAmong(payload.execution.executed.slice(before))
      isMoreWanted = tried.isMoreWanted || hasWaited
    }
    if (filler.stopped().length > 0)
      await work.offer(
        await this.#request(payload, work, { targetIndex, limit, excluded: [], isPatient }),
      )
    const { rejected, left, isOutOfTime, long } = await work.finish()
    this.#next()
    this.#giveBack(left)
    if (rejected.length > 0) ports.reject(rejected)
    const { number } = payload.execution.attributes
    const where = `block ${number} index ${payload.index + 1}`
    if (isOutOfTime) ports.count('time_quota', where)
    if (long !== undefined) ports.count('long_transaction', `${where}: ${textOf(long)}`)
  }

  /** Gives up the block. Transactions in no flashblock return to the txpool. */
  abandon(payload: Payload): void {
    const hashes = payload.uncut.map(({ transaction }) => transaction.hash)
    for (const hash of hashes) this.#filler.exclude(hash)
    this.#giveBack([...this.#unreached, ...hashes])
    this.#next()
  }

  /**
   * Takes back flashblocks from this index on, and returns hashes of their transactions.
   * Transactions in no flashblock return to the txpool.
   */
  takeBack(payload: Payload, from: number): readonly Bytes[] {
    this.abandon(payload)
    const uncut = new Set(payload.uncut)
    const taken = payload.uncutFrom(from).filter((done) => !uncut.has(done))
    const hashes = taken.map(({ transaction }) => transaction.hash)
    for (const hash of hashes) this.#filler.exclude(hash)
    return hashes
  }

  #isLargeAmong(executed: readonly ExecutedTransaction[]): boolean {
    const large = this.#large
    if (large === undefined) return false
    return executed.some(({ transaction }) => equalBytes(transaction.hash, large))
  }

  #next(): void {
    this.#filling = undefined
    this.#hasPrefetched = false
    this.#unreached = []
  }

  #started(payload: Payload, gas: bigint): Filling {
    const { cpuMs } = this.#ports
    const quotas = { gas, ms: this.#ms, now: () => this.#clock.now(), cpuMs }
    this.#filling ??= this.#filler.start(payload.execution, quotas)
    return this.#filling
  }

  #giveBack(transactions: readonly Bytes[]): void {
    if (transactions.length === 0) return
    this.#hasMore = true
    this.#ports.giveBack(transactions)
  }

  /** Requests transactions up to `limit` of the block's gas, without reserved gas. */
  async #request(
    payload: Payload,
    work: Filling,
    {
      targetIndex,
      limit,
      excluded,
      isPatient,
    }: {
      readonly targetIndex: number
      readonly limit: bigint
      readonly excluded: readonly Bytes[]
      readonly isPatient: boolean
    },
  ) {
    const { attributes, gasUsed } = payload.execution
    const { number, baseFee } = attributes
    const gas = limit - gasUsed
    const blockGas = attributes.gasLimit - gasUsed
    if (gas <= 0n || attributes.isDepositsOnly === true) return []
    const index = payload.index + 1
    const isGaslessWanted = !this.#filler.isGaslessSpent(payload.execution)
    const target = { number, index, gas, blockGas, baseFee }
    const wanted = { ...target, count: MAX_WANTED, excluded, isGaslessWanted }
    const offered = await this.#ports.transactions(wanted, isPatient)
    this.#hasMore = offered.hasMore
    const { reserved } = offered
    work.reserve(reserved)
    const added = gasLimit(payload, targetIndex) - payload.cutGasUsed
    if (reserved !== undefined && reserved.gasLimit > added) this.#large = reserved.hash
    return offered.transactions
  }
}

const textOf = ({ hash, gasLimit, ms }: Long) =>
  `${hash} of ${gasLimit} gas took ${Math.round(ms)} ms`

/** Gas that the block may have used after its next flashblock. */
const gasLimit = ({ index, execution }: Payload, targetIndex: number) =>
  gasQuota(execution.attributes.gasLimit, index + 1, targetIndex)

function prefetchLimit(payload: Payload, targetIndex: number): bigint {
  const { cutGasUsed } = payload
  return cutGasUsed + ((gasLimit(payload, targetIndex) - cutGasUsed) * PREFETCH_PERCENT) / 100n
}
