/**
 * Recursive Length Prefix (Ethereum yellow paper, appendix B): strict in both directions, with
 * geth's error texts.
 */
import { type Bytes, NO_BYTES } from './bytes.ts'
import { bigintToBytes, byteLength, bytesToBigint } from './words.ts'

export type RlpItem = Bytes | readonly RlpItem[]

export function encodeRlp(item: RlpItem): Bytes {
  const encoded = new Uint8Array(encodedLength(item))
  write(item, encoded, 0)
  return encoded
}

/**
 * Decodes the one item in `data`; byte strings are views into `data`.
 * @throws {RlpError} for a wrong or non-minimal length, surplus bytes, or lists nested more than 16
 * deep
 */
export function decodeRlp(data: Bytes): RlpItem {
  const { item, next } = readItem(data, 0)
  if (next !== data.length) throw new RlpError('rlp: input contains more than one value')
  return item
}

/**
 * Returns the item at `at` and the offset of the next one, for files of concatenated items.
 * @throws {RlpError} as `decodeRlp`
 */
export function readItem(
  data: Bytes,
  at: number,
): { readonly item: RlpItem; readonly next: number } {
  return read({ data, end: data.length, depth: 0 }, at)
}

/**
 * Runs the checks of `decodeRlp` without allocating items.
 * @throws {RlpError} as `decodeRlp`
 */
export function checkRlp(data: Bytes): void {
  const list = { data, end: data.length, depth: 0 }
  const ends: number[] = []
  let at = 0
  do {
    const next = endOf(list, at)
    if (data[at]! < 0xc0) at = next
    else {
      ends.push(list.end)
      list.end = next
      list.depth++
      checkDepth(list)
      at = startAt(data, at)
    }
    while (list.depth > 0 && at === list.end) {
      list.end = ends.pop()!
      list.depth--
    }
  } while (list.depth > 0)
  if (at !== data.length) throw new RlpError('rlp: input contains more than one value')
}

/**
 * Returns the content range of the item at `at`. Neither its content nor its context is checked.
 * @throws {RlpError} when the item exceeds `data`
 */
export const spanAt = (
  data: Bytes,
  at: number,
): { readonly start: number; readonly next: number } => ({
  start: startAt(data, at),
  next: nextAt(data, at),
})

/** Returns `start` of `spanAt`, for loops that must not allocate. */
export function startAt(data: Bytes, at: number): number {
  const first = data[at] ?? 0
  if (first < 0x80) return at
  const short = first - (first >= 0xc0 ? 0xc0 : 0x80)
  return short <= 55 ? at + 1 : at + 1 + (short - 55)
}

/**
 * Returns `next` of `spanAt`.
 * @throws {RlpError} when the item exceeds `data`
 */
export function nextAt(data: Bytes, at: number): number {
  const first = data[at] ?? 0
  if (first < 0x80) return at + 1
  const short = first - (first >= 0xc0 ? 0xc0 : 0x80)
  const start = startAt(data, at)
  const next =
    start + (short <= 55 ? short : readLength(data, data.length, { from: at + 1, to: start }))
  if (next > data.length) throw new RlpError('rlp: value size exceeds available input length')
  return next
}

/**
 * Encodes an unsigned number for RLP: big-endian without leading zeros, zero is empty.
 * @throws {RangeError} for a negative number
 */
export function rlpUint(value: bigint | number): Bytes {
  if (value < 0) throw new RangeError(`RLP has no negative numbers: ${value}`)
  if (value === 0 || value === 0n) return NO_BYTES
  return bigintToBytes(BigInt(value), byteLength(value))
}

/**
 * Returns the number in a byte string of at most `maxBytes`.
 * @param where added to the message
 * @throws {RlpError} when the string is longer or not minimal
 */
export function readUint(item: RlpItem, maxBytes: number, where = ''): bigint {
  const bytes = readBytes(item, where)
  if (bytes.length > maxBytes)
    throw new RlpError(`rlp: input string too long for uint${maxBytes * 8}${where}`)
  if (bytes[0] === 0)
    throw new RlpError(
      `rlp: non-canonical integer (leading zero bytes) for uint${maxBytes * 8}${where}`,
    )
  return bytesToBigint(bytes)
}

/** @throws {RlpError} when the item is a list */
export function readBytes(item: RlpItem, where = ''): Bytes {
  if (isBytes(item)) return item
  throw new RlpError(`rlp: expected input string or byte${where}`)
}

/**
 * Returns a byte string of exactly `length` bytes.
 * @throws {RlpError} for another length
 */
export function readFixed(item: RlpItem, length: number, where = ''): Bytes {
  const bytes = readBytes(item, where)
  if (bytes.length === length) return bytes
  const fault = bytes.length < length ? 'short' : 'long'
  throw new RlpError(`rlp: input string too ${fault} for [${length}]uint8${where}`)
}

