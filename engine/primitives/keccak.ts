/**
 * Keccak-256 by the WebAssembly of hash-wasm, compiled when this module loads; the only file that
 * reads that package.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Bytes, type Hex, NO_BYTES } from './bytes.ts'

/**
 * Exports of that WebAssembly, 4 kB that compile synchronously in less than a millisecond.
 * The package itself compiles it behind a promise, which a module must not await. V8 aborts the
 * process when a thread is terminated during such an await (November 2026).
 */
type Sponge = {
  readonly memory: { readonly buffer: ArrayBuffer }
  /** Returns the address of the buffer for data and hash. */
  Hash_GetBuffer(): number
  Hash_Calculate(length: number, bits: number, padding: number): void
  Hash_Init(bits: number): void
  Hash_Update(length: number): void
  Hash_Final(padding: number): void
}

const { exports } = new WebAssembly.Instance(new WebAssembly.Module(binaryOfPackage()))
const sponge = exports as Sponge
const BUFFER_BYTES = 16_384
/** Shared by all hashes, because each call starts and ends its own hash. */
const buffer = new Uint8Array(sponge.memory.buffer, sponge.Hash_GetBuffer(), BUFFER_BYTES)
const BITS = 256
/** Padding of the original Keccak, which differs from SHA-3. */
const PADDING = 0x01

/**
 * Returns a new array of 32 bytes. 1.8 M hashes of 32 bytes a second, against 0.3 M in JavaScript
 * (November 2026).
 */
export function keccak256(data: Bytes): Bytes {
  if (data.length <= BUFFER_BYTES) {
    buffer.set(data)
    sponge.Hash_Calculate(data.length, BITS, PADDING)
  } else hashInParts(data)
  return buffer.slice(0, 32)
}

/**
 * Extracts the binary. The package's version is pinned in package.json, because another version may
 * store it elsewhere.
 * @throws {Error} when the package has no binary there
 */
function binaryOfPackage(): Bytes {
  const path = createRequire(import.meta.url).resolve('hash-wasm/dist/keccak.umd.min.js')
  const [, base64] = /data:"([A-Za-z0-9+/=]+)"/.exec(readFileSync(path, 'latin1')) ?? []
  if (base64 === undefined) throw new Error(`no WebAssembly in ${path}: run npm ci`)
  return Buffer.from(base64, 'base64')
}

function hashInParts(data: Bytes): void {
  sponge.Hash_Init(BITS)
  for (let at = 0; at < data.length; at += BUFFER_BYTES) {
    const part = data.subarray(at, at + BUFFER_BYTES)
    buffer.set(part)
    sponge.Hash_Update(part.length)
  }
  sponge.Hash_Final(PADDING)
}

/** Hash of no bytes: the code hash of an account without code. */
export const EMPTY_HASH: Bytes = keccak256(NO_BYTES)
export const EMPTY_ROOT: Bytes = keccak256(Uint8Array.of(0x80))
/** Hash of an empty RLP list: the ommers of every block since the merge. */
export const EMPTY_OMMERS: Bytes = keccak256(Uint8Array.of(0xc0))

/**
 * Returns hex whose case is a checksum (EIP-55).
 * @param address 20 bytes
 */
export function checksumAddress(address: Bytes): Hex {
  const digits = Buffer.from(address.buffer, address.byteOffset, address.length).toString('hex')
  const hash = keccak256(Buffer.from(digits, 'latin1'))
  let text = ''
  for (let at = 0; at < digits.length; at++) {
    const nibble = at % 2 === 0 ? hash[at >> 1]! >> 4 : hash[at >> 1]! & 15
    text += nibble >= 8 ? digits[at]!.toUpperCase() : digits[at]
  }
  return `0x${text}`
}
