/**
 * Maximum replays that a thread caches, for the newest blocks. Each has the state that its block
 * touched: some megabytes.
 */
export const MAX_REPLAYS = 2
