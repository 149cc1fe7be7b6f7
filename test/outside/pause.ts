/** Source text of a wait, for edits: with this chance up to so many milliseconds, in any thread. */
export const pause = (chance: number, milliseconds: number): string =>
  `if (Math.random() < ${chance}) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.random() * ${milliseconds})`
