/** A check that takes longer hangs. This is no expectation of speed, because machines differ. */
export const HANGS_MS = 180_000

/** Prints a duration or a rate for a reader to compare; no check judges by it. */
export const measurement = (text: string): void => console.log(`     ${text}`)

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
    /** Counts a check that cannot run on this machine, and prints the reason. */
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
