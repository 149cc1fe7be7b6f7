/**
 * The table of engine/chain/block-state.ts throws errors of its own class; the model needs faults.
 */
import { BlockStateError } from '../../../engine/chain/block-state.ts'
import { Fault } from '../explore.ts'

/** @throws {Fault} when the table does not allow the step. */
export function allowed<T>(step: () => T): T {
  try {
    return step()
  } catch (error) {
    if (error instanceof BlockStateError) throw new Fault(error.message)
    throw error
  }
}
