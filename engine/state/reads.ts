/** Keys and block fields that a run has read, for comparison with later changes. */

/**
 * `keys`: hashes of accounts and slots (views/changes.ts); `fields`: bits of block fields
 * (evm/block-fields.ts).
 */
export type Reads = { readonly keys: Int32Array; readonly fields: number }

/** Read set that one run after the other reuses. It can contain a key twice. */
export class ReadSet {
  readonly #keys: Int32Array
  #count = 0
  /** undefined: no run has reported its fields yet. */
  #fields: number | undefined
  #isComplete = true

  /** @param max number of keys of a run; a run with more is incomplete */
  constructor(max: number) {
    this.#keys = new Int32Array(max)
  }

  start(): void {
    this.#count = 0
    this.#fields = undefined
    this.#isComplete = true
  }
  key(hash: number): void {
    if (this.#count === this.#keys.length) this.#isComplete = false
    else this.#keys[this.#count++] = hash
  }
  /** Adds the block fields that were read, or may have been. A run reports them at its end. */
  fields(bits: number): void {
    this.#fields = (this.#fields ?? 0) | bits
  }
  /** Marks the set as incomplete after a read that no key describes. */
  lose(): void {
    this.#isComplete = false
  }
  /** Returns a copy; undefined: the set is incomplete. */
  take(): Reads | undefined {
    if (!this.#isComplete || this.#fields === undefined) return undefined
    return { keys: this.#keys.slice(0, this.#count), fields: this.#fields }
  }
}
