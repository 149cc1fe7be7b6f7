/** Checks if a flashblock is visible to readers. */

import type { ChainReader } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import type { FlashblockPosition } from '../../engine/sources/sequencer/types.ts'

/**
 * Returns true if the pending head is this flashblock or a later one.
 * @param payloadId payload of the flashblock, if a competing payload of its height may be visible
 */
export function isVisible(
  reader: ChainReader,
  { number, index }: FlashblockPosition,
  payloadId?: string,
): boolean {
  const pending = readNewest(reader, 'flashblocks', (view) => view.pending)
  const isOther = payloadId !== undefined && pending.payloadId !== payloadId
  if (pending.number === BigInt(number) && isOther) return false
  return pending.number > number || (pending.number === BigInt(number) && pending.index >= index)
}
