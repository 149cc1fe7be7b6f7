/**
 * This Brotli data costs far more than its bytes (RFC 7932). Its streams consist of code tables,
 * each of which is used for one byte.
 */

class BitWriter {
  readonly #bytes: number[] = []
  #count = 0
  bits(value: number, count: number): void {
    for (let bit = 0; bit < count; bit++) {
      if (this.#count % 8 === 0) this.#bytes.push(0)
      this.#bytes[this.#bytes.length - 1]! |= ((value >> bit) & 1) << (this.#count % 8)
      this.#count++
    }
  }
  /** Adds zeros up to a full byte. */
  align(): void {
    this.#count = 8 * this.#bytes.length
  }
  get bytes(): Uint8Array {
    return Uint8Array.from(this.#bytes)
  }
}

/** Writes a simple prefix code with one symbol. */
function oneSymbol(to: BitWriter, symbolBits: number, symbol: number): void {
  to.bits(1, 2)
  to.bits(0, 2)
  to.bits(symbol, symbolBits)
}

/**
 * Makes a metablock of one literal, whose three tables are read first. A metablock without data
 * follows, which ends at a full byte.
 */
function unit(): Uint8Array {
  const to = new BitWriter()
  // The first bits are ISLAST 0, MNIBBLES 4, MLEN 1, compressed, because the byte before is full.
  to.bits(0, 1 + 2 + 16 + 1)
  // One block type of each kind, no postfix and no direct distances, context mode 0, one tree of
  // each kind.
  to.bits(0, 3 + 2 + 4 + 2 + 1 + 1)
  oneSymbol(to, 8, 65)
  // The command inserts one literal; its copy length exceeds the remaining length and is ignored.
  oneSymbol(to, 10, 8)
  oneSymbol(to, 6, 0)
  // ISLAST 0, MNIBBLES 3: no data; reserved, MSKIPBYTES 0.
  to.bits(0, 1)
  to.bits(3, 2)
  to.bits(0, 1 + 2)
  to.align()
  return to.bytes
}

/** Makes a stream of about this many bytes, which inflates to a fifteenth of that. */
export function tableStream(bytes: number): Buffer {
  const head = new BitWriter()
  // A window of 16 bits, then no data up to a full byte.
  head.bits(0, 1)
  head.bits(0, 1)
  head.bits(3, 2)
  head.bits(0, 1 + 2)
  head.align()
  const one = unit()
  // ISLAST, ISLASTEMPTY.
  const end = Buffer.of(3)
  return Buffer.concat([head.bytes, Buffer.alloc(bytes - (bytes % one.length), one), end])
}
