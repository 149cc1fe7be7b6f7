/** `--engine NAME` and `--engine-tier auto|precise|stream` of the commands that run recorded cases. */
import { parseArgs } from 'node:util'
import type { Engine } from '../../engine/evm/engine.ts'
import { ENGINE_NAMES } from '../../engine/evm/engines/names.ts'
import { engineByName } from '../../engine/evm/engines/registry.ts'
import type { FastOptions } from '../../engine/evm/fast/fast.ts'
import { ENGINE_TIERS } from '../../engine/evm/fast/tier.ts'

/** The engine that the command line names, or the default. @throws {RangeError} naming the engines or tiers there are */
export function engineOption(): Engine {
  const { values } = parseArgs({
    options: { engine: { type: 'string' }, 'engine-tier': { type: 'string' } },
  })
  return engineByName(values.engine ?? ENGINE_NAMES[0], tierOption(values['engine-tier']))
}

/** An engine as `fuzz` and the benchmark name it: `reference`, `fast`, `fast:precise`. @throws {RangeError} */
export function engineNamed(text: string): Engine {
  const [name = '', tier] = text.split(':')
  return engineByName(name, tierOption(tier))
}

/** @throws {RangeError} naming the tiers there are */
function tierOption(wanted: string | undefined): FastOptions {
  const tier = ENGINE_TIERS.find((one) => one === wanted)
  if (wanted !== undefined && tier === undefined)
    throw new RangeError(`no tier ${JSON.stringify(wanted)}; there is ${ENGINE_TIERS.join(', ')}`)
  return tier === undefined ? {} : { tier }
}
