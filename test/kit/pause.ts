/** These waits are source text for edits, and work in any thread. */

const WAIT = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0,'

/** Waits at random, with this chance, for up to this many milliseconds. */
export const pause = (chance: number, milliseconds: number): string =>
  `if (Math.random() < ${chance}) ${WAIT} Math.random() * ${milliseconds})`

/**
 * Waits with this chance until the condition holds, for at most this many milliseconds. The
 * condition is source text too.
 */
export const pauseUntil = (chance: number, condition: string, milliseconds: number): string =>
  `if (Math.random() < ${chance}) for (let ms = 0; ms < ${milliseconds} && !(${condition}); ms++) ${WAIT} 1)`
