/**
 * These are the options of commands that run recorded cases: `--engine NAME`, and `--engine-tier
 * auto|precise|stream`, for state tests also `each`.
 */
import { parseArgs } from 'node:util'
import type { Engine } from '../../engine/evm/engine.ts'
import { ENGINE_NAMES } from '../../engine/evm/engines/names.ts'
import { engineByName } from '../../engine/evm/engines/registry.ts'
import type { FastOptions } from '../../engine/evm/fast/fast.ts'
import { ENGINE_TIERS } from '../../engine/evm/fast/instance.ts'

/**
 * Makes the engine that the command line names, or the default.
 * @throws {RangeError} naming the available engines or tiers
 */
export function engineOption(): Engine {
  const { engine, tier } = options()
  return engineByName(engine, tierOption(tier))
}

/**
 * Makes a list of engines; with `--engine-tier each` one engine for each tier. A fallback to the
 * reference engine is an error, because its result is not that of the engine.
 * @throws {RangeError}
 */
export function enginesOption(): readonly Engine[] {
  const { engine, tier } = options()
  const onTrap = (reason: string): void => {
    throw new Error(reason)
  }
  return tier === 'each'
    ? ENGINE_TIERS.map((one) => engineByName(engine, { tier: one, onTrap }))
    : [engineByName(engine, { ...tierOption(tier), onTrap })]
}

function options(): { readonly engine: string; readonly tier: string | undefined } {
  const { values } = parseArgs({
    options: { engine: { type: 'string' }, 'engine-tier': { type: 'string' } },
  })
  return { engine: values.engine ?? ENGINE_NAMES[0], tier: values['engine-tier'] }
}

/**
 * Makes an engine from the form of `fuzz` and of the benchmark: `reference`, `fast`,
 * `fast:precise`.
 * @throws {RangeError}
 */
export function engineNamed(text: string): Engine {
  const [name = '', tier] = text.split(':')
  return engineByName(name, tierOption(tier))
}

/**
 * Makes the option of a tier.
 * @throws {RangeError} naming the available tiers
 */
function tierOption(wanted: string | undefined): FastOptions {
  const tier = ENGINE_TIERS.find((one) => one === wanted)
  if (wanted !== undefined && tier === undefined)
    throw new RangeError(`no tier ${JSON.stringify(wanted)}; there is ${ENGINE_TIERS.join(', ')}`)
  return tier === undefined ? {} : { tier }
}
