/**
 * The rules of the shared views, each with the edits that switch it off: whoever runs the product under them must see it fail. Their
 * names are those of the model, their reasons stand in docs/adr.
 */

import type { Rule } from './rule.ts'
import { STORE_RULES } from './rules-store.ts'
import { VIEW_RULES } from './rules-views.ts'

export const RULES: readonly Rule[] = [...VIEW_RULES, ...STORE_RULES]
