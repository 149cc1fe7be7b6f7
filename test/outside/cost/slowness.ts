/**
 * This module measures how much slower this machine is now than the machine for which the time
 * limits were written.
 */

/**
 * The minimum of nine runs of this job was 16 ms on that machine in its usual state. The machine
 * had 2 shared cores (2026-11). In its slow hours the minimum was half as much again.
 */
const USUAL_MS = 16

/** Measures the factor, which is at least 1. The measure takes some 150 ms. */
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
