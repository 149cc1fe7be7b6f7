/** Work that is done a slice at a time, so that what is more urgent never waits longer than one. */

/** Runs pieces for one slice: stops when another one like the longest so far would not fit. True: there is nothing left. */
export function isFinished(
  pieces: Iterator<undefined, void>,
  { sliceMs, now }: { readonly sliceMs: number; readonly now: () => number },
): boolean {
  const start = now()
  let longest = 0
  for (let at = start; at + longest - start < sliceMs; ) {
    if (pieces.next().done === true) return true
    longest = Math.max(longest, now() - at)
    at = now()
  }
  return false
}
