/** What somebody has set of the next block, in place of what the clock and its parent give. */
import type { Bytes } from '../../primitives/bytes.ts'
import { ControlError, type TimeControl } from './controls.ts'

/** 9999-12-31: beyond it clients cannot show a date. */
const LATEST = 253_402_300_799n

export class NextBlock {
  /** Another one makes another block on the same parent. */
  salt: Bytes | undefined
  gasLimit: bigint | undefined
  #at: bigint | undefined
  #every: bigint | undefined

  /** @param newest timestamp of the newest block, which may be one in progress @throws {ControlError} */
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

  /** It is not to be one that was begun before. */
  get isOther(): boolean {
    return this.#at !== undefined || this.gasLimit !== undefined
  }

  /** Where its parent has this one; undefined: as the clock says. */
  timestamp(parent: bigint): bigint | undefined {
    if (this.#at !== undefined && this.#at > parent) return this.#at
    return this.#every === undefined ? undefined : parent + this.#every
  }

  /** A block has it all, or none is to have it. */
  used(): void {
    this.#at = undefined
    this.salt = undefined
    this.gasLimit = undefined
  }
}
