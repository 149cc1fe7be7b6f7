/** Whether readers have come to a flashblock. */

import { readNewest } from '../../engine/chain/newest.ts'
import type { ChainReader } from '../../engine/chain/types.ts'
import type { FlashblockPlace } from '../../engine/sources/sequencer/types.ts'

/** The pending head is this flashblock or a later one. */
export function isShown(reader: ChainReader, { number, index }: FlashblockPlace): boolean {
  const pending = readNewest(reader, 'flashblocks', (view) => view.pending)
  return pending.number > number || (pending.number === BigInt(number) && pending.index >= index)
}
