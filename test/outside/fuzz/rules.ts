/** Rules that the fuzzer runs under, made by the table of forks itself. */
import { FORKS } from '../../../engine/chainspec/forks.ts'
import { rulesOf } from '../../../engine/chainspec/rules.ts'
import type { Rules } from '../../../engine/chainspec/types.ts'

/** Newest fork of the chain → its rules. On the first chain no OP fork is active. */
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
  // An OP chain takes the EVM's forks with its own: the newest with the forks that came with it.
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
