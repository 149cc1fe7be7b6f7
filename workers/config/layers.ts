/** Merges the layers of the configuration: flags over environment over file over defaults. */

import { hint } from './closest-name.ts'
import { type Command, kebab } from './command.ts'
import { readConfigFile } from './config-file.ts'
import type { TypedFlags } from './flags.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export type Setting = { readonly key: string; readonly value: unknown; readonly origin: string }
export type Resolved = {
  readonly config: Readonly<Record<string, unknown>>
  readonly settings: readonly Setting[]
  readonly problems: readonly string[]
}

export const environmentName = (key: string): string =>
  `FLASHNODE_${key.toUpperCase().replaceAll('-', '_')}`

/**
 * Resolves the configuration; an invalid value is replaced by its default and reported as a
 * problem.
 * @param layers `keys` are those of all commands, because they share environment and file
 */
export function resolve(
  command: Command,
  layers: {
    readonly flags: TypedFlags
    readonly environment: Environment
    readonly keys: ReadonlySet<string>
  },
): Resolved {
  const { flags, keys } = layers
  const { given, problems } = readEnvironment(layers.environment, keys)
  const path = flags.get('config') ?? given.get('config')
  const file = path === undefined ? undefined : readConfigFile(path, keys)
  problems.push(...(file?.problems ?? []))
  const values: Record<string, unknown> = {}
  const settings = Object.entries(command.flags).map(([name, option]): Setting => {
    const key = kebab(name)
    const [text, origin] = pick([
      [flags.get(key), `flag --${key}`],
      [given.get(key), `environment ${environmentName(key)}`],
      [file?.values.get(key), `file ${path}, key "${key}"`],
    ])
    let value = option.fallback
    try {
      if (text !== undefined) value = option.decode(text)
    } catch (error) {
      problems.push(`${origin}: "${text}": ${(error as Error).message}`)
    }
    values[name] = value
    return { key, value, origin }
  })
  const missing = missingOf(command, values)
  if (missing.length > 0) return { config: values, settings, problems: [...problems, ...missing] }
  const config = { ...values, ...command.defaults(values) }
  const isFlag = (key: string) => settings.some(({ origin }) => origin === `flag --${key}`)
  problems.push(...(command.problems?.(config, isFlag) ?? []))
  return { config, settings, problems }
}

/** Variables of other programs, and empty ones, are ignored. */
function readEnvironment(
  environment: Environment,
  keys: ReadonlySet<string>,
): { readonly given: ReadonlyMap<string, string>; readonly problems: string[] } {
  const given = new Map<string, string>()
  const problems: string[] = []
  const names = new Map([...keys].map((key) => [environmentName(key), key]))
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('FLASHNODE_') || text === undefined || text === '') continue
    const key = names.get(name)
    if (key !== undefined) given.set(key, text)
    else
      problems.push(
        `unknown variable ${name} in the environment${hint(name, names.keys(), 'each flag of --help has one')}`,
      )
  }
  return { given, problems }
}

function pick(
  layers: readonly (readonly [string | undefined, string])[],
): readonly [string | undefined, string] {
  return layers.find(([text]) => text !== undefined) ?? [undefined, 'default']
}

function missingOf(
  { name: command, flags }: Command,
  values: Readonly<Record<string, unknown>>,
): readonly string[] {
  return Object.entries(flags).flatMap(([name, { isNeeded, value }]) =>
    isNeeded && values[name] === '' ? [`${command} needs --${kebab(name)} ${value}`] : [],
  )
}
