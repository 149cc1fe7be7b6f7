/** A receipt as it is stored: tables, the keeper and readers of the enriched feed each want its bytes. */
import type { Bytes } from '../../primitives/bytes.ts'
import { encodeStoredReceipt } from '../../primitives/receipt-codec.ts'
import type { ExecutedTransaction } from './types.ts'

/** Made once, where its transaction keeps it. */
export const storedReceiptOf = (executed: ExecutedTransaction): Bytes =>
  executed.storedReceipt ?? encodeStoredReceipt(executed.receipt)
