/** When the newest flashblocks came, and how long they took: a ring of numbers, so that noting it costs nothing. */

type Place = { readonly number: number; readonly index: number }
export type FlashblockTimes = {
  /** Milliseconds since 1970: when its frame arrived. */
  readonly at: number
  /** Milliseconds until it could be read, and of its execution alone. */
  readonly publishMs: number
  readonly executeMs: number
}

export interface Times {
  add(
    shown: Pick<FlashblockTimes, 'publishMs' | 'executeMs'> & {
      readonly pending: number
      readonly index: number
    },
    at: number,
  ): void
  /** Of the newest one of that place; undefined: it came without a feed, or long ago. */
  of(place: Place): FlashblockTimes | undefined
}

/** A minute and a half of five a second. */
const ROWS = 512
/** Number, index, at, publish, execute. */
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
