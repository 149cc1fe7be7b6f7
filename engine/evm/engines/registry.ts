/** Makes engines by their name (`--engine`). */
import { createRequire } from 'node:module'
import type { Engine } from '../engine.ts'
import { type FastOptions, makeFastEngine } from '../fast/fast.ts'
import type { makeReferenceEngine } from '../reference/reference.ts'
import { ENGINE_NAMES, type EngineName } from './names.ts'

/**
 * Loads the reference engine on demand, because its package takes each thread 110 ms to load. On a
 * chain with today's rules only verified calls use it (2026-11).
 */
function loadReference(): Engine {
  const reference: { readonly makeReferenceEngine: typeof makeReferenceEngine } = createRequire(
    import.meta.url,
  )('../reference/reference.ts')
  return reference.makeReferenceEngine()
}

/** Loads the reference engine at the first session of older rules, or when work is repeated. */
function referenceWhenRequested(): Engine {
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

const MAKERS: Readonly<Record<EngineName, (options?: FastOptions) => Engine>> = {
  reference: loadReference,
  fast: (options) => makeFastEngine(referenceWhenRequested(), options),
}

/**
 * Makes an engine with caches of its own; a thread makes one and shares it.
 * @param options options of the fast engine
 * @throws {RangeError} with the names of the known engines
 */
export function engineByName(wanted: string, options?: FastOptions): Engine {
  const name = ENGINE_NAMES.find((one) => one === wanted)
  if (name === undefined)
    throw new RangeError(
      `no engine named ${JSON.stringify(wanted)}; there is ${ENGINE_NAMES.join(', ')}`,
    )
  return MAKERS[name](options)
}
