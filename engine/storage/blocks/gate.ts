/** A store that is shut while something runs that may not wait for a disk: what it has in memory is read, the first row beyond ends it. */
import type { StoreReader } from '../types.ts'

/** Thrown at what reads from a store that is shut. */
export class ShutError extends Error {
  override name = 'ShutError'
  constructor() {
    super('the store is shut')
  }
}

export interface Gate {
  /** The same store, as far as it is open. */
  readonly store: StoreReader
  /** Runs at once what may read so many rows of the store. Not one within the other. */
  shutFor<T>(run: () => T, allowed: Allowed): T
  /** Whether the last run met the gate. What it threw may have been caught on its way. */
  readonly wasMet: boolean
}

/** Made once: what it is thrown through has no use for a stack. */
const SHUT = new ShutError()

export type Allowed = {
  /** Contracts. */
  readonly codes: number
  /** Everything else. */
  readonly rows: number
}

export function gated(store: StoreReader): Gate {
  let isShut = false
  let wasMet = false
  let codesLeft = 0
  let rowsLeft = 0
  const guard =
    <Given extends readonly unknown[], Result>(read: (...given: Given) => Result) =>
    (...given: Given): Result => {
      if (isShut && rowsLeft-- <= 0) meet()
      return read(...given)
    }
  function meet(): never {
    wasMet = true
    throw SHUT
  }
  const { isLazy, ...rows } = store
  const guarded = Object.fromEntries(
    Object.entries(rows).map(([name, read]) => [name, guard(read as () => unknown)]),
  ) as unknown as typeof rows
  return {
    store: {
      ...guarded,
      isLazy,
      code(hash) {
        if (isShut && codesLeft-- <= 0) meet()
        return store.code(hash)
      },
    },
    shutFor(run, { codes, rows }) {
      isShut = true
      wasMet = false
      codesLeft = codes
      rowsLeft = rows
      try {
        return run()
      } finally {
        isShut = false
      }
    },
    get wasMet() {
      return wasMet
    },
  }
}
