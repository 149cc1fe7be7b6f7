/**
 * What goes into the next flashblock: the pool's transactions are executed as they arrive, so that little is left to do at the tick.
 * Half of the flashblock's gas and time is for those before the tick; the rest is for the best that wait then.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { createFiller, type Filler, type Filling } from './sequencer-fill.ts'
import type { Payload } from './sequencer-payload.ts'
import { type ChainClock, gasQuota } from './sequencer-schedule.ts'
import type { SequencerPorts } from './sequencer-types.ts'

export interface Intake extends Pick<Filler, 'forget' | 'include'> {
  /** A block begins, or is begun again. */
  reset(): void
  /** When to ask the pool before the tick; infinity: it has nothing new, or this part of the quotas is used up. */
  aheadAt(payload: Payload, targetIndex: number): number
  /** Executes what the pool has new. */
  ahead(payload: Payload, targetIndex: number): Promise<void>
  /** At the tick: what else the pool has, within the rest of the quotas. */
  finish(payload: Payload, targetIndex: number): Promise<void>
  /** The block is given up: what is in no flashblock goes back to the pool. */
  abandon(payload: Payload): void
}

/** Transactions asked for at once. */
const MAX_WANTED = 5_000
/** How often, at a tick: those that are stopped took gas of the list from others. */
const MAX_ASKED = 4
/** Part of the time between flashblocks that one may spend executing; the writer needs as much for the same. */
const TIME_QUOTA = 0.5
/** Part of a flashblock's gas (in percent) and time that may be used before its tick. */
const AHEAD_PERCENT = 50n
const AHEAD = Number(AHEAD_PERCENT) / 100
/** Part of the time between flashblocks that two questions before the tick are apart: each costs both threads a tenth of a millisecond. */
const APART = 1 / 8

export function createIntake({
  ports,
  clock,
  flashblockTimeMs,
}: {
  readonly ports: SequencerPorts
  readonly clock: ChainClock
  readonly flashblockTimeMs: number
}): Intake {
  const filler = createFiller()
  const ms = flashblockTimeMs * TIME_QUOTA
  /** Of the next flashblock. */
  let filling: Filling | undefined
  /** Asking may give something although the pool has no news. */
  let hasMore = true
  let hasAskedAhead = false
  let askedAheadAt = Number.NEGATIVE_INFINITY
  /** Hashes that the time before the tick did not reach. */
  let unreached: readonly Bytes[] = []

  function next(): void {
    filling = undefined
    hasAskedAhead = false
    unreached = []
  }

  function begun(payload: Payload, gas: bigint): Filling {
    filling ??= filler.begin(payload.execution, { gas, ms, now: () => clock.now() })
    return filling
  }

  function giveBack(transactions: readonly Bytes[]): void {
    if (transactions.length === 0) return
    hasMore = true
    ports.giveBack(transactions)
  }

  /** Up to `limit` of the block's gas. */
  async function ask(payload: Payload, limit: bigint, excluded: readonly Bytes[]) {
    const { attributes, gasUsed } = payload.execution
    const { number, baseFee } = attributes
    const gas = limit - gasUsed
    if (gas <= 0n) return []
    const index = payload.index + 1
    const wanted = { number, index, gas, count: MAX_WANTED, baseFee, excluded }
    const offered = await ports.transactions(wanted)
    hasMore = offered.hasMore
    return offered.raw
  }

  /** Gas that the block may have used after its next flashblock. */
  const gasLimit = ({ index, execution }: Payload, targetIndex: number) =>
    gasQuota(execution.attributes.gasLimit, index + 1, targetIndex)

  function aheadLimit(payload: Payload, targetIndex: number): bigint {
    const { cutGasUsed } = payload
    return cutGasUsed + ((gasLimit(payload, targetIndex) - cutGasUsed) * AHEAD_PERCENT) / 100n
  }

  return {
    forget: filler.forget,
    include: filler.include,
    reset() {
      next()
      hasMore = true
    },
    aheadAt(payload, targetIndex) {
      const isWorthAsking = ports.hasNews() || (hasMore && !hasAskedAhead)
      const hasTime = (filling?.spentMs ?? 0) < ms * AHEAD
      const hasGas = payload.execution.gasUsed < aheadLimit(payload, targetIndex)
      if (!isWorthAsking || !hasTime || !hasGas) return Number.POSITIVE_INFINITY
      return askedAheadAt + flashblockTimeMs * APART
    },
    async ahead(payload, targetIndex) {
      hasAskedAhead = true
      askedAheadAt = clock.now()
      const offered = await ask(payload, aheadLimit(payload, targetIndex), filler.stopped())
      const work = begun(payload, gasLimit(payload, targetIndex))
      const tried = await work.offer(offered, AHEAD)
      unreached = [...unreached, ...tried.unreached]
    },
    async finish(payload, targetIndex) {
      const limit = gasLimit(payload, targetIndex)
      giveBack(unreached)
      const work = begun(payload, limit)
      // Whoever was stopped comes last, and takes none of the others' gas in the list.
      let isMoreWanted = hasMore || ports.hasNews()
      for (let asked = 0; isMoreWanted && asked < MAX_ASKED; asked++) {
        const offered = await ask(payload, limit, filler.stopped())
        isMoreWanted = (await work.offer(offered)).isMoreWanted
      }
      if (filler.stopped().length > 0) await work.offer(await ask(payload, limit, []))
      const { rejected, left, isOutOfTime } = await work.finish()
      next()
      giveBack(left)
      if (rejected.length > 0) ports.reject(rejected)
      const { number } = payload.execution.attributes
      if (isOutOfTime) ports.count('time_quota', `block ${number} index ${payload.index + 1}`)
    },
    abandon(payload) {
      const hashes = payload.uncut.map(({ transaction }) => transaction.hash)
      for (const hash of hashes) filler.exclude(hash)
      giveBack([...unreached, ...hashes])
      next()
    },
  }
}
