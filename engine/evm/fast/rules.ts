/** What the module must know of a fork, and for which forks it is. */
import { opcodesOf } from '../../chainspec/forks.ts'
import type { EvmRules } from '../../chainspec/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { type Precompile, precompilesOf } from '../precompiles/table.ts'
import { opcodeRows } from './opcode-rows.ts'

export type FastRules = {
  readonly rows: Bytes
  readonly hasDelegations: boolean
  readonly hasLeadingZeros: boolean
  readonly precompiles: ReadonlyMap<number, Precompile>
  /** Of the precompiled contracts, in the same order. */
  readonly addresses: readonly Bytes[]
}

/** Older forks are left to the reference engine. */
export const isFast = ({ spec }: EvmRules): boolean => opcodesOf(spec).hasTransientStorage

export function fastRules(rules: EvmRules): FastRules {
  const { hasDelegations, hasLeadingZeros } = opcodesOf(rules.spec)
  const precompiles = precompilesOf(rules)
  return {
    rows: opcodeRows({ hasLeadingZeros }),
    hasDelegations,
    hasLeadingZeros,
    precompiles,
    addresses: [...precompiles.keys()].map(lowAddress),
  }
}

/** 20 bytes of a small number. */
function lowAddress(number: number): Bytes {
  const bytes = new Uint8Array(20)
  new DataView(bytes.buffer).setUint32(16, number)
  return bytes
}
