/** Buffer of an incomplete plain request, bounded in bytes and pieces and counted in the intake. */

/** Reservation that counts the bytes. `take` returns false without capacity. */
type Capacity = { take(bytes: number): boolean; release(): void }

/** Maximum pieces; a request in more pieces goes to Node, which charges for them. */
const MAX_PIECES = 16
/** Bytes that are not counted, for a head that arrives before its body. */
const FREE_BYTES = 1_024

export class BufferedRequest {
  /** The head is complete, and the request counts as arriving. */
  isArriving = false
  readonly #open: () => Capacity
  #pieces: Buffer[] = []
  #count = 0
  #bytes = 0
  #countedBytes = 0
  /** Bytes that must arrive before the request is parsed again. */
  #wanted = 0
  #capacity: Capacity | undefined

  /** @param open opens the reservation, once the request exceeds the free bytes */
  constructor(open: () => Capacity) {
    this.#open = open
  }

  /**
   * Buffers the bytes of a request.
   * @param isHead the head is still incomplete
   * @param wanted bytes of the whole request, if the head is complete
   * @returns false if the buffer's limits are exceeded
   */
  start(bytes: Buffer, isHead: boolean, wanted: number): boolean {
    // A slice of a long read is copied, because it would retain the whole read.
    const isPart = bytes.buffer.byteLength > 2 * bytes.length
    this.#pieces = [isPart ? Buffer.from(bytes) : bytes]
    this.#count++
    this.#bytes = bytes.length
    this.#wanted = isHead ? 0 : wanted
    return this.fits()
  }

  /**
   * Adds a piece.
   * @returns true if the request must be parsed again
   */
  add(piece: Buffer): boolean {
    this.#pieces.push(piece)
    this.#count++
    this.#bytes += piece.length
    return this.#bytes >= this.#wanted
  }

  /** Tells whether the request is within the buffer's limits. */
  fits(): boolean {
    if (this.#count > MAX_PIECES) return false
    if (this.#bytes <= FREE_BYTES) return true
    this.#capacity ??= this.#open()
    if (!this.#capacity.take(this.#bytes - this.#countedBytes)) return false
    this.#countedBytes = this.#bytes
    return true
  }

  concat(): Buffer {
    if (this.#pieces.length > 1) this.#pieces = [Buffer.concat(this.#pieces, this.#bytes)]
    return this.#pieces[0]!
  }

  release(): void {
    this.#capacity?.release()
  }
}
