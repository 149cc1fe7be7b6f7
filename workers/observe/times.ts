/**
 * Arrival and processing times of the newest flashblocks, in a ring buffer, so that recording is
 * cheap.
 */

type FlashblockPosition = { readonly number: number; readonly index: number }
export type FlashblockTimes = {
  /** Arrival of its frame, in milliseconds since 1970. */
  readonly at: number
  /** Milliseconds until it was published, and of its execution alone. */
  readonly publishMs: number
  readonly executeMs: number
}

export interface Times {
  add(
    published: Pick<FlashblockTimes, 'publishMs' | 'executeMs'> & {
      readonly pending: number
      readonly index: number
    },
    at: number,
  ): void
  /** Finds the newest times of a position; undefined when it came without a feed or long ago. */
  of(position: FlashblockPosition): FlashblockTimes | undefined
}

/** A minute and a half at five flashblocks a second. */
const ROWS = 512
/** Fields of a row: number, index, at, publishMs, executeMs. */
const WIDTH = 5

export function createTimes(rows = ROWS): Times {
  const ring = new Float64Array(rows * WIDTH).fill(-1)
  let next = 0
  return {
    add({ pending, index, publishMs, executeMs }, at) {
      ring.set([pending, index, at, publishMs, executeMs], next * WIDTH)
      next = (next + 1) % rows
    },
    of({ number, index }) {
      for (let back = 1; back <= rows; back++) {
        const row = ((next - back + rows) % rows) * WIDTH
        if (ring[row] !== number || ring[row + 1] !== index) continue
        return { at: ring[row + 2]!, publishMs: ring[row + 3]!, executeMs: ring[row + 4]! }
      }
      return undefined
    },
  }
}
