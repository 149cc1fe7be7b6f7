/** This type describes a rule of the shared views for the tests that switch it off. */
import type { Edit } from '../kit/edits.ts'

/**
 * A finder must notice that a rule is off. Finders are threads over RocksDB, one thread with any
 * history and kills, and the model.
 */
export type Finder = 'torture' | 'histories' | 'model'

export type Rule = {
  readonly name: string
  /** The statement that holds while the rule is on. */
  readonly rule: string
  readonly edits: readonly Edit[]
  /**
   * Waits at which threads must meet for the fault to show. With the rule on they change nothing.
   */
  readonly race?: readonly Edit[]
  /**
   * Without the rule the writer waits for memory, which other rules' runs do not count as a
   * finding.
   */
  readonly isStarving?: true
  readonly expect: readonly [Finder, ...Finder[]]
}
