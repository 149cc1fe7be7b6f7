/** A store whose reads can be held up before and after, and whose flat reads are counted. */
import type { StoreReader } from '../../engine/storage/types.ts'

export function watchStore(
  store: StoreReader,
  holdUp: () => void,
): { readonly store: StoreReader; readonly flatReads: () => number } {
  let flatReads = 0
  const held =
    <Args extends readonly unknown[], Result>(read: (...args: Args) => Result) =>
    (...args: Args): Result => {
      holdUp()
      const result = read(...args)
      holdUp()
      return result
    }
  const counted = <Args extends readonly unknown[], Result>(read: (...args: Args) => Result) => {
    const heldUp = held(read)
    return (...args: Args): Result => {
      flatReads++
      return heldUp(...args)
    }
  }
  return {
    flatReads: () => flatReads,
    store: {
      ...store,
      flatAccount: counted(store.flatAccount),
      flatSlot: counted(store.flatSlot),
      accountHistory: held(store.accountHistory),
      slotHistory: held(store.slotHistory),
      hashOfNumber: held(store.hashOfNumber),
      blocksOf: held(store.blocksOf),
      transactionPlace: held(store.transactionPlace),
      transactionPlaces: held(store.transactionPlaces),
      momentary: held(store.momentary),
    },
  }
}
