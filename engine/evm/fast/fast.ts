/** The fast engine: our own EVM in WebAssembly. Rules older than its forks are the reference engine's, behind the same interface. */
import type { EvmRules } from '../../chainspec/types.ts'
import { codeCache } from '../code-cache.ts'
import type { Engine } from '../engine.ts'
import type { EngineTier } from '../engines/names.ts'
import { instancePool } from './instance.ts'
import { compileModule } from './module.ts'
import { type FastRules, fastRules, isFast } from './rules.ts'
import { openFastSession } from './session.ts'

/** Bytes of code beside what the instances keep. */
const CODE_CACHE_BYTES = 4 * 1024 * 1024

export type FastEngineOptions = {
  readonly module?: WebAssembly.Module
  readonly tier?: EngineTier | undefined
}

/**
 * Instances, code and rules of its own: one for a thread is right.
 * @param options.module compiled once in a process
 */
export function makeFastEngine(
  reference: Engine,
  { module = compileModule(), tier = 'auto' }: FastEngineOptions = {},
): Engine {
  const pool = instancePool(module, tier)
  const codes = codeCache(CODE_CACHE_BYTES)
  // What changes precompiled contracts is one object for each fork, undefined where none does.
  const known = new Map<EvmRules['precompiles'], Map<string, FastRules | undefined>>()
  /** undefined: the reference engine's. */
  function rulesOf(rules: EvmRules): FastRules | undefined {
    const bySpec = known.get(rules.precompiles) ?? new Map<string, FastRules | undefined>()
    if (bySpec.has(rules.spec)) return bySpec.get(rules.spec)
    const found = isFast(rules) ? fastRules(rules) : undefined
    known.set(rules.precompiles, bySpec.set(rules.spec, found))
    return found
  }
  return {
    name: 'fast',
    openSession(reader, block, rules) {
      const fast = rulesOf(rules)
      if (fast === undefined) return reference.openSession(reader, block, rules)
      return openFastSession({ pool, codes, rules, fast, reader, block })
    },
    precompiles: (rules) => rulesOf(rules)?.addresses ?? reference.precompiles(rules),
  }
}
