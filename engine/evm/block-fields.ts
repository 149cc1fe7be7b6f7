/** The fields of a block that a run may depend on, as bits. */
import { equalBytes } from '../primitives/words.ts'
import type { BlockEnv } from './engine.ts'

/**
 * The first seven bits equal those of the fast engine (asm/interpreter/machine.ts). `rules` means
 * the fork's rules, which depend on block number and time.
 */
export const BLOCK_FIELDS = {
  coinbase: 1,
  timestamp: 2,
  number: 4,
  prevRandao: 8,
  gasLimit: 16,
  baseFee: 32,
  blobBaseFee: 64,
  difficulty: 128,
  rules: 256,
} as const
export const ALL_FIELDS = 511

/**
 * Compares two blocks field by field; the `rules` bit is never set.
 * @returns the bits of the fields that differ
 */
export function changedFields(a: BlockEnv, b: BlockEnv): number {
  let changed = 0
  if (!equalBytes(a.coinbase, b.coinbase)) changed |= BLOCK_FIELDS.coinbase
  if (!equalBytes(a.prevRandao, b.prevRandao)) changed |= BLOCK_FIELDS.prevRandao
  for (const field of NUMBERS) if (a[field] !== b[field]) changed |= BLOCK_FIELDS[field]
  return changed
}
const NUMBERS = ['timestamp', 'number', 'gasLimit', 'baseFee', 'blobBaseFee', 'difficulty'] as const
