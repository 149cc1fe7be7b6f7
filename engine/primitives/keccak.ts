/** Keccak-256 by the WebAssembly of hash-wasm, compiled when this module is loaded; the only file that reads that package. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Bytes, type Hex, NO_BYTES } from './bytes.ts'

/**
 * What that WebAssembly exports. The package itself compiles it behind a promise, which no module may await: V8 aborts the process when a
 * thread is terminated while its modules await (2026-11). Its 4 kB compile in less than a millisecond.
 */
type Sponge = {
  readonly memory: { readonly buffer: ArrayBuffer }
  /** Where data is put and the hash is found. */
  Hash_GetBuffer(): number
  /** All of a hash whose data is in the buffer. */
  Hash_Calculate(length: number, bits: number, padding: number): void
  Hash_Init(bits: number): void
  Hash_Update(length: number): void
  Hash_Final(padding: number): void
}

const { exports } = new WebAssembly.Instance(new WebAssembly.Module(binaryOfPackage()))
const sponge = exports as Sponge
const BUFFER_BYTES = 16_384
/** Each hash begins anew and is done when the call returns: what is left in it is of no meaning to the next one. */
const buffer = new Uint8Array(sponge.memory.buffer, sponge.Hash_GetBuffer(), BUFFER_BYTES)
const BITS = 256
/** Of Keccak as it was before it became SHA-3. */
const PADDING = 0x01

/** 32 bytes, new at each call. 1.8 M hashes of 32 bytes a second against 0.3 M in JavaScript (2026-11). */
export function keccak256(data: Bytes): Bytes {
  if (data.length <= BUFFER_BYTES) {
    buffer.set(data)
    sponge.Hash_Calculate(data.length, BITS, PADDING)
  } else hashInParts(data)
  return buffer.slice(0, 32)
}

/** Its version is fixed in package.json: another one may have it elsewhere. @throws {Error} */
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

/** Of no bytes: the code hash of an account without code. */
export const EMPTY_HASH: Bytes = keccak256(NO_BYTES)
/** Root of a trie that holds nothing. */
export const EMPTY_ROOT: Bytes = keccak256(Uint8Array.of(0x80))
/** Of an empty RLP list: the ommers of every block since the merge. */
export const EMPTY_OMMERS: Bytes = keccak256(Uint8Array.of(0xc0))

/** Hex whose case is a checksum (EIP-55). @param address 20 bytes */
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
