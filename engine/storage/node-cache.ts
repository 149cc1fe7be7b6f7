/**
 * Stored trie nodes in one buffer, found by their hash, the last used ones: a ring that overwrites what was put longest ago. What is found
 * in its older half is put again. A hash names one content for good, so nothing in it is ever wrong, and no node of it is an object that
 * the collector would have to move.
 */
import type { Bytes } from '../primitives/bytes.ts'

export interface NodeCache {
  /** A copy of the node whose hash stands in `source` at `at`, in what `take` gives. */
  copy(source: Bytes, at: number, take: (length: number) => Bytes): Bytes | undefined
  /** `raw` is the RLP of the hash that stands in `source` at `at`. */
  put(source: Bytes, at: number, raw: Bytes): void
  clear(): void
}

const HASH_BYTES = 32
/** Hash ‖ length (2). */
const HEAD_BYTES = HASH_BYTES + 2
/** Places of the index that one hash may have. */
const WAYS = 4
/** Nodes are twice as large and more, so that the index is half empty. */
const BYTES_IN_PLACE = 128

/** @param size bytes, reserved at once and taken from the system as they fill; below 1,024 nothing is kept */
export function createNodeCache(size: number): NodeCache {
  const ring: Bytes = new Uint8Array(size)
  const places = 2 ** Math.max(2, Math.ceil(Math.log2(size / BYTES_IN_PLACE + 1)))
  /** Where a node was put, counted in bytes since the beginning; -1: nowhere. */
  const index = new Float64Array(places).fill(-1)
  /** Bytes put since the beginning: a node lives until `size` more were put. */
  let written = 0

  const first = (source: Bytes, at: number): number => {
    const low = source[at]! | (source[at + 1]! << 8) | (source[at + 2]! << 16)
    return (low | ((source[at + 3]! & 127) << 24)) & (places - WAYS)
  }
  /** -1: not here. */
  const find = (source: Bytes, at: number): number => {
    const from = first(source, at)
    for (let place = from; place < from + WAYS; place++) {
      const position = index[place]!
      if (position < 0 || position < written - size) continue
      if (isSame(ring, position % size, source, at)) return position
    }
    return -1
  }
  /** The place whose node was put longest ago. */
  const oldest = (source: Bytes, at: number): number => {
    const from = first(source, at)
    let best = from
    for (let place = from + 1; place < from + WAYS; place++)
      if (index[place]! < index[best]!) best = place
    return best
  }
  const put = (source: Bytes, at: number, raw: Bytes): void => {
    const bytes = HEAD_BYTES + raw.length
    if (bytes > size / 2) return
    const rest = size - (written % size)
    if (bytes > rest) written += rest
    const to = written % size
    for (let i = 0; i < HASH_BYTES; i++) ring[to + i] = source[at + i]!
    ring[to + HASH_BYTES] = raw.length >> 8
    ring[to + HASH_BYTES + 1] = raw.length & 0xff
    ring.set(raw, to + HEAD_BYTES)
    index[oldest(source, at)] = written
    written += bytes
  }

  return {
    put(source, at, raw) {
      if (find(source, at) < 0) put(source, at, raw)
    },
    copy(source, at, take) {
      const position = find(source, at)
      if (position < 0) return undefined
      const from = (position % size) + HEAD_BYTES
      const raw = take((ring[from - 2]! << 8) | ring[from - 1]!)
      raw.set(ring.subarray(from, from + raw.length))
      if (position < written - size / 2) put(source, at, raw)
      return raw
    },
    clear() {
      index.fill(-1)
    },
  }
}

function isSame(ring: Bytes, from: number, source: Bytes, at: number): boolean {
  for (let i = 0; i < HASH_BYTES; i++) if (ring[from + i] !== source[at + i]) return false
  return true
}
