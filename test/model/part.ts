/** One part of `npm run model`. */
import type { Check } from '../kit/checks.ts'
import type { RunOptions } from '../kit/run-options.ts'

export type Part = {
  readonly name: string
  /** One check, with its counts, for each property. */
  run(options: RunOptions, check: Check): Promise<void>
}
