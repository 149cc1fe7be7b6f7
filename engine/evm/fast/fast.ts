/**
 * The fast engine: our own EVM in WebAssembly. Sessions with older rules run on the reference
 * engine, behind the same interface.
 */
import type { EvmRules } from '../../chainspec/types.ts'
import { codeCache } from '../code-cache.ts'
import type { Engine } from '../engine.ts'
import { type AroundHost, type EngineTier, idleInstances } from './instance.ts'
import { compileModule } from './module.ts'
import { Ended } from './reads.ts'
import { type FastRules, fastRules, isFast } from './rules.ts'
import { openFastSession } from './session.ts'

/** Bytes of cached code beside the instances' own. */
const CODE_CACHE_BYTES = 4 * 1024 * 1024

export type FastOptions = {
  /** A compiled module to share; V8 compiles equal bytes once in a process. */
  readonly module?: WebAssembly.Module
  readonly tier?: EngineTier
  /** Called with the reason when work is repeated on the reference engine. */
  readonly onTrap?: (reason: string) => void
  /** Wraps the host functions in tests. */
  readonly around?: AroundHost
}

/**
 * Makes an engine with instances, code and rules of its own; a thread needs one.
 * @param reference repeats the work where this engine fails
 */
export function makeFastEngine(reference: Engine, options: FastOptions = {}): Engine {
  const { module = compileModule(), onTrap = () => {}, tier, around } = options
  const idle = idleInstances(module, { tier, around })
  const codes = codeCache(CODE_CACHE_BYTES)
  // Changes of precompiled contracts are one object for each fork, or undefined.
  const known = new Map<EvmRules['precompiles'], Map<string, FastRules | undefined>>()
  /** Rules for the module; undefined selects the reference engine. */
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
      try {
        return openFastSession({ idle, codes, rules, fast, reader, block })
      } catch (error) {
        if (!isFailure(error)) throw error
        onTrap(`no session could be opened: ${error.message}`)
        return reference.openSession(reader, block, rules)
      }
    },
    precompiles: (rules) => rulesOf(rules)?.addresses ?? reference.precompiles(rules),
    fallback: { engine: reference, report: onTrap },
  }
}

/** A failed allocation of an instance is a RangeError. */
const isFailure = (error: unknown): error is Error =>
  error instanceof WebAssembly.RuntimeError || error instanceof RangeError || error instanceof Ended
