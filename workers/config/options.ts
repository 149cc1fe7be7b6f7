/** Options that several commands share. An option of one command stands in its folder. */
import { ENGINE_NAMES } from '../../engine/evm/engines/names.ts'
import { LIMITS, type Limits } from '../../rpc/seam/limits.ts'
import type { ConfigOf } from './command.ts'
import { choice, flag, integer, type Option, option, optional, orWord, text } from './option.ts'

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

/** Every command has it. */
export const CONFIG_FILE = option('FILE', optional(text), {
  fallback: undefined,
  text: 'configuration file (JSON)',
})

/** Of commands that end with a result. */
export const JSON_OUT = flag('the result as one line of JSON')

export const CHAIN = option('NAME|FILE', optional(text), {
  fallback: undefined,
  text: 'chain by name, or a genesis.json',
})

export const DATADIR = option('DIR', optional(text), {
  fallback: undefined,
  text: 'data directory',
  shown: '.flashnode/COMMAND-CHAIN',
})

/** Where nobody names one. `chain`: a name, or the path of a file. */
export const directoryOf = (command: string, chain: string): string =>
  `.flashnode/${command}-${chain.replace(/^.*\//, '').replace(/\.json$/, '')}`

/** Of whatever works on a chain: a node, an import. */
export const WORKING = {
  historyBlocks: option('N|all', orWord('all', integer(256, 1_000_000_000)), {
    fallback: 'all',
    text: 'blocks whose state is kept',
  }),
  dbCache: option('MB', optional(integer(16, 65_536)), {
    fallback: undefined,
    text: 'block caches of the database; a quarter of it again for trie nodes',
  }),
  engine: option('NAME', choice(...ENGINE_NAMES), {
    fallback: ENGINE_NAMES[0],
    text: `which EVM runs: ${ENGINE_NAMES.join(', ')}`,
  }),
  config: CONFIG_FILE,
  logLevel: option('LEVEL', choice(...LOG_LEVELS), {
    fallback: 'info',
    text: LOG_LEVELS.join(', '),
  }),
  logFormat: option('pretty|json', optional(choice('pretty', 'json')), {
    fallback: undefined,
    text: 'form of the log on standard error',
    shown: 'pretty on a terminal, else json',
  }),
}

/** Megabytes of `dbCache` where the command says nothing else. */
export const DB_CACHE_MB = 512

export type WorkingConfig = ConfigOf<typeof WORKING, { readonly dbCache: number }>

type LimitFlags = Readonly<Record<`limit${Capitalize<keyof Limits>}`, Option<number>>>

/** `--limit-<name>` of each entry of rpc/seam/limits.ts. */
export const LIMIT_FLAGS = Object.fromEntries(
  Object.entries(LIMITS).map(([name, { value, unit, text: what, least }]) => [
    limitFlag(name),
    option(unit.toUpperCase(), integer(least, Number.MAX_SAFE_INTEGER), {
      fallback: value,
      text: what,
    }),
  ]),
) as LimitFlags

export function limitsOf(given: Readonly<Record<keyof LimitFlags, number>>): Limits {
  const values: Readonly<Record<string, number>> = given
  const names = Object.keys(LIMITS)
  return Object.fromEntries(names.map((name) => [name, values[limitFlag(name)]])) as Limits
}

/** Those that are another number than their default. */
export const limitsGiven = (limits: Limits): Partial<Limits> =>
  Object.fromEntries(
    Object.entries(LIMITS).flatMap(([name, { value }]) => {
      const given = limits[name as keyof Limits]
      return given === value ? [] : [[name, given]]
    }),
  )

/** `bodyBytes` → `limitBodyBytes`. */
function limitFlag(name: string): string {
  return `limit${name[0]!.toUpperCase()}${name.slice(1)}`
}
