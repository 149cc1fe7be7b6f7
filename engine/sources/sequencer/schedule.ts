/** When a block begins, ticks and is sealed: arithmetic on milliseconds, no clock. */

export type Timing = {
  /** Whole seconds. */
  readonly blockTimeMs: number
  readonly flashblockTimeMs: number
}
export type Schedule = {
  /** Index 0 does not go out earlier. */
  readonly beginAt: number
  /** When the first flashblock after that is due: at the block's begin, or at once when that is over. */
  readonly firstAt: number
  /** When those after it are due. */
  readonly ticks: readonly number[]
  readonly sealAt: number
  /** The index planned as last; 0: no time left for more than index 0. */
  readonly targetIndex: number
}

/** A block is sealed this long before its timestamp, so that index 1 of the next one can keep the beat of the ticks. */
export const SEAL_LEAD_MS = 20
/** A producer that is later than this many blocks does not make up for them. */
export const CATCH_UP_BLOCKS = 10

/**
 * Seconds. One block time after the parent; after a longer pause the next one on the same grid whose time has not come yet, so that the
 * chain is on time again at once.
 */
export function nextTimestamp(parentTimestamp: bigint, now: number, timing: Timing): bigint {
  const step = BigInt(timing.blockTimeMs / 1000)
  const due = parentTimestamp + step
  const late = Math.floor((now - Number(due) * 1000) / timing.blockTimeMs)
  return late > CATCH_UP_BLOCKS ? due + step * BigInt(late + 1) : due
}

/**
 * Seconds, of the block after the first: the first slot that has not begun, or by less than half a flashblock's time, for timers that are
 * late. A genesis is dated before the node has loaded itself, which on a cold machine takes longer than a block. Block 1 is made up then, so
 * that what an OP chain has from its first transaction on is there at once; nobody waits for what else would be made up.
 */
export function punctualTimestamp(parentTimestamp: bigint, now: number, timing: Timing): bigint {
  const step = BigInt(timing.blockTimeMs / 1000)
  const begin = Number(parentTimestamp) * 1000 + timing.flashblockTimeMs / 2
  const begun = Math.ceil((now - begin) / timing.blockTimeMs)
  return parentTimestamp + step * BigInt(1 + Math.max(0, begun))
}

/** Seconds, of the block after this one. */
export function timestampAfter(
  { number, timestamp }: { readonly number: bigint; readonly timestamp: bigint },
  now: number,
  options: Timing & { readonly chain: { readonly genesisNumber: bigint } },
): bigint {
  const isSecond = number === options.chain.genesisNumber + 1n
  return (isSecond ? punctualTimestamp : nextTimestamp)(timestamp, now, options)
}

/** Of the block with this timestamp, as seen when its index 0 is about to go out. */
export function scheduleOf(timestamp: bigint, now: number, timing: Timing): Schedule {
  const { blockTimeMs, flashblockTimeMs } = timing
  const end = Number(timestamp) * 1000
  const begin = end - blockTimeMs
  const sealAt = end - SEAL_LEAD_MS
  // Closer than this to another event a flashblock is not worth its messages.
  const apart = flashblockTimeMs / 8
  const firstAt = Math.max(now, begin)
  const ticks: number[] = []
  for (let tick = begin; tick <= sealAt - apart; tick += flashblockTimeMs)
    if (tick >= firstAt + apart) ticks.push(tick)
  const hasRoom = firstAt <= sealAt - apart
  return {
    beginAt: begin - SEAL_LEAD_MS,
    firstAt,
    ticks,
    sealAt,
    targetIndex: hasRoom ? 1 + ticks.length : 0,
  }
}

/** Gas that the block may have used after flashblock `index`: k × limit ÷ target, all of it at the target. */
export const gasQuota = (gasLimit: bigint, index: number, targetIndex: number): bigint =>
  (gasLimit * BigInt(Math.min(index, targetIndex))) / BigInt(targetIndex)

export interface ChainClock {
  /** Never goes back. */
  now(): number
  /** The chain stands at this time: if that is far ahead of the clock (set back while the node was down), the chain's time counts. */
  align(parentTimestampMs: number): void
  /** The chain is at this time at least, from now on. */
  lead(ms: number): void
  /** By how much `lead` has set it ahead of the clock. */
  readonly aheadMs: number
  /** The same as it was before. */
  restore(aheadMs: number): void
}

/** Time as the chain sees it: the given clock, but a jump back neither stops the chain nor freezes a block. */
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
      const ahead = parentTimestampMs - now()
      offset = ahead > given + 2 * timing.blockTimeMs ? ahead : given
      last = now() + offset
    },
    lead(ms) {
      given = Math.max(given, ms - now())
      offset = Math.max(offset, given)
      last = Math.max(last, now() + offset)
    },
    get aheadMs() {
      return given
    },
    restore(aheadMs) {
      given = aheadMs
    },
  }
}
