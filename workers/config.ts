/** The configuration: flags over environment over file over defaults. The only reader of them. */
import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { isLoopback } from '../rpc/address.ts'
import { DEFAULT_LIMITS, type Limits } from '../rpc/limits.ts'
import { readConfigFile } from './config-file.ts'
import { nearest } from './nearest.ts'
import {
  type CommandName,
  environmentName,
  kebab,
  LIMIT_OPTIONS,
  OPTIONS,
  OPTIONS_BY_KEY,
  type Options,
} from './options.ts'

export type Config = Omit<Options, 'adminPort' | 'datadir' | 'dbCache'> & {
  readonly command: CommandName
  /** 0: off. */
  readonly adminPort: number
  /** Megabytes. */
  readonly dbCache: number
  /** Bytes of trie nodes in memory. */
  readonly trieCacheBytes: number
  /** undefined: ephemeral. */
  readonly datadir: string | undefined
  readonly limits: Limits
}

export type Invocation =
  | { readonly action: 'run'; readonly config: Config }
  | { readonly action: 'migrate'; readonly datadir: string }
  /** For standard output. */
  | { readonly action: 'print'; readonly text: string }

/** A start that cannot be: one line for standard error, exit status 2. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}

type Environment = Readonly<Record<string, string | undefined>>

const COMMANDS: Readonly<Record<CommandName | 'config', string>> = {
  dev: 'the embedded network: sequencer, feed and node in one process',
  serve: 'serves a data directory as it is',
  migrate: 'brings a data directory of an older format to this one; can be cut off and run again',
  import: 'executes and verifies a file of blocks into a data directory',
  'import-state': 'loads an account dump as the state of a block into a new data directory',
  config: 'config check says what is wrong with the configuration, config dump prints it',
}
const UNAVAILABLE = ['follow']

/** @throws {ConfigError} */
export function readInvocation(argv: readonly string[], environment: Environment): Invocation {
  const [name = '', ...rest] = argv
  if (name === '--version' || name === '-V') return print(`flashnode ${version()}\n`)
  if (name === '' || name === '--help' || name === '-h' || name === 'help') return print(usage())
  if (name === 'config') return inspect(rest, environment)
  if (name === 'migrate') return migration(rest, environment)
  if (isCommand(name)) {
    const parsed = parseFlags(name, rest)
    if ('help' in parsed) return print(parsed.help)
    const { config, problems } = resolve(name, parsed.flags, environment)
    if (problems[0] !== undefined) throw new ConfigError(problems[0])
    return { action: 'run', config }
  }
  if (UNAVAILABLE.includes(name))
    throw new ConfigError(`the command "${name}" is not available in this version (${version()})`)
  throw new ConfigError(
    `unknown command "${name}"; nearest: "${nearest(name, Object.keys(COMMANDS))}"`,
  )
}

/** @throws {ConfigError} also where no directory is named: there is none that it could mean. */
function migration(argv: readonly string[], environment: Environment): Invocation {
  const parsed = parseFlags('migrate', argv)
  if ('help' in parsed) return print(parsed.help)
  const { config, settings, problems } = resolve('migrate', parsed.flags, environment)
  if (problems[0] !== undefined) throw new ConfigError(problems[0])
  const isNamed = settings.some(({ key, origin }) => key === 'datadir' && origin !== 'default')
  if (!isNamed || config.datadir === undefined)
    throw new ConfigError('migrate needs --datadir DIR, the directory to migrate')
  return { action: 'migrate', datadir: config.datadir }
}

const isCommand = (name: string): name is CommandName =>
  name !== 'config' && Object.hasOwn(COMMANDS, name)
const print = (text: string): Invocation => ({ action: 'print', text })

