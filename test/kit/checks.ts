/** Whatever takes longer hangs. Nothing shorter is an expectation: machines differ. */
export const HANGS_MS = 180_000

/** A duration or a rate, for a reader to compare: nothing is judged by it. */
export const figure = (text: string): void => console.log(`     ${text}`)

/** Counts checks and closes on the line that CI adds up. */
export function checks(name: string) {
  let passed = 0
  let failed = 0
  let skipped = 0
  return {
    check(what: string, isRight: boolean, detail = ''): void {
      if (isRight) passed++
      else failed++
      console.log(`${isRight ? 'ok  ' : 'FAIL'} ${what}${detail === '' ? '' : `: ${detail}`}`)
    },
    /** What cannot be shown on this machine, and why: it is counted. */
    skip(what: string, why: string): void {
      skipped++
      console.log(`SKIP ${what}: ${why}`)
    },
    close(): void {
      console.log(`${name}\n${passed} passed, ${failed} failed, ${skipped} skipped`)
      process.exitCode = failed === 0 && passed > 0 ? 0 : 1
    },
  }
}

export type Check = ReturnType<typeof checks>['check']
