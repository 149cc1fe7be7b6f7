/** What a run has read, so that later changes can be held against it. */

/** `keys`: hashes of accounts and slots (views/noted.ts); `fields`: bits of block fields (evm/block-fields.ts). */
export type Reads = { readonly keys: Int32Array; readonly fields: number }

/** Of one run after the other. A key that is read again may stand there again. */
export class ReadSet {
  readonly #keys: Int32Array
  #count = 0
  /** undefined: nobody has said. */
  #fields: number | undefined
  #isWhole = true

  /** @param most keys of a run; one that reads more has read what nobody knows */
  constructor(most: number) {
    this.#keys = new Int32Array(most)
  }

  begin(): void {
    this.#count = 0
    this.#fields = undefined
    this.#isWhole = true
  }
  key(hash: number): void {
    if (this.#count === this.#keys.length) this.#isWhole = false
    else this.#keys[this.#count++] = hash
  }
  /** All that was read of the block, or may have been: a run says so at its end. */
  fields(bits: number): void {
    this.#fields = (this.#fields ?? 0) | bits
  }
  /** Something was read that no key stands for. */
  lose(): void {
    this.#isWhole = false
  }
  /** A copy; undefined: not all of it is known. */
  take(): Reads | undefined {
    if (!this.#isWhole || this.#fields === undefined) return undefined
    return { keys: this.#keys.slice(0, this.#count), fields: this.#fields }
  }
}