/** `config check|dump [COMMAND] FLAGS`: as that command would see it. @throws {ConfigError} with every problem. */
function inspect(argv: readonly string[], environment: Environment): Invocation {
  const [what = '', ...rest] = argv
  if (what !== 'check' && what !== 'dump') {
    if (what === '--help' || what === '-h') return print(usage())
    throw new ConfigError(
      `unknown command "config ${what}"; nearest: "config ${nearest(what, ['check', 'dump'])}"`,
    )
  }
  const [first = ''] = rest
  const command = isCommand(first) ? first : 'dev'
  const parsed = parseFlags(command, isCommand(first) ? rest.slice(1) : rest)
  if ('help' in parsed) return print(parsed.help)
  const { config, settings, problems } = resolve(command, parsed.flags, environment)
  if (what === 'check') {
    if (problems.length > 0) throw new ConfigError(problems.join('\n'))
    return print(`the configuration of ${command} is valid\n`)
  }
  const effective = new Map(Object.entries(config).map(([name, value]) => [kebab(name), value]))
  const width = Math.max(...settings.map(({ key }) => key.length))
  const lines = settings.map(
    ({ key, value, origin }) =>
      `${key.padEnd(width)}  ${show(effective.get(key) ?? value)}  # ${origin}`,
  )
  if (problems[0] !== undefined) throw new ConfigError(problems[0])
  return print(`${lines.join('\n')}\n`)
}

const show = (value: unknown): string =>
  value === undefined ? 'none' : Array.isArray(value) ? value.join(',') || 'none' : String(value)

type Flags = ReadonlyMap<string, string>

/** The flags as text, nothing decoded. @throws {ConfigError} */
function parseFlags(
  name: CommandName,
  argv: readonly string[],
): { readonly flags: Flags } | { readonly help: string } {
  let output = ''
  const command = new Command(`flashnode ${name}`)
    .description(COMMANDS[name])
    .exitOverride()
    .configureOutput({
      writeOut(text) {
        output += text
      },
      writeErr() {},
    })
    .showSuggestionAfterError(false)
    .allowExcessArguments(false)
  const flags = [...OPTIONS_BY_KEY].filter(([, { commands }]) => commands.includes(name))
  for (const [key, { value, text, fallback, shown }] of flags)
    if (value === undefined) command.option(`--${key}`, text)
    else command.option(`--${key} <${value}>`, `${text} (${shown ?? show(fallback)})`)
  command.addHelpText('after', `\n${PRECEDENCE}`)
  try {
    command.parse(argv, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return { help: output }
    throw new ConfigError(
      explain(
        error,
        argv,
        flags.map(([key]) => `--${key}`),
      ),
    )
  }
  const values = command.opts<Record<string, string | boolean>>()
  return {
    flags: new Map(
      flags.flatMap(([key]) => {
        const value = values[camel(key)]
        return value === undefined ? [] : [[key, String(value)] as const]
      }),
    ),
  }
}

const PRECEDENCE =
  'Every flag is also FLASHNODE_… in the environment (upper case, - becomes _) and a key of the configuration file.\nOrder: flag, environment, file, default.\n'

const camel = (key: string) => key.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())

function explain(error: CommanderError, argv: readonly string[], flags: readonly string[]): string {
  const quoted = /'([^']*)'/.exec(error.message)?.[1] ?? ''
  if (error.code === 'commander.unknownOption') {
    const [name = ''] = quoted.split('=', 1)
    return `unknown flag ${name}; nearest: ${nearest(name, flags)}`
  }
  if (error.code === 'commander.optionMissingArgument')
    return `flag ${quoted.split(' ', 1)[0]} needs a value: ${quoted}`
  if (error.code === 'commander.excessArguments') {
    const stray = argv.find((argument) => !argument.startsWith('-')) ?? ''
    return `unexpected argument "${stray}": values are given to flags, such as --port 8545`
  }
  return error.message.replace(/^error: /, '').replaceAll('\n', ' ')
}

type Setting = { readonly key: string; readonly value: unknown; readonly origin: string }
type Resolved = {
  readonly config: Config
  readonly settings: readonly Setting[]
  readonly problems: readonly string[]
}

