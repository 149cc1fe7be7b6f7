/**
 * Reads flags, environment and configuration file, and returns the command to run or a text to
 * print. No other module reads them.
 */
import { readFileSync } from 'node:fs'
import { hint } from './closest-name.ts'
import { type Command, ConfigError, kebab } from './command.ts'
import { formatValue, parseFlags } from './flags.ts'
import { type Environment, type Resolved, resolve } from './layers.ts'

export type Invocation =
  | {
      readonly action: 'run'
      readonly command: Command
      readonly config: Resolved['config']
      readonly operands: readonly string[]
    }
  /** Text for standard output. */
  | { readonly action: 'print'; readonly text: string }

export type Known = {
  /** The first command is the default. */
  readonly commands: readonly [Command, ...Command[]]
  /** Names of commands that are planned for a later version. */
  readonly notYet: readonly string[]
}

/** The command `config` runs nothing. */
const INSPECT = {
  name: 'config',
  heading: 'More',
  summary: 'config check reports errors in the configuration, config dump prints it',
}

/** @throws {ConfigError} */
export function readInvocation(
  argv: readonly string[],
  environment: Environment,
  known: Known,
): Invocation {
  const [name = '', ...rest] = helpOf(argv, known)
  if (name === '--version' || name === '-V') return print(`flashnode ${version()}\n`)
  if (name === '' || name === '--help' || name === '-h' || name === 'help')
    return print(usage(known))
  if (name === INSPECT.name) return inspect(rest, environment, known)
  const command = find(name, known)
  if (command !== undefined) {
    const parsed = parseFlags(command, rest)
    if ('help' in parsed) return print(parsed.help)
    const { config, problems } = resolve(command, {
      flags: parsed.flags,
      environment,
      keys: keysOf(known),
    })
    if (problems[0] !== undefined) throw new ConfigError(problems[0])
    return { action: 'run', command, config, operands: parsed.operands }
  }
  if (known.notYet.includes(name))
    throw new ConfigError(`the command "${name}" is not available in this version (${version()})`)
  const names = listed(known).map((one) => one.name)
  throw new ConfigError(`unknown command "${name}"${hint(name, names, '--help lists them')}`)
}

/** Turns `help COMMAND` into `COMMAND --help`. */
function helpOf(argv: readonly string[], known: Known): readonly string[] {
  const [first, name = '', ...rest] = argv
  return first === 'help' && (find(name, known) ?? name === INSPECT.name)
    ? [name, '--help', ...rest]
    : argv
}

const find = (name: string, { commands }: Known): Command | undefined =>
  commands.find((command) => command.name === name)
const listed = ({ commands }: Known) => [...commands, INSPECT]
const print = (text: string): Invocation => ({ action: 'print', text })

const keysOf = ({ commands }: Known): ReadonlySet<string> =>
  new Set(commands.flatMap(({ flags }) => Object.keys(flags).map(kebab)))

/**
 * `config check|dump [COMMAND] FLAGS`: inspects the configuration of a command.
 * @throws {ConfigError} with every problem
 */
function inspect(argv: readonly string[], environment: Environment, known: Known): Invocation {
  const [what = '', ...rest] = argv
  if (what !== 'check' && what !== 'dump') {
    if (what === '--help' || what === '-h') return print(usage(known))
    throw new ConfigError(`unknown command "config ${what}": expected config check or config dump`)
  }
  const named = find(rest[0] ?? '', known)
  const command = named ?? known.commands[0]
  const parsed = parseFlags(command, named === undefined ? rest : rest.slice(1))
  if ('help' in parsed) return print(parsed.help)
  const resolved = resolve(command, { flags: parsed.flags, environment, keys: keysOf(known) })
  const { problems } = resolved
  if (what === 'check') {
    if (problems.length > 0) throw new ConfigError(problems.join('\n'))
    return print(`the configuration of ${command.name} is valid\n`)
  }
  if (problems[0] !== undefined) throw new ConfigError(problems[0])
  return print(dump(resolved))
}

const PASSWORD = /(?<=:\/\/[^/?#@]*:)[^/?#]*(?=@)/g

/** Prints each setting with its origin. Passwords are removed, because people share this output. */
function dump({ config, settings }: Resolved): string {
  const effective = new Map(Object.entries(config).map(([name, value]) => [kebab(name), value]))
  const width = Math.max(...settings.map(({ key }) => key.length))
  const lines = settings.map(
    ({ key, origin }) =>
      `${key.padEnd(width)}  ${formatValue(effective.get(key)).replace(PASSWORD, '***')}  # ${origin}`,
  )
  return `${lines.join('\n')}\n`
}

function usage(known: Known): string {
  const groups = Map.groupBy(listed(known), ({ heading = 'Commands' }) => heading)
  const sections = [...groups].map(
    ([heading, commands]) =>
      `${heading}:\n${commands.map(({ name, summary }) => `  ${name.padEnd(14)}${summary}\n`).join('')}\n`,
  )
  return `Usage: flashnode COMMAND [FLAGS]\n\n${sections.join('')}${FIRST_STEPS}`
}
const FIRST_STEPS = `Start with \`flashnode dev\`: a local development chain at http://127.0.0.1:8545/ for wallets, libraries and browsers.
\`flashnode COMMAND --help\` lists the flags and examples of a command, \`--help limits\` its limits; \`flashnode --version\` prints the version.
`

export function version(): string {
  const text = readFileSync(new URL(import.meta.resolve('#package')), 'utf8')
  return (JSON.parse(text) as { readonly version: string }).version
}
