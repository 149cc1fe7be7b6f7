/** Whether readers have come to a flashblock. */

import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { FlashblockPlace } from '../../engine/sources/sequencer/types.ts'

/**
 * The pending head is this flashblock or a later one.
 * @param payloadId of which payload, where another one of its height may be shown
 */
export function isShown(
  reader: ChainReader,
  { number, index }: FlashblockPlace,
  payloadId?: string,
): boolean {
  const pending = readNewest(reader, 'flashblocks', (view) => view.pending)
  const isOther = payloadId !== undefined && pending.payloadId !== payloadId
  if (pending.number === BigInt(number) && isOther) return false
  return pending.number > number || (pending.number === BigInt(number) && pending.index >= index)
}
