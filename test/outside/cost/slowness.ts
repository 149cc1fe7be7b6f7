/** How much slower this machine is, at this moment, than the one that bounds of time were written on. */

/**
 * The least of nine times of this job was 16 ms there in its usual state (2 shared cores, 2026-11), and half as much again in its slow
 * hours.
 */
const USUAL_MS = 16

/** At least 1. Takes some 150 ms. */
export function slownessOf(): number {
  const text = JSON.stringify(
    Array.from({ length: 20_000 }, (_, at) => ({ a: at, b: 'x'.repeat(at % 17) })),
  )
  const times = Array.from({ length: 9 }, () => {
    const startedAt = performance.now()
    for (let time = 0; time < 4; time++) JSON.parse(text)
    return performance.now() - startedAt
  })
  return Math.max(1, Math.min(...times) / USUAL_MS)
}
