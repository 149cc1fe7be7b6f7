/** Options that several commands share; options of one command are in its folder. */
import { ENGINE_NAMES } from '../../engine/evm/engines/names.ts'
import { LIMITS, type Limits } from '../../rpc/core/limits.ts'
import type { ConfigOf } from './command.ts'
import { choice, flag, integer, type Option, option, optional, orWord, text } from './option.ts'

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

export const CONFIG_FILE = option('FILE', optional(text), {
  fallback: undefined,
  text: 'configuration file (JSON)',
})

export const JSON_OUT = flag('print the result as one line of JSON')

export const CHAIN = option('NAME|FILE', optional(text), {
  fallback: undefined,
  text: 'name of a known chain, or path of a genesis.json',
})

export const DATADIR = option('DIR', optional(text), {
  fallback: undefined,
  text: 'data directory',
  defaultText: '.flashnode/COMMAND-CHAIN',
})

/** Default data directory. `chain` is a name, or the path of a file. */
export const directoryOf = (command: string, chain: string): string =>
  `.flashnode/${command}-${chain.replace(/^.*\//, '').replace(/\.json$/, '')}`

/** Options of commands that work on a chain, such as a node or an import. */
export const WORKING = {
  historyBlocks: option('N|all', orWord('all', integer(256, 1_000_000_000)), {
    fallback: 'all',
    text: 'newest blocks whose state is retained',
  }),
  dbCache: option('MB', optional(integer(16, 65_536)), {
    fallback: undefined,
    text: 'block cache of the database; the cache of trie nodes takes a further quarter of it',
  }),
  engine: option('NAME', choice(...ENGINE_NAMES), {
    fallback: ENGINE_NAMES[0],
    text: `EVM that executes: ${ENGINE_NAMES.join(', ')}`,
  }),
  config: CONFIG_FILE,
  logLevel: option('LEVEL', choice(...LOG_LEVELS), {
    fallback: 'info',
    text: `lowest level in the log: ${LOG_LEVELS.join(', ')}`,
  }),
  logFormat: option('pretty|json', optional(choice('pretty', 'json')), {
    fallback: undefined,
    text: 'format of the log on standard error',
    defaultText: 'pretty on a terminal, else json',
  }),
}

export const DB_CACHE_MB = 512

export type WorkingConfig = ConfigOf<typeof WORKING, { readonly dbCache: number }>

type LimitFlags = Readonly<Record<`limit${Capitalize<keyof Limits>}`, Option<number>>>

/** Makes a flag `--limit-<name>` for each entry of rpc/core/limits.ts. */
export const LIMIT_FLAGS = Object.fromEntries(
  Object.entries(LIMITS).map(([name, { value, unit, text: what, min }]) => [
    limitFlag(name),
    option(unit.toUpperCase(), integer(min, Number.MAX_SAFE_INTEGER), {
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

export const limitsGiven = (limits: Limits): Partial<Limits> =>
  Object.fromEntries(
    Object.entries(LIMITS).flatMap(([name, { value }]) => {
      const given = limits[name as keyof Limits]
      return given === value ? [] : [[name, given]]
    }),
  )

/** Converts `bodyBytes` to `limitBodyBytes`. */
function limitFlag(name: string): string {
  return `limit${name[0]!.toUpperCase()}${name.slice(1)}`
}
