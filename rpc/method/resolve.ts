/** Resolves block parameters to blocks. */
import type { Block, BlockSelector, ChainView } from '../../engine/chain/types.ts'
import type { StateReader } from '../../engine/state/reader.ts'
import { flashblockNotFound, headerForHashNotFound, headerNotFound } from '../core/errors.ts'

/**
 * Returns the block that a state method selects.
 * @throws {RpcError} when there is none
 */
export function resolveBlock(view: ChainView, selector: BlockSelector): Block {
  const block = view.block(selector)
  if (block !== undefined) return block
  if ('flashblock' in selector) throw flashblockNotFound(selector.flashblock)
  throw 'hash' in selector ? headerForHashNotFound() : headerNotFound()
}

/**
 * Returns the state after the selected block.
 * @throws {RpcError}
 */
export const resolveState = (view: ChainView, selector: BlockSelector): StateReader =>
  view.state(resolveBlock(view, selector))

export const LATEST = { tag: 'latest' } as const
export const PENDING = { tag: 'pending' } as const
