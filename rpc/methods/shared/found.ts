/** A transaction by hash, wherever it is: in a block of the view, or waiting in the txpool. */
import type { ChainView } from '../../../engine/chain/types.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { SignedTransaction } from '../../../engine/primitives/transaction.ts'
import { ViewError } from '../../../engine/state/reader.ts'
import type { FrontContext } from '../../method/method.ts'

type Place = NonNullable<ReturnType<ChainView['findTransaction']>>
type Answers<T> = {
  /** Reads nothing of the view that it leaves in its answer. */
  readonly ofPlace: (place: Place) => T | undefined
  readonly ofWaiting: (transaction: SignedTransaction) => T
}

/** @throws {ViewError} {MissingError} */
export function found<T>(
  { view, services, readNewest }: Pick<FrontContext, 'view' | 'services' | 'readNewest'>,
  wanted: Bytes,
  { ofPlace, ofWaiting }: Answers<T>,
): T | undefined | Promise<T | undefined> {
  const place = view.findTransaction(wanted)
  if (place !== undefined) return ofPlace(place)
  const waiting = services.transactions.get(wanted)
  if (!(waiting instanceof Promise)) return waiting && ofWaiting(waiting)
  return waiting.then((transaction) => {
    if (transaction !== undefined) return ofWaiting(transaction)
    // It may have left the txpool for a block that the view does not have: that is no answer of this view.
    const isLater = readNewest((newest) => newest.findTransaction(wanted) !== undefined)
    if (isLater) throw new ViewError('void', 'the transaction is in a block of a newer view')
    return undefined
  })
}

/** The envelope, wherever it is. @throws {ViewError} {MissingError} */
export const foundRaw = (
  context: Pick<FrontContext, 'view' | 'services' | 'readNewest'>,
  wanted: Bytes,
): Bytes | undefined | Promise<Bytes | undefined> =>
  found(context, wanted, {
    // A copy: the view may be given back before it is written.
    ofPlace: ({ block, index }) => block.transaction(index)?.raw.slice(),
    ofWaiting: ({ raw }) => raw,
  })
