/** The engines by name (`--engine`). */
import type { Engine } from '../engine.ts'
import { makeFastEngine } from '../fast/fast.ts'
import { makeReferenceEngine } from '../reference/reference.ts'
import { ENGINE_NAMES, type EngineName } from './names.ts'

type OnTrap = (reason: string) => void

/** Makes one with caches of its own. */
const MAKERS: Readonly<Record<EngineName, (onTrap?: OnTrap) => Engine>> = {
  reference: () => makeReferenceEngine(),
  fast: (onTrap) => makeFastEngine(makeReferenceEngine(), onTrap === undefined ? {} : { onTrap }),
}

/**
 * A new one, with caches of its own: a thread makes one and hands it on. `onTrap` hears why work is done again on another engine.
 * @throws {RangeError} naming the engines there are
 */
export function engineByName(wanted: string, onTrap?: OnTrap): Engine {
  const name = ENGINE_NAMES.find((one) => one === wanted)
  if (name === undefined)
    throw new RangeError(
      `no engine named ${JSON.stringify(wanted)}; there is ${ENGINE_NAMES.join(', ')}`,
    )
  return MAKERS[name](onTrap)
}
