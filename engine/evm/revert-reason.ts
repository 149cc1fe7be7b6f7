/** The reason in a contract's revert data, as go-ethereum prints it. */
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToBigint, equalBytes } from '../primitives/words.ts'

/** Decodes `Error(string)` or `Panic(uint256)` data; undefined for all other data. */
export function revertReason(data: Bytes): string | undefined {
  const selector = data.subarray(0, 4)
  const body = data.subarray(4)
  if (equalBytes(selector, ERROR_STRING)) return readString(body)
  if (equalBytes(selector, PANIC) && body.length >= 32) {
    const code = bytesToBigint(body.subarray(0, 32))
    return PANICS[`${code}`] ?? `unknown panic code: 0x${code.toString(16)}`
  }
  return undefined
}

const ERROR_STRING = Uint8Array.of(0x08, 0xc3, 0x79, 0xa0)
const PANIC = Uint8Array.of(0x4e, 0x48, 0x7b, 0x71)

const PANICS: Readonly<Record<string, string>> = {
  0: 'generic panic',
  1: 'assert(false)',
  17: 'arithmetic underflow or overflow',
  18: 'division or modulo by zero',
  33: 'enum overflow',
  34: 'invalid encoded storage byte array accessed',
  49: 'out-of-bounds array access; popping on an empty array',
  50: 'out-of-bounds access of an array or bytesN',
  65: 'out of memory',
  81: 'uninitialized function',
}

/** Decodes an ABI string: an offset to the length, followed by the text. Padding may be missing. */
function readString(body: Bytes): string | undefined {
  const offset = readLength(body, 0)
  if (offset === undefined) return undefined
  const length = readLength(body, offset)
  if (length === undefined || offset + 32 + length > body.length) return undefined
  return new TextDecoder().decode(body.subarray(offset + 32, offset + 32 + length))
}

/** Reads a number that is at most the data's length; undefined otherwise. */
function readLength(body: Bytes, at: number): number | undefined {
  if (at + 32 > body.length) return undefined
  const value = bytesToBigint(body.subarray(at, at + 32))
  return value <= BigInt(body.length) ? Number(value) : undefined
}
