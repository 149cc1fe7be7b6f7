/**
 * Index of what makes a block whole that its flashblocks did not tell here: the rest that came with the canonical block, or all of a block
 * that came without flashblocks. Above every index that a feed gives, for a node that was told them has other contents under those; 9 digits,
 * as many as the name of a place may have.
 */
export const WHOLE_INDEX = 999_999_999
