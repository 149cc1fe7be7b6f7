/** Order of the EVM forks. */
import type { Rules } from './types.ts'

const EVM_FORKS: readonly string[] = [
  'chainstart',
  'homestead',
  'tangerineWhistle',
  'spuriousDragon',
  'byzantium',
  'constantinople',
  'petersburg',
  'istanbul',
  'muirGlacier',
  'berlin',
  'london',
  'arrowGlacier',
  'grayGlacier',
  'paris',
  'shanghai',
  'cancun',
  'prague',
  'osaka',
  'bpo1',
  'bpo2',
  'bpo3',
  'bpo4',
  'bpo5',
]

/** The forks that execution asks for. */
export type EvmFork =
  | 'homestead'
  | 'byzantium'
  | 'istanbul'
  | 'berlin'
  | 'london'
  | 'paris'
  | 'shanghai'
  | 'cancun'
  | 'prague'
  | 'osaka'

/** @throws {RangeError} when `rules.spec` names no fork. */
export function isAtLeast(rules: Rules, fork: EvmFork): boolean {
  const at = EVM_FORKS.indexOf(rules.spec)
  if (at < 0) throw new RangeError(`no EVM fork named ${JSON.stringify(rules.spec)}`)
  return at >= EVM_FORKS.indexOf(fork)
}
