/** Diffs that leaders have told, until their flashblock is taken up. Bounded for each leader: none pushes out what another one has told. */
import { equalBytes } from '../../primitives/words.ts'
import { CHANGED_BYTES, type DiffPlace, type LeaderDiff, type ToldDiff } from './types.ts'

export type HeldDiffLimits = { readonly diffs: number; readonly bytes: number }

export class HeldDiffs {
  readonly #limits: HeldDiffLimits
  /** In the order of arrival. */
  #held: LeaderDiff[] = []

  constructor(limits: HeldDiffLimits) {
    this.#limits = limits
  }

  get size(): number {
    return this.#held.length
  }

  /** In place of what the same leader has told of it before. Gives how many of its oldest went for it. */
  add(diff: LeaderDiff): number {
    const isSame = (one: LeaderDiff) => one.leader === diff.leader && isAt(one.told, diff.told)
    this.#held = this.#held.filter((one) => !isSame(one))
    this.#held.push(diff)
    let dropped = 0
    while (this.#isTooMuch(diff.leader)) {
      this.#held.splice(
        this.#held.findIndex(({ leader }) => leader === diff.leader),
        1,
      )
      dropped++
    }
    return dropped
  }

  /** First come first. */
  at(place: DiffPlace): readonly LeaderDiff[] {
    return this.#held.filter(({ told }) => isAt(told, place))
  }

  /** Blocks up to this height are canonical. */
  forgetUpTo(number: number): void {
    if (this.#held.some(({ told }) => told.number <= number))
      this.#held = this.#held.filter(({ told }) => told.number > number)
  }

  forgetLeader(leader: number): void {
    this.#held = this.#held.filter((one) => one.leader !== leader)
  }

  #isTooMuch(leader: number): boolean {
    const own = this.#held.filter((one) => one.leader === leader)
    const bytes = own.reduce((sum, { told }) => sum + sizeOfDiff(told), 0)
    return own.length > this.#limits.diffs || (own.length > 1 && bytes > this.#limits.bytes)
  }
}

/** Blocks that came whole are told apart by their hash. */
export const isAt = (a: DiffPlace, b: DiffPlace): boolean =>
  a.number === b.number &&
  a.index === b.index &&
  a.payloadId === b.payloadId &&
  (a.payloadId !== undefined ||
    (a.hash !== undefined && b.hash !== undefined && equalBytes(a.hash, b.hash)))

/** Bytes that it has in memory, about. */
export const sizeOfDiff = ({ hashes, senders, outcomes, changes }: ToldDiff): number =>
  CHANGED_BYTES + hashes.length + senders.length + outcomes.length + changes.length
