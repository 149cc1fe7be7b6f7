/**
 * This module measures how much slower a thread is now than on the machine of the time limits. That
 * machine had 2 shared cores (2026-11).
 */

/** The usual time of each job there, in milliseconds. */
const USUAL_MS = { parse: 4, copy: 1.5 }
/** Each job runs this often, and its shortest time counts. */
const RUNS = 5
const COPIED_BYTES = 2_000_000
const PARSED_OBJECTS = 20_000

/**
 * Measures the factor in the calling thread, which is at least 1. The measure takes some 30 ms.
 * Memory that the system gives out anew can be slow on a machine that computes fast. Thus one job
 * parses, the other copies into new memory, and the slower one counts.
 */
export function slownessOf(): number {
  return Math.max(1, shortest(parse) / USUAL_MS.parse, shortest(copy) / USUAL_MS.copy)
}

function shortest(job: () => void): number {
  const times = Array.from({ length: RUNS }, () => {
    const startedAt = performance.now()
    job()
    return performance.now() - startedAt
  })
  return Math.min(...times)
}

let parsed: string | undefined
function parse(): void {
  parsed ??= JSON.stringify(
    Array.from({ length: PARSED_OBJECTS }, (_, at) => ({ a: at, b: 'x'.repeat(at % 17) })),
  )
  JSON.parse(parsed)
}

function copy(): void {
  Buffer.allocUnsafeSlow(COPIED_BYTES).fill('a').toString('latin1')
}
