/** What the module must know of a fork, and for which forks it is. */
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

/** By the names of the EVM's forks; all others are older. */
const NEWEST = ['osaka', 'bpo1', 'bpo2', 'bpo3', 'bpo4', 'bpo5']
const WITH_DELEGATIONS = ['prague', ...NEWEST]
const ALL = ['cancun', ...WITH_DELEGATIONS]

export const isFast = ({ spec }: EvmRules): boolean => ALL.includes(spec)

export function fastRules(rules: EvmRules): FastRules {
  const hasLeadingZeros = NEWEST.includes(rules.spec)
  const precompiles = precompilesOf(rules)
  return {
    rows: opcodeRows({ hasLeadingZeros }),
    hasDelegations: WITH_DELEGATIONS.includes(rules.spec),
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
