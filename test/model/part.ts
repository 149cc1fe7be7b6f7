/** One part of `npm run model`. */
import type { Check } from '../kit/checks.ts'
import type { RunOptions } from '../kit/run-options.ts'

export type Part = {
  readonly name: string
  /** Runs one check for each property, with its counts. */
  run(options: RunOptions, check: Check): Promise<void>
}
