/** The rules of a fork in the module's form, and the forks that it supports. */
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
  /** Addresses of the precompiled contracts, in the order of `precompiles`. */
  readonly addresses: readonly Bytes[]
}

/** Older forks run on the reference engine. */
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

/** Writes a small number as a 20-byte address. */
function lowAddress(number: number): Bytes {
  const bytes = new Uint8Array(20)
  new DataView(bytes.buffer).setUint32(16, number)
  return bytes
}
