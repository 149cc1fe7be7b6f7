/**
 * What goes into the next flashblock: the txpool's transactions are executed as they arrive, so that little is left to do at the tick.
 * Half of the flashblock's gas and time is for those before the tick; the rest is for the best that wait then.
 *
 * A flashblock has a budget of gas, as op-rbuilder's batches have: after index k of n the block may have used k/n of its gas. A transaction
 * whose gas limit is above what its flashblock has left waits for a later index, where the budget is larger. Among those the one that pays
 * best has its gas reserved in the block, so that cheaper ones cannot use it up before. It is included by the last index of the block in
 * progress, or of the next one; if it then uses little, the others have the rest of its gas in the same flashblock.
 */
import type { ExecutedTransaction } from '../../execution/transaction/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { equalBytes } from '../../primitives/words.ts'
import { createFiller, type Filler, type Filling, type Long } from './fill.ts'
import type { Payload } from './payload.ts'
import { type ChainClock, gasQuota } from './schedule.ts'
import type { SequencerPorts } from './types.ts'

/** Transactions asked for at once. */
const MAX_WANTED = 5_000
/** How often, at a tick: those that are stopped took gas of the list from others. */
const MAX_ASKED = 4
/** Part of the time between flashblocks that one may spend executing; the writer needs as much for the same. */
const TIME_QUOTA = 0.5
/**
 * Milliseconds that a flashblock without a due time may spend executing at least. A busy machine
 * took 150 ms for a transfer (2026-11), and nothing makes another flashblock for what is left out.
 */
const PATIENT_MS = 5_000
/** Part of a flashblock's gas (in percent) and time that may be used before its tick. */
const AHEAD_PERCENT = 50n
const AHEAD = Number(AHEAD_PERCENT) / 100
/** Part of the time between flashblocks that two questions before the tick are apart: each costs both threads a tenth of a millisecond. */
const APART = 1 / 8

export class Intake {
  readonly #ports: SequencerPorts
  readonly #clock: ChainClock
  readonly #flashblockTimeMs: number
  readonly #filler: Filler
  /** Time that a flashblock may spend executing. */
  readonly #ms: number
  /** Of the next flashblock. */
  #filling: Filling | undefined
  /** Asking may give something although the txpool has no news. */
  #hasMore = true
  #hasAskedAhead = false
  #askedAheadAt = Number.NEGATIVE_INFINITY
  /** Hashes that the time before the tick did not reach. */
  #unreached: readonly Bytes[] = []
  /** Hash of the newest one whose gas was reserved because no flashblock had as much until then. */
  #large: Bytes | undefined

  constructor(options: {
    readonly ports: SequencerPorts
    readonly clock: ChainClock
    readonly flashblockTimeMs: number
    /** That gasless transactions may use of a block; undefined: no bound. */
    readonly gaslessGas?: bigint | undefined
  }) {
    this.#filler = createFiller(options.gaslessGas)
    this.#ports = options.ports
    this.#clock = options.clock
    this.#flashblockTimeMs = options.flashblockTimeMs
    this.#ms = options.flashblockTimeMs * TIME_QUOTA
  }

  /** Forgets what was included below block `number`: the txpool has heard of it by then. */
  forget(number: bigint): void {
    this.#filler.forget(number)
  }

  /** Counts as included, e.g. when a block is begun again. */
  include(number: bigint, hash: Bytes): void {
    this.#filler.include(number, hash)
  }

  /** Blocks from this height on were taken back: what was in them may come again. */
  goBack(number: bigint): void {
    this.#filler.excludeFrom(number)
    this.#hasMore = true
  }

  /** A block begins, or is begun again. */
  reset(): void {
    this.#next()
    this.#hasMore = true
  }

