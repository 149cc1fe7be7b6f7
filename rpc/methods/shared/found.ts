/** Finds a transaction by hash: in a block of the view, or waiting in the txpool. */
import type { ChainView } from '../../../engine/chain/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import type { FrontContext } from '../../method/method.ts'

type Included = NonNullable<ReturnType<ChainView['findTransaction']>>
type FoundReaders<T> = {
  /** Builds the response; it must not reference the view's memory. */
  readonly ofIncluded: (location: Included) => T | undefined
  readonly ofWaiting: (transaction: SignedTransaction) => T
}

/**
 * Finds a transaction in the view or in the txpool.
 * @throws {ViewError} {MissingError}
 */
export function found<T>(
  { view, services, readNewest }: Pick<FrontContext, 'view' | 'services' | 'readNewest'>,
  wanted: Bytes,
  { ofIncluded, ofWaiting }: FoundReaders<T>,
): T | undefined | Promise<T | undefined> {
  const location = view.findTransaction(wanted)
  if (location !== undefined) return ofIncluded(location)
  const waiting = services.transactions.get(wanted)
  if (!(waiting instanceof Promise)) return waiting && ofWaiting(waiting)
  return waiting.then((transaction) => {
    if (transaction !== undefined) return ofWaiting(transaction)
    // The transaction may have left the txpool for a newer block, so this view cannot answer.
    const isLater = readNewest((newest) => newest.findTransaction(wanted) !== undefined)
    if (isLater) throw new ViewError('void', 'the transaction is in a block of a newer view')
    return undefined
  })
}

/**
 * Returns the transaction's envelope.
 * @throws {ViewError} {MissingError}
 */
export const foundRaw = (
  context: Pick<FrontContext, 'view' | 'services' | 'readNewest'>,
  wanted: Bytes,
): Bytes | undefined | Promise<Bytes | undefined> =>
  found(context, wanted, {
    // The bytes are copied, because the view may be released before they are written.
    ofIncluded: ({ block, index }) => block.transaction(index)?.raw.slice(),
    ofWaiting: ({ raw }) => raw,
  })