/** Puts the layers together; with problems, the values in question are the defaults. */
function resolve(command: CommandName, flags: Flags, environment: Environment): Resolved {
  const given = new Map<string, string>()
  const problems: string[] = []
  const names = new Map([...OPTIONS_BY_KEY.keys()].map((key) => [environmentName(key), key]))
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('FLASHNODE_') || text === undefined || text === '') continue
    const key = names.get(name)
    if (key !== undefined) given.set(key, text)
    else
      problems.push(
        `unknown variable ${name} in the environment; nearest: ${nearest(name, names.keys())}`,
      )
  }
  const path = flags.get('config') ?? given.get('config')
  const file = path === undefined ? undefined : readConfigFile(path, OPTIONS_BY_KEY.keys())
  problems.push(...(file?.problems ?? []))
  const settings: Setting[] = []
  for (const [key, option] of OPTIONS_BY_KEY) {
    if (!option.commands.includes(command)) continue
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
    settings.push({ key, value, origin })
  }
  const config = assemble(command, new Map(settings.map(({ key, value }) => [key, value])))
  problems.push(...contradictions(config, settings))
  return { config, settings, problems }
}

function pick(
  layers: readonly (readonly [string | undefined, string])[],
): readonly [string | undefined, string] {
  return layers.find(([text]) => text !== undefined) ?? [undefined, 'default']
}

/** What trie nodes may take, beside the caches of the database. */
const TRIE_CACHE_SHARE = 4

function assemble(command: CommandName, values: ReadonlyMap<string, unknown>): Config {
  const read = (name: string) => {
    const key = kebab(name)
    return values.has(key) ? values.get(key) : OPTIONS_BY_KEY.get(key)?.fallback
  }
  const options = Object.fromEntries(
    Object.keys(OPTIONS).map((name) => [name, read(name)]),
  ) as Options
  const limits: Limits = {
    ...DEFAULT_LIMITS,
    ...Object.fromEntries(
      [...LIMIT_OPTIONS.keys()].map((name) => [name, values.get(`limit-${kebab(name)}`)]),
    ),
  }
  const chain =
    options.chain ?? (command === 'dev' || command === 'import-state' ? 'xlayer' : undefined)
  const chainName = (options.genesis ?? chain ?? 'xlayer')
    .replace(/^.*\//, '')
    .replace(/\.json$/, '')
  // A chain that begins empty would fill a large one for hours, and memory would seem to leak.
  const dbCache = options.dbCache ?? (command === 'dev' ? 64 : 512)
  return {
    ...options,
    command,
    chain,
    limits,
    adminPort: options.adminPort ?? (command === 'dev' ? 8_546 : 0),
    dbCache,
    trieCacheBytes: (dbCache * 2 ** 20) / TRIE_CACHE_SHARE,
    datadir: options.ephemeral
      ? undefined
      : (options.datadir ?? `.flashnode/${command}-${chainName}`),
  }
}

/** What no option can see alone. */
function contradictions(config: Config, settings: readonly Setting[]): string[] {
  const found: string[] = []
  const isFlag = (key: string) => settings.some(({ origin }) => origin === `flag --${key}`)
  if (config.command === 'import')
    for (const key of ['genesis', 'chain'] as const)
      if (config[key] === undefined) found.push(`import needs --${key} FILE`)
  if (config.command === 'import-state')
    for (const key of ['state', 'block'] as const)
      if (config[key] === undefined) found.push(`import-state needs --${key} FILE`)
  if (isFlag('ephemeral') && isFlag('datadir'))
    found.push('--ephemeral and --datadir exclude each other: leave one out')
  if (config.flashblockTimeMs > config.blockTimeMs)
    found.push('--flashblock-time-ms is longer than --block-time-ms: give a shorter one')
  if (config.adminPort !== 0 && config.adminPort === config.port)
    found.push('--admin-port and --port are the same: give another --admin-port, or 0 for none')
  if (config.unlock.length > 0) {
    if (config.keystore === undefined || config.passwordFile === undefined)
      found.push('--unlock needs --keystore DIR and --password-file FILE')
    if (!isLoopback(config.host) && config.host !== 'localhost' && !config.allowInsecureUnlock)
      found.push(
        `--unlock on the public --host ${config.host} lets anybody spend: --allow-insecure-unlock if that is meant`,
      )
  }
  return found
}

function usage(): string {
  const commands = Object.entries(COMMANDS).map(([name, text]) => `  ${name.padEnd(14)}${text}`)
  return `Usage: flashnode COMMAND [FLAGS]\n\nCommands:\n${commands.join('\n')}\n\nflashnode COMMAND --help lists the flags; flashnode --version says the version.\n`
}

/** As in package.json. */
export function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { readonly version: string }).version
}
