/** The newest blocks of a thread whose replays it keeps. Each holds what its block has touched: some megabytes. */
export const MOST_REPLAYS = 2
