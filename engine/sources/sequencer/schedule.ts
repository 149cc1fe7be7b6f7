/**
 * Times at which a block starts, ticks and is sealed: arithmetic on milliseconds, without a clock.
 */

export type Timing = {
  /** A multiple of 1000. */
  readonly blockTimeMs: number
  readonly flashblockTimeMs: number
}
export type Schedule = {
  /** Earliest time of index 0. */
  readonly startAt: number
  /**
   * Time of the first flashblock after index 0: the block's start, or at once if that has passed.
   */
  readonly firstAt: number
  /** Times of the later flashblocks. */
  readonly ticks: readonly number[]
  readonly sealAt: number
  /** The planned last index; 0: no time is left after index 0. */
  readonly targetIndex: number
}

/**
 * Milliseconds between the seal and the block's timestamp, so that index 1 of the next block can
 * meet its tick.
 */
export const SEAL_LEAD_MS = 20
/** Blocks of delay up to which a producer catches up. */
export const CATCH_UP_BLOCKS = 10

/**
 * Returns seconds: one block time after the parent. After a long pause, the next future time on the
 * same grid puts the chain on time at once.
 */
export function nextTimestamp(parentTimestamp: bigint, now: number, timing: Timing): bigint {
  const step = BigInt(timing.blockTimeMs / 1000)
  const due = parentTimestamp + step
  const late = Math.floor((now - Number(due) * 1000) / timing.blockTimeMs)
  return late > CATCH_UP_BLOCKS ? due + step * BigInt(late + 1) : due
}

/**
 * Returns the timestamp in seconds of the block after the first one: the first slot that has not
 * started. Late timers have a tolerance of half a flashblock.
 * A genesis is dated before the node has loaded, which takes longer than a block on a cold machine.
 * Block 1 is made at once, because clients need what an OP chain has from its first transaction on.
 * Later missed blocks are skipped, because nobody waits for them.
 */
export function punctualTimestamp(parentTimestamp: bigint, now: number, timing: Timing): bigint {
  const step = BigInt(timing.blockTimeMs / 1000)
  const start = Number(parentTimestamp) * 1000 + timing.flashblockTimeMs / 2
  const started = Math.ceil((now - start) / timing.blockTimeMs)
  return parentTimestamp + step * BigInt(1 + Math.max(0, started))
}

/** Returns the timestamp in seconds of the block after this one. */
export function timestampAfter(
  { number, timestamp }: { readonly number: bigint; readonly timestamp: bigint },
  now: number,
  options: Timing & { readonly chain: { readonly genesisNumber: bigint } },
): bigint {
  const isSecond = number === options.chain.genesisNumber + 1n
  return (isSecond ? punctualTimestamp : nextTimestamp)(timestamp, now, options)
}

/** Returns the schedule of the block with this timestamp, just before its index 0. */
export function scheduleOf(timestamp: bigint, now: number, timing: Timing): Schedule {
  const { blockTimeMs, flashblockTimeMs } = timing
  const end = Number(timestamp) * 1000
  const start = end - blockTimeMs
  const sealAt = end - SEAL_LEAD_MS
  // A flashblock nearer than this to another event is not worth its messages.
  const apart = flashblockTimeMs / 8
  const firstAt = Math.max(now, start)
  const ticks: number[] = []
  for (let tick = start; tick <= sealAt - apart; tick += flashblockTimeMs)
    if (tick >= firstAt + apart) ticks.push(tick)
  const hasCapacity = firstAt <= sealAt - apart
  return {
    startAt: start - SEAL_LEAD_MS,
    firstAt,
    ticks,
    sealAt,
    targetIndex: hasCapacity ? 1 + ticks.length : 0,
  }
}

/** Gas that the block may have used after flashblock `index`: k × limit ÷ target. */
export const gasQuota = (gasLimit: bigint, index: number, targetIndex: number): bigint =>
  (gasLimit * BigInt(Math.min(index, targetIndex))) / BigInt(targetIndex)

export interface ChainClock {
  /** Returns the chain's time, which never goes back. */
  now(): number
  /**
   * Takes the parent's timestamp. If it is far ahead of the clock, e.g. after a clock was set back,
   * the chain's time follows it.
   */
  align(parentTimestampMs: number): void
  /** Moves the chain's time forward to at least `ms`. */
  lead(ms: number): void
  /** Milliseconds by which `lead` has moved the chain ahead of the clock. */
  readonly offsetMs: number
  /** Sets an earlier `offsetMs` again. */
  restore(offsetMs: number): void
}

/**
 * Makes the chain's clock. A jump back of the given clock neither stops the chain nor freezes a
 * block.
 */
export function createChainClock(now: () => number, timing: Timing): ChainClock {
  let offset = 0
  let given = 0
  let last = Number.NEGATIVE_INFINITY
  return {
    now() {
      const read = now() + offset
      if (read < last) offset += last - read
      last = Math.max(last, read)
      return last
    },
    align(parentTimestampMs) {
      const leadMs = parentTimestampMs - now()
      offset = leadMs > given + 2 * timing.blockTimeMs ? leadMs : given
      last = now() + offset
    },
    lead(ms) {
      given = Math.max(given, ms - now())
      offset = Math.max(offset, given)
      last = Math.max(last, now() + offset)
    },
    get offsetMs() {
      return given
    },
    restore(offsetMs) {
      given = offsetMs
    },
  }
}
