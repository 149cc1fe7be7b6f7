/** Bounds of a run that the contract cannot see: fuel, a deadline, memory. */
import type { Limits } from '../engine.ts'

/** Between two looks at the deadline: about a millisecond of the reference engine. */
const SLICE_STEPS = 1024
/** What a lost run may still take: about a million gas. */
const LOST_SLICES = 50

/** Counts down to the next look; `start` before each run. */
export class Meter {
  #isExpired: (() => boolean) | undefined
  #fuel = 0
  #countdown = SLICE_STEPS
  #isLost: (() => boolean) | undefined
  #lostSlices = 0
  /** Words of 32 bytes that one frame may have; undefined: as many as it can pay for. */
  maxWords: bigint | undefined

  start(limits: Limits | undefined): void {
    this.#isExpired = limits?.isExpired
    this.#fuel = limits?.fuel ?? Number.POSITIVE_INFINITY
    this.#countdown = SLICE_STEPS
    this.#isLost = limits?.isLost
    this.#lostSlices = 0
    this.maxWords = limits?.memoryBytes === undefined ? undefined : BigInt(limits.memoryBytes) / 32n
    if (this.#isExpired?.() === true) throw new Stopped('deadline')
  }

  /** One step. @throws {Stopped} */
  step(): void {
    if (--this.#countdown >= 0) return
    this.poll()
    this.#countdown = SLICE_STEPS - 1
  }

  /** A call, a creation, or a jump backward. @throws {Stopped} */
  burn(): void {
    if (--this.#fuel < 0) throw new Stopped('fuel')
  }

  /** Looks at the deadline now: around what takes long in one step. @throws {Stopped} */
  readonly poll = (): void => {
    if (this.#isExpired?.() === true) throw new Stopped('deadline')
    if (this.#isLost?.() === true && ++this.#lostSlices > LOST_SLICES) throw new Stopped('fuel')
  }
}

/** Ends a run from inside; the EVM lets it pass, for it is no error of the EVM. */
export class Stopped extends Error {
  override name = 'Stopped'
  readonly why: 'fuel' | 'deadline' | 'memory'
  constructor(why: 'fuel' | 'deadline' | 'memory') {
    super(`stopped by ${why}`)
    this.why = why
  }
}
