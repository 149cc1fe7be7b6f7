/** `--engine NAME` of the commands that run recorded cases. */
import { parseArgs } from 'node:util'
import type { Engine } from '../../engine/evm/engine.ts'
import { ENGINE_NAMES } from '../../engine/evm/engines/names.ts'
import { engineByName } from '../../engine/evm/engines/registry.ts'

/** The engine that the command line names, or the default. @throws {RangeError} naming the engines there are */
export function engineOption(): Engine {
  const { values } = parseArgs({ options: { engine: { type: 'string' } } })
  return engineByName(values.engine ?? ENGINE_NAMES[0])
}
