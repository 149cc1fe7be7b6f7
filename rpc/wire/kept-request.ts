/** What is here of a plain request that is not whole: bounded in bytes and pieces, and counted among what is being received. */

/** Where its bytes count; false: there is no room for them. */
type Room = { take(bytes: number): boolean; release(): void }

/** A request in more of them is Node's, which charges for them. */
const MOST_PIECES = 16
/** That nobody counts: a head that comes before its body. */
const FREE_BYTES = 1_024

export class KeptRequest {
  /** Its head is whole, and it counts as one that comes in. */
  isArriving = false
  readonly #open: () => Room
  #pieces: Buffer[] = []
  #count = 0
  #bytes = 0
  #countedBytes = 0
  /** Before these are here it is not read again. */
  #wanted = 0
  #room: Room | undefined

  /** @param open a room of its own, asked for when it is more than nobody counts */
  constructor(open: () => Room) {
    this.#open = open
  }

  /**
   * Keeps what was read; false: more than is kept.
   * @param wanted bytes of the whole request, where its head is whole
   */
  keep(bytes: Buffer, isHead: boolean, wanted: number): boolean {
    // What is left of a long read would keep all of it.
    const isPart = bytes.buffer.byteLength > 2 * bytes.length
    this.#pieces = [isPart ? Buffer.from(bytes) : bytes]
    this.#count++
    this.#bytes = bytes.length
    this.#wanted = isHead ? 0 : wanted
    return this.isHeld()
  }

  /** True: it is to be read again. */
  add(piece: Buffer): boolean {
    this.#pieces.push(piece)
    this.#count++
    this.#bytes += piece.length
    return this.#bytes >= this.#wanted
  }

  /** Whether it may be kept as it is. */
  isHeld(): boolean {
    if (this.#count > MOST_PIECES) return false
    if (this.#bytes <= FREE_BYTES) return true
    this.#room ??= this.#open()
    if (!this.#room.take(this.#bytes - this.#countedBytes)) return false
    this.#countedBytes = this.#bytes
    return true
  }

  joined(): Buffer {
    if (this.#pieces.length > 1) this.#pieces = [Buffer.concat(this.#pieces, this.#bytes)]
    return this.#pieces[0]!
  }

  release(): void {
    this.#room?.release()
  }
}
