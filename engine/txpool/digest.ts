/** The digest of an envelope: what a long one is read for from end to end, which the thread that holds the txpool does not do. */
import { rollupData } from '../chainspec/l1-fee.ts'
import { intrinsicCounts } from '../execution/transaction/intrinsic-gas.ts'
import type { InvalidTransaction } from '../execution/transaction/types.ts'
import { intrinsicInput } from '../execution/transaction/validation.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Digest } from './types.ts'
import { decodeSubmitted } from './validation.ts'

/** What is wrong with it in itself is the refusal that the txpool would give. */
export function digestOf(
  envelope: Bytes,
): { readonly digest: Digest } | { readonly error: InvalidTransaction } {
  const decoded = decodeSubmitted(envelope)
  if ('error' in decoded) return decoded
  const { transaction } = decoded
  const { hash, from } = transaction
  const intrinsic = intrinsicCounts(intrinsicInput(transaction))
  return { digest: { hash, from, rollup: rollupData(envelope), intrinsic } }
}
