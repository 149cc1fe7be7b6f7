/** Limits of a run that the contract cannot see: fuel, a deadline, memory. */
import type { Limits } from '../engine.ts'

/** Steps between two polls of the deadline: about a millisecond of the reference engine. */
const SLICE_STEPS = 1024
/** Slices that a lost run may still use: about a million gas. */
const LOST_SLICES = 50

/** Counts fuel and polls the deadline; `start` resets it before each run. */
export class Meter {
  #isExpired: (() => boolean) | undefined
  #fuel = 0
  #countdown = SLICE_STEPS
  #isLost: (() => boolean) | undefined
  #lostSlices = 0
  /** Maximum 32-byte words of one frame; undefined leaves the limit to gas. */
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

  /**
   * Counts one step.
   * @throws {Stopped}
   */
  step(): void {
    if (--this.#countdown >= 0) return
    this.poll()
    this.#countdown = SLICE_STEPS - 1
  }

  /**
   * Counts a call, a creation or a backward jump.
   * @throws {Stopped}
   */
  burn(): void {
    if (--this.#fuel < 0) throw new Stopped('fuel')
  }

  /**
   * Polls the deadline now, before and after a long step.
   * @throws {Stopped}
   */
  readonly poll = (): void => {
    if (this.#isExpired?.() === true) throw new Stopped('deadline')
    if (this.#isLost?.() === true && ++this.#lostSlices > LOST_SLICES) throw new Stopped('fuel')
  }
}

/** Ends a run from inside. The EVM passes it on, because it is not an EVMError. */
export class Stopped extends Error {
  override name = 'Stopped'
  readonly why: 'fuel' | 'deadline' | 'memory'
  constructor(why: 'fuel' | 'deadline' | 'memory') {
    super(`stopped by ${why}`)
    this.why = why
  }
}
