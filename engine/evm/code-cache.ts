/** Caches contract code by its hash for all sessions of a thread; code never changes. */
import type { Bytes } from '../primitives/bytes.ts'
import { latin1 } from '../state/words.ts'

export type CodeCache = {
  get(hash: Bytes): Bytes | undefined
  set(hash: Bytes, code: Bytes): void
}

/** Makes a cache that drops the least recently used code when it exceeds `maxBytes`. */
export function codeCache(maxBytes: number): CodeCache {
  const codes = new Map<string, Bytes>()
  let sizeBytes = 0
  return {
    get(hash) {
      const key = latin1(hash)
      const code = codes.get(key)
      if (code !== undefined) {
        codes.delete(key)
        codes.set(key, code)
      }
      return code
    },
    set(hash, code) {
      const key = latin1(hash)
      if (codes.has(key) || code.length > maxBytes) return
      codes.set(key, code)
      sizeBytes += code.length
      for (const [oldest, old] of codes) {
        if (sizeBytes <= maxBytes) break
        codes.delete(oldest)
        sizeBytes -= old.length
      }
    },
  }
}
