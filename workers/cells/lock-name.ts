/** Names a thread in the memories in which fronts count together: 1 is the main one. */
export const lockName = (cell: number): number => cell + 1
