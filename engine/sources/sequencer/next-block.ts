/** Values that a developer has set for the next block, in place of those from clock and parent. */
import type { Bytes } from '../../primitives/bytes.ts'
import { ControlError, type TimeControl } from './controls.ts'

/** 9999-12-31; clients cannot show later dates. */
const LATEST = 253_402_300_799n

export class NextBlock {
  /** Another salt makes another block on the same parent. */
  salt: Bytes | undefined
  gasLimit: bigint | undefined
  #at: bigint | undefined
  #every: bigint | undefined

  /**
   * @param newest timestamp of the newest block, which may be in progress
   * @throws {ControlError}
   */
  setTime(control: TimeControl, newest: bigint): void {
    if ('every' in control) {
      if (control.every === 0n) throw new ControlError('blocks are at least a second apart')
      this.#every = control.every
      return
    }
    const at = 'at' in control ? control.at : (this.#at ?? newest) + control.by
    if (at <= newest)
      throw new ControlError(`the newest block has timestamp ${newest}: give a later one`)
    if (at > LATEST) throw new ControlError(`timestamp ${at} is above ${LATEST}`)
    this.#at = at
  }

  /** Whether a block that started earlier does not have the set values. */
  get isOther(): boolean {
    return this.#at !== undefined || this.gasLimit !== undefined
  }

  /** Returns the timestamp of a block on this parent; undefined: the clock decides. */
  timestamp(parent: bigint): bigint | undefined {
    if (this.#at !== undefined && this.#at > parent) return this.#at
    return this.#every === undefined ? undefined : parent + this.#every
  }

  /** Clears the values for one block, after their use or a revert. */
  used(): void {
    this.#at = undefined
    this.salt = undefined
    this.gasLimit = undefined
  }
}
