/** What one point of the rate limit pays for: a request costs the most of its calls and of these, and the processor time of a worker afterwards. */

/** Of calls: by how many requests each stands for, or by what its method costs (`--limit-by`). */
export type LimitBy = 'request' | 'cost'

/** Bytes of a body. */
export const POINT_BYTES = 65_536
/** Pieces that a body comes in: each takes 2 µs, and 10 where it is a read of its own (2026-11). */
export const POINT_PIECES = 128
/** Pings and pongs of a WebSocket: each is answered in a turn of the loop of its own, 10 to 20 µs (2026-11). */
export const POINT_CONTROL_FRAMES = 32
/** Lists, objects and what stands in them. */
export const POINT_VALUES = 5_000
/** Bytes of answers that are compressed for their client, counted in full: of hex 10 ms of a thread as br, 14 as zstd, 47 as gzip (2026-11). */
export const POINT_COMPRESSED_BYTES = 2 * 1024 * 1024
/** Processor time of a worker, counted in full: what takes less has been paid by the call itself. */
export const POINT_MS = 50
/** Calls of a batch that is refused for its length: each is answered with an error all the same. */
export const POINT_REFUSALS = 32
