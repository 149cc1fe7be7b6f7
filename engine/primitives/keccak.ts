/** Keccak-256; the only file that imports the hash packages. */
import { keccak_256 } from '@noble/hashes/sha3.js'
import { createKeccak, type IHasher } from 'hash-wasm'
import type { Bytes } from './bytes.ts'

// One hasher per thread: init, update and digest run back to back, so nobody sees it half used.
// 2.0 M hashes of 32 bytes a second against 0.3 M for @noble/hashes (2026-11).
let hasher: IHasher | undefined

/**
 * Resolves when hashes are fast: WebAssembly compiles in the background. What a module hashes while it is loaded is hashed by the slow
 * one, for a module must not await that: V8 aborts the process when a thread is terminated while its modules await (2026-11).
 */
export const keccakReady: Promise<void> = createKeccak(256).then((created) => {
  hasher = created
})

/** 32 bytes, new at each call. */
export function keccak256(data: Bytes): Bytes {
  if (hasher === undefined) return keccak_256(data)
  return hasher.init().update(data).digest('binary')
}

/** Of no bytes: the code hash of an account without code. */
export const EMPTY_HASH: Bytes = keccak256(new Uint8Array(0))
/** Root of a trie that holds nothing. */
export const EMPTY_ROOT: Bytes = keccak256(Uint8Array.of(0x80))
/** Of an empty RLP list: the ommers of every block since the merge. */
export const EMPTY_OMMERS: Bytes = keccak256(Uint8Array.of(0xc0))
