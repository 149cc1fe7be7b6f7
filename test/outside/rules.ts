/**
 * These are the rules of the shared views, each with the edits that switch it off. A test that runs
 * the product under these edits must see a failure. The names are those of the model, and the
 * reasons are in docs/adr.
 */

import type { Rule } from './rule.ts'
import { STORE_RULES } from './rules-store.ts'
import { VIEW_RULES } from './rules-views.ts'

export const RULES: readonly Rule[] = [...VIEW_RULES, ...STORE_RULES]
