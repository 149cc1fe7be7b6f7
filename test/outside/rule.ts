/** What a rule of the shared views is to those that switch it off. */
import type { Edit } from '../kit/edits.ts'

/** Who must find that a rule is off: threads over RocksDB, one thread with any history and kills, or the model. */
export type Finder = 'torture' | 'histories' | 'model'

export type Rule = {
  readonly name: string
  /** What holds while it is on. */
  readonly rule: string
  readonly edits: readonly Edit[]
  /** Waits where threads must meet for the fault to show. With the rule on they change nothing. */
  readonly race?: readonly Edit[]
  /** Without it the writer waits for memory: of the others that is no finding. */
  readonly isStarving?: true
  readonly expect: readonly [Finder, ...Finder[]]
}
