/** Blocks that somebody may want to go back to. */
import type { StoredHead } from '../../storage/types.ts'

export type Snapshot = {
  readonly head: StoredHead
  /** By how much the chain was ahead of the clock. */
  readonly aheadMs: number
}

/** The oldest goes when there are more. */
const MAX_SNAPSHOTS = 1_000

export class Snapshots {
  readonly #byId = new Map<number, Snapshot>()
  #newest = 0

  /** Gives its id: they rise. */
  add(snapshot: Snapshot): number {
    this.#newest++
    this.#byId.set(this.#newest, snapshot)
    if (this.#byId.size > MAX_SNAPSHOTS) this.#byId.delete(this.#byId.keys().next().value!)
    return this.#newest
  }

  get(id: number): Snapshot | undefined {
    return this.#byId.get(id)
  }

  /** It, and those that were taken after it. */
  delete(id: number): void {
    for (const other of this.#byId.keys()) if (other >= id) this.#byId.delete(other)
  }

  /** Height of the lowest; undefined: there is none. */
  oldest(): number | undefined {
    const heights = [...this.#byId.values()].map(({ head }) => head.number)
    return heights.length === 0 ? undefined : Math.min(...heights)
  }
}
