/** Source text of waits, for edits: they work in any thread. */

const WAIT = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0,'

/** With this chance up to so many milliseconds. */
export const pause = (chance: number, milliseconds: number): string =>
  `if (Math.random() < ${chance}) ${WAIT} Math.random() * ${milliseconds})`

/** With this chance until the condition, source text too, holds; at most so many milliseconds. */
export const pauseUntil = (chance: number, condition: string, milliseconds: number): string =>
  `if (Math.random() < ${chance}) for (let ms = 0; ms < ${milliseconds} && !(${condition}); ms++) ${WAIT} 1)`
