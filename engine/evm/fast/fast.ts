/** The fast engine: our own EVM in WebAssembly. Rules older than its forks are the reference engine's, behind the same interface. */
import type { EvmRules } from '../../chainspec/types.ts'
import { codeCache } from '../code-cache.ts'
import type { Engine } from '../engine.ts'
import { type AroundHost, idleInstances } from './instance.ts'
import { compileModule } from './module.ts'
import { Ended } from './reads.ts'
import { type FastRules, fastRules, isFast } from './rules.ts'
import { openFastSession } from './session.ts'
import type { EngineTier } from './tier.ts'

/** Bytes of code beside what the instances keep. */
const CODE_CACHE_BYTES = 4 * 1024 * 1024

export type FastOptions = {
  /** V8 compiles the same bytes once in a process, whoever asks. */
  readonly module?: WebAssembly.Module
  readonly tier?: EngineTier
  /** Hears why work is done again on the reference engine. */
  readonly onTrap?: (reason: string) => void
  /** May put something around the host's functions. */
  readonly around?: AroundHost
}

/** Instances, code and rules of its own: one for a thread is right. Where it fails, `reference` can do the work again. */
export function makeFastEngine(reference: Engine, options: FastOptions = {}): Engine {
  const { module = compileModule(), onTrap = () => {}, tier, around } = options
  const idle = idleInstances(module, { tier, around })
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
      try {
        return openFastSession({ idle, codes, rules, fast, reader, block })
      } catch (error) {
        if (!isFailure(error)) throw error
        onTrap(`no session could be opened: ${error.message}`)
        return reference.openSession(reader, block, rules)
      }
    },
    precompiles: (rules) => rulesOf(rules)?.addresses ?? reference.precompiles(rules),
    fallback: { engine: reference, tell: onTrap },
  }
}

/** No memory for an instance is a RangeError. */
const isFailure = (error: unknown): error is Error =>
  error instanceof WebAssembly.RuntimeError || error instanceof RangeError || error instanceof Ended
