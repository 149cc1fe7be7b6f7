/** One part of `npm run model`. */
import type { Check } from '../outside/checks.ts'
import type { RunOptions } from '../outside/run-options.ts'

export type Part = {
  readonly name: string
  /** One check, with its counts, for each property. */
  run(options: RunOptions, check: Check): Promise<void>
}
