/** How a block came to be what a view shows of it: flashblock by flashblock, as long as its tables are there. */
import { bytesToHex } from '../primitives/hex.ts'
import { payloadOf } from '../views/table.ts'
import { indexOf, prefixOf } from '../views/walk.ts'
import type { Block, Growth } from './types.ts'
import type { BlocksContext, ViewBlocks } from './view-blocks.ts'

/** @param from flashblock index: what the block was before it is left out */
export function growthOf(
  { thread: { arena }, endpoint }: BlocksContext,
  blocks: ViewBlocks,
  { block, from }: { readonly block: Block; readonly from: number },
): Growth {
  const position = blocks.positionOf(block)
  if (position === undefined || position.table === 0)
    return { id: undefined, payloadId: undefined, flashblocks: [block] }
  const last = indexOf(arena, position)
  // The standard endpoint shows whole blocks alone, and those that came without a feed were never shown but as they are.
  const payload = endpoint === 'standard' ? undefined : payloadOf(arena, position.table)
  const flashblocks: Block[] = []
  if (payload === undefined && from <= last) flashblocks.push(block)
  let index = from
  while (payload !== undefined && index <= last) {
    const prefix = prefixOf(arena, position, index)
    if (prefix !== undefined) flashblocks.push(blocks.at(prefix))
    // What no flashblock told has an index far above them.
    index = prefix === undefined && index < last ? last : index + 1
  }
  return { id: position.id, payloadId: payload && bytesToHex(payload), flashblocks }
}