/** @throws {RlpError} when the item is a byte string */
export function readList(item: RlpItem, where = ''): readonly RlpItem[] {
  if (!isBytes(item)) return item
  throw new RlpError(`rlp: expected input list${where}`)
}

export class RlpError extends Error {
  override name = 'RlpError'
}

/**
 * A field has another form than its type. The message names the fault, geth's type and the path of
 * the field. The path is made from the inside out.
 */
export class FieldError extends RlpError {
  readonly #fault: string
  #path = ''

  constructor(fault: string, type: string) {
    super(`rlp: ${fault} for ${type}`)
    this.#fault = this.message
  }

  /** @param step an index in brackets, or a name after a dot */
  within(step: string): this {
    this.#path = step + this.#path
    return this
  }

  decodingInto(name: string): this {
    if (this.#path !== '')
      this.message = `${this.#fault}, decoding into (types.${name})${this.#path}`
    return this
  }
}

/** Adds a step to the path of a FieldError, and leaves other errors as they are. */
export const inField = (error: unknown, step: string): unknown =>
  error instanceof FieldError ? error.within(step) : error

/** A block nests six deep (block, transactions, transaction, access list, entry, keys). */
const MAX_DEPTH = 16
const isBytes = (item: RlpItem): item is Bytes => item instanceof Uint8Array

function contentLength(item: RlpItem): number {
  if (isBytes(item)) return item.length
  let length = 0
  for (const child of item) length += encodedLength(child)
  return length
}

function encodedLength(item: RlpItem): number {
  const length = contentLength(item)
  if (isBytes(item) && length === 1 && item[0]! < 0x80) return 1
  return prefixLength(length) + length
}

function prefixLength(length: number): number {
  let size = 1
  if (length > 55) for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) size++
  return size
}

function write(item: RlpItem, out: Uint8Array, at: number): number {
  if (isBytes(item) && item.length === 1 && item[0]! < 0x80) {
    out[at] = item[0]!
    return at + 1
  }
  const length = contentLength(item)
  const start = at + prefixLength(length)
  const base = isBytes(item) ? 0x80 : 0xc0
  if (length <= 55) out[at] = base + length
  else {
    out[at] = base + 55 + (start - at - 1)
    for (let to = start - 1, rest = length; to > at; to--, rest = Math.floor(rest / 256))
      out[to] = rest
  }
  if (isBytes(item)) {
    out.set(item, start)
    return start + length
  }
  let next = start
  for (const child of item) next = write(child, out, next)
  return next
}

/** `end` is the end of the enclosing list. */
type Source = { readonly data: Bytes; readonly end: number; readonly depth: number }

function read(source: Source, at: number): { readonly item: RlpItem; readonly next: number } {
  const { data, depth } = source
  const next = endOf(source, at)
  const start = startAt(data, at)
  if (data[at]! < 0xc0) return { item: data.subarray(start, next), next }
  const list = { data, end: next, depth: depth + 1 }
  checkDepth(list)
  const items: RlpItem[] = []
  for (let inner = start; inner < next; ) {
    const one = read(list, inner)
    items.push(one.item)
    inner = one.next
  }
  return { item: items, next }
}

/** Returns the end of the item at `at` and checks its prefix. */
function endOf({ data, end, depth }: Source, at: number): number {
  if (at >= end) throw new RlpError('unexpected EOF')
  const first = data[at]!
  if (first < 0x80) return at + 1
  const short = first - (first >= 0xc0 ? 0xc0 : 0x80)
  const start = startAt(data, at)
  const length = short <= 55 ? short : readLength(data, end, { from: at + 1, to: start })
  if (start + length > end)
    throw new RlpError(
      depth > 0
        ? 'rlp: element is larger than containing list'
        : 'rlp: value size exceeds available input length',
    )
  if (first < 0xc0 && length === 1 && data[start]! < 0x80)
    throw new RlpError('rlp: non-canonical size information')
  return start + length
}

function checkDepth({ depth }: Source): void {
  if (depth > MAX_DEPTH) throw new RlpError(`rlp: lists are nested more than ${MAX_DEPTH} deep`)
}

/** Reads a length with bytes of its own, which has to be minimal and above the short form. */
function readLength(
  data: Bytes,
  end: number,
  { from, to }: { readonly from: number; readonly to: number },
): number {
  if (to > end) throw new RlpError('rlp: value size exceeds available input length')
  if (data[from] === 0) throw new RlpError('rlp: non-canonical size information')
  let length = 0
  for (let at = from; at < to; at++) length = length * 256 + data[at]!
  if (length <= 55) throw new RlpError('rlp: non-canonical size information')
  return length
}
