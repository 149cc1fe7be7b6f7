/** The table of engine/chain/life.ts speaks by errors of its own. */
import { LifeError } from '../../../engine/chain/life.ts'
import { Fault } from '../explore.ts'

/** @throws {Fault} for what a block may not do. */
export function allowed<T>(step: () => T): T {
  try {
    return step()
  } catch (error) {
    if (error instanceof LifeError) throw new Fault(error.message)
    throw error
  }
}
