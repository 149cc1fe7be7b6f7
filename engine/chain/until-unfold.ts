/** What a thread has read of folded blocks holds until one is unfolded: records count that. */

export interface UntilUnfold {
  /** Whether what is kept is of a view of this count. */
  isOf(unfolds: number): boolean
  /** Before something is kept that was read in a view of this count; false: what is kept is of a later one. */
  begin(unfolds: number): boolean
}

/** @param forget all that is kept: it was of an earlier count */
export function untilUnfold(forget: () => void): UntilUnfold {
  let counted = 0
  return {
    isOf: (unfolds) => unfolds === counted,
    begin(unfolds) {
      if (unfolds > counted) forget()
      counted = Math.max(counted, unfolds)
      return unfolds === counted
    },
  }
}
