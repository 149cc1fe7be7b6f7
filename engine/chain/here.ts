/** Blocks that a node may have only in part: a lazy state that began anew has a hole above what it has kept. */
import { ViewError } from '../state/reader.ts'
import type { Block, ChainView } from './types.ts'

/** A block of which only the state is here is not there, nor is one in a hole. @throws {ViewError} when the view has gone */
export function blockHere(view: ChainView, number: bigint): Block | undefined {
  try {
    return view.block({ number })
  } catch (error) {
    if (error instanceof ViewError && error.reason === 'pruned') return undefined
    throw error
  }
}
