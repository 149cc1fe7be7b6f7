/** A store that can delay each read before and after, and counts the reads of flat state. */
import type { StoreReader } from '../../engine/storage/types.ts'

export function watchStore(
  store: StoreReader,
  stall: () => void,
): { readonly store: StoreReader; readonly flatReads: () => number } {
  let flatReads = 0
  const stalling =
    <Args extends readonly unknown[], Result>(read: (...args: Args) => Result) =>
    (...args: Args): Result => {
      stall()
      const result = read(...args)
      stall()
      return result
    }
  const counted = <Args extends readonly unknown[], Result>(read: (...args: Args) => Result) => {
    const stalled = stalling(read)
    return (...args: Args): Result => {
      flatReads++
      return stalled(...args)
    }
  }
  return {
    flatReads: () => flatReads,
    store: {
      ...store,
      flatAccount: counted(store.flatAccount),
      flatSlot: counted(store.flatSlot),
      accountHistory: stalling(store.accountHistory),
      slotHistory: stalling(store.slotHistory),
      hashOfNumber: stalling(store.hashOfNumber),
      blocksOf: stalling(store.blocksOf),
      transactionLocation: stalling(store.transactionLocation),
      transactionLocations: stalling(store.transactionLocations),
      partialHeader: stalling(store.partialHeader),
    },
  }
}
