/**
 * The rules of the shared views, each with the edits that switch it off: whoever runs the product under them must see it fail. Their
 * names are those of the model, their reasons stand in docs/adr.
 */
import type { Edit } from './edits.ts'
import { STORE_RULES } from './rules-store.ts'
import { VIEW_RULES } from './rules-views.ts'

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

export const RULES: readonly Rule[] = [...VIEW_RULES, ...STORE_RULES]
