/**
 * Units that one point of the rate limit pays for. A request costs the maximum of its calls and
 * these units. Processor time of a worker is charged afterwards.
 */

/** Cost of calls: one point each, or the cost of the method (`--limit-by`). */
export type LimitBy = 'request' | 'cost'

/** Bytes of a body. */
export const POINT_BYTES = 65_536
/** Pieces of a received body. A piece takes 2 µs, or 10 µs as a separate read (2026-11). */
export const POINT_PIECES = 128
/**
 * Pings and pongs of a WebSocket. Each is answered in its own turn of the event loop, in 10 to 20
 * µs (2026-11).
 */
export const POINT_CONTROL_FRAMES = 32
/** JSON lists, objects and their entries. */
export const POINT_VALUES = 5_000
/**
 * Uncompressed bytes of compressed responses. This much hex takes 10 ms as br, 14 ms as zstd and 47
 * ms as gzip (2026-11).
 */
export const POINT_COMPRESSED_BYTES = 2 * 1024 * 1024
/** Milliseconds of a worker's processor. A shorter run is paid by the call itself. */
export const POINT_MS = 50
/**
 * Calls of a batch that is refused for its length. Each of them is still answered with an error.
 */
export const POINT_REFUSALS = 32
