/** The engines by name (`--engine`). */
import { createRequire } from 'node:module'
import type { Engine } from '../engine.ts'
import { type FastOptions, makeFastEngine } from '../fast/fast.ts'
import type { makeReferenceEngine } from '../reference/reference.ts'
import { ENGINE_NAMES, type EngineName } from './names.ts'

/** Its package takes each thread 110 ms to load, and on a chain of today's rules only verified calls ask it (2026-11). */
function loadReference(): Engine {
  const reference: { readonly makeReferenceEngine: typeof makeReferenceEngine } = createRequire(
    import.meta.url,
  )('../reference/reference.ts')
  return reference.makeReferenceEngine()
}

/** Behind the fast engine: loaded at the first session of older rules, or when work is done again. */
function referenceWhenAsked(): Engine {
  let made: Engine | undefined
  const get = () => {
    made ??= loadReference()
    return made
  }
  return {
    name: 'reference',
    openSession: (reader, block, rules) => get().openSession(reader, block, rules),
    precompiles: (rules) => get().precompiles(rules),
  }
}

/** Makes one with caches of its own. */
const MAKERS: Readonly<Record<EngineName, (options?: FastOptions) => Engine>> = {
  reference: loadReference,
  fast: (options) => makeFastEngine(referenceWhenAsked(), options),
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