  /** When to ask the txpool before the tick; infinity: it has nothing new, or this part of the quotas is used up. */
  aheadAt(payload: Payload, targetIndex: number): number {
    if (payload.execution.attributes.isDepositsOnly === true) return Number.POSITIVE_INFINITY
    const isWorthAsking = this.#ports.hasNews() || (this.#hasMore && !this.#hasAskedAhead)
    const hasTime = (this.#filling?.spentMs ?? 0) < this.#ms * AHEAD
    const hasGas = payload.execution.gasUsed < aheadLimit(payload, targetIndex)
    if (!isWorthAsking || !hasTime || !hasGas) return Number.POSITIVE_INFINITY
    return this.#askedAheadAt + this.#flashblockTimeMs * APART
  }

  /** Executes what the txpool has new. */
  async ahead(payload: Payload, targetIndex: number): Promise<void> {
    this.#hasAskedAhead = true
    this.#askedAheadAt = this.#clock.now()
    const limit = aheadLimit(payload, targetIndex)
    const excluded = this.#filler.stopped()
    const work = this.#begun(payload, gasLimit(payload, targetIndex))
    const offered = await this.#ask(payload, work, {
      targetIndex,
      limit,
      excluded,
      isPatient: false,
    })
    const tried = await work.offer(offered, AHEAD)
    this.#unreached = [...this.#unreached, ...tried.unreached]
  }

  /**
   * At the tick: what else the txpool has, within the rest of the quotas.
   * @param isPatient the flashblock has no time at which it is due: txpool and execution are waited for
   */
  async finish(
    payload: Payload,
    targetIndex: number,
    { isPatient = false }: { readonly isPatient?: boolean } = {},
  ): Promise<void> {
    const [ports, filler] = [this.#ports, this.#filler]
    const limit = gasLimit(payload, targetIndex)
    this.#giveBack(this.#unreached)
    const work = this.#begun(payload, limit)
    if (isPatient) work.extend(PATIENT_MS)
    // Whoever was stopped comes last, and takes none of the others' gas in the list.
    let isMoreWanted = this.#hasMore || ports.hasNews()
    for (let asked = 0; isMoreWanted && asked < MAX_ASKED; asked++) {
      const question = { targetIndex, limit, excluded: filler.stopped(), isPatient }
      const before = payload.execution.executed.length
      const offered = await this.#ask(payload, work, question)
      const tried = await work.offer(offered)
      // Others waited for it, and have the gas that it claimed and did not use.
      const hasWaited =
        this.#hasMore && this.#isLargeAmong(payload.execution.executed.slice(before))
      isMoreWanted = tried.isMoreWanted || hasWaited
    }
    if (filler.stopped().length > 0)
      await work.offer(
        await this.#ask(payload, work, { targetIndex, limit, excluded: [], isPatient }),
      )
    const { rejected, left, isOutOfTime, long } = await work.finish()
    this.#next()
    this.#giveBack(left)
    if (rejected.length > 0) ports.reject(rejected)
    const { number } = payload.execution.attributes
    const place = `block ${number} index ${payload.index + 1}`
    if (isOutOfTime) ports.count('time_quota', place)
    if (long !== undefined) ports.count('long_transaction', `${place}: ${textOf(long)}`)
  }

  /** The block is given up: what is in no flashblock goes back to the txpool. */
  abandon(payload: Payload): void {
    const hashes = payload.uncut.map(({ transaction }) => transaction.hash)
    for (const hash of hashes) this.#filler.exclude(hash)
    this.#giveBack([...this.#unreached, ...hashes])
    this.#next()
  }

  /** Hashes of what somebody has sent, from a flashblock on: nothing of that is in the block any more. What no flashblock told goes back. */
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
    this.#hasAskedAhead = false
    this.#unreached = []
  }

  #begun(payload: Payload, gas: bigint): Filling {
    const { cpuMs } = this.#ports
    const quotas = { gas, ms: this.#ms, now: () => this.#clock.now(), cpuMs }
    this.#filling ??= this.#filler.begin(payload.execution, quotas)
    return this.#filling
  }

  #giveBack(transactions: readonly Bytes[]): void {
    if (transactions.length === 0) return
    this.#hasMore = true
    this.#ports.giveBack(transactions)
  }

  /** Up to `limit` of the block's gas, without what is reserved for one that waits for a later flashblock. */
  async #ask(
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
    const place = { number, index, gas, blockGas, baseFee }
    const wanted = { ...place, count: MAX_WANTED, excluded, isGaslessWanted }
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

function aheadLimit(payload: Payload, targetIndex: number): bigint {
  const { cutGasUsed } = payload
  return cutGasUsed + ((gasLimit(payload, targetIndex) - cutGasUsed) * AHEAD_PERCENT) / 100n
}
