/** The fuzzer runs under these rules, which the table of forks makes. */
import { FORKS } from '../../../engine/chainspec/forks.ts'
import { rulesOf } from '../../../engine/chainspec/rules.ts'
import type { Rules } from '../../../engine/chainspec/types.ts'

/** Maps the newest fork of a chain to its rules. No OP fork is active on the first chains. */
const ROWS = [
  ...['cancun', 'prague', 'osaka'].map((newest) => rulesUntil(newest, false)),
  ...['ecotone', 'fjord', 'granite', 'isthmus', 'jovian', 'karst'].map((newest) =>
    rulesUntil(newest, true),
  ),
]

export const RULES: ReadonlyMap<string, Rules> = new Map(ROWS)

function rulesUntil(newest: string, isOptimism: boolean): [string, Rules] {
  const names = FORKS.map(({ name }) => name as string)
  const firstOptimism = names.indexOf('bedrock')
  // An OP chain activates Ethereum forks with its own, so the newest such fork applies.
  const ethereum = !isOptimism
    ? newest
    : names.indexOf(newest) >= names.indexOf('isthmus')
      ? 'prague'
      : 'cancun'
  const active = names.filter(
    (_, at) =>
      at <= names.indexOf(ethereum) ||
      (isOptimism && at >= firstOptimism && at <= names.indexOf(newest)),
  )
  const schedule = Object.fromEntries(active.map((name) => [name, 0n]))
  const rules = rulesOf({ chainId: 196n, schedule, elasticity: 6n, denominator: 250n })
  return [newest, rules(100n, 1_700_000_000n)]
}
