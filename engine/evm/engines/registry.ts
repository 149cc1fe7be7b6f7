/** The engines by name (`--engine`). */
import type { Engine } from '../engine.ts'
import { type FastOptions, makeFastEngine } from '../fast/fast.ts'
import { makeReferenceEngine } from '../reference/reference.ts'
import { ENGINE_NAMES, type EngineName } from './names.ts'

/** Makes one with caches of its own. */
const MAKERS: Readonly<Record<EngineName, (options?: FastOptions) => Engine>> = {
  reference: () => makeReferenceEngine(),
  fast: (options) => makeFastEngine(makeReferenceEngine(), options),
}

/**
 * A new one, with caches of its own: a thread makes one and hands it on. Options are the fast engine's.
 * @throws {RangeError} naming the engines there are
 */
export function engineByName(wanted: string, options?: FastOptions): Engine {
  const name = ENGINE_NAMES.find((one) => one === wanted)
  if (name === undefined)
    throw new RangeError(
      `no engine named ${JSON.stringify(wanted)}; there is ${ENGINE_NAMES.join(', ')}`,
    )
  return MAKERS[name](options)
}
