/** The flags of a command line as text, and the help: made of what a command says of itself. */
import { CommanderError, Option, Command as Parser } from 'commander'
import { type Command, ConfigError, kebab, type Operands } from './command.ts'
import { headingOf, isLimit, isShownLimit, placeOf } from './help-groups.ts'
import { hint } from './nearest.ts'

/** By key, as it was typed; nothing is decoded. */
export type TypedFlags = ReadonlyMap<string, string>

/** @throws {ConfigError} */
export function parseFlags(
  command: Command,
  argv: readonly string[],
):
  | { readonly flags: TypedFlags; readonly operands: readonly string[] }
  | { readonly help: string } {
  let output = ''
  const parser = new Parser(`flashnode ${command.name}`)
    .description(command.summary)
    .exitOverride()
    .configureOutput({
      writeOut(text) {
        output += text
      },
      writeErr() {},
      // For a terminal it is folded; what is searched with grep has a line for each flag.
      getOutHelpWidth: () => process.stdout.columns ?? 1_000,
    })
    .showSuggestionAfterError(false)
    .allowExcessArguments(false)
  const isOfLimits = argv.some((one, at) => isHelp(one) && argv[at + 1] === LIMITS_HELP)
  for (const option of optionsOf(command, isOfLimits)) parser.addOption(option)
  const hasLimits = Object.keys(command.flags).some(isLimit)
  const bounds = hasLimits ? `; --help ${LIMITS_HELP} prints the bounds` : ''
  const help = new Option('-h, --help', `prints this${bounds}`)
  parser.addHelpOption(help.helpGroup('Log and configuration:'))
  if (command.operands !== undefined)
    parser.argument('[operands...]').usage(`[options] ${formOf(command.operands)}`)
  parser.addHelpText('after', afterHelp(command, isOfLimits))
  const keys = Object.keys(command.flags).map(kebab)
  try {
    parser.parse(isOfLimits ? ['--help'] : argv, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return { help: output }
    const flags = keys.map((key) => `--${key}`)
    throw new ConfigError(explain(error, argv, flags))
  }
  const values = parser.opts<Record<string, string | boolean>>()
  const given = keys.flatMap((key) => {
    const value = values[camel(key)]
    return value === undefined ? [] : [[key, String(value)] as const]
  })
  return { flags: new Map(given), operands: checkedOperands(command, parser.args) }
}

/** What follows --help for the limits. */
const LIMITS_HELP = 'limits'
const isHelp = (text: string): boolean => text === '--help' || text === '-h'

/** In the order of their headings. @param isOfLimits the help shows these, and else all others */
function optionsOf(command: Command, isOfLimits: boolean): readonly Option[] {
  const defaults = defaultsOf(command)
  return Object.entries(command.flags)
    .map(([name, { value, text, shown, isOwn }]) => {
      const typed = `--${kebab(name)}${value === undefined ? '' : ` <${value}>`}`
      const fallback = value === undefined ? '' : ` (${shown ?? show(defaults[name])})`
      const isHidden = isOfLimits ? !isShownLimit(name) : isLimit(name)
      const option = new Option(typed, `${text}${fallback}`).hideHelp(isHidden)
      return { option, heading: headingOf(name, isOwn) }
    })
    .toSorted((a, b) => placeOf(a.heading) - placeOf(b.heading))
    .map(({ option, heading }) => option.helpGroup(`${heading}:`))
}

/** `<URL> <URL>`, or `<URL> [URL…]`. */
const formOf = ({ value, least, most }: Operands): string =>
  `${Array.from({ length: least }, () => `<${value}>`).join(' ')}${most > least ? ` [${value}…]` : ''}`

function afterHelp({ name, flags, examples = [] }: Command, isOfLimits: boolean): string {
  const limits = Object.keys(flags).filter(isLimit)
  const hidden = limits.filter((limit) => !isShownLimit(limit)).length
  const aboutLimits = isOfLimits
    ? `${hidden} more are flags too: docs/operate/limits.md lists them.\n`
    : `flashnode ${name} --help ${LIMITS_HELP} shows ${limits.length - hidden} of ${limits.length} bounds.\n`
  const shown = examples.map((one) => `  flashnode ${name} ${one}`.trimEnd())
  const parts = [
    ...(shown.length === 0 || isOfLimits ? [] : [`Examples:\n${shown.join('\n')}\n`]),
    ...(limits.length === 0 ? [] : [aboutLimits]),
    PRECEDENCE,
  ]
  return `\n${parts.join('\n')}`
}

/** @throws {ConfigError} */
function checkedOperands(
  { name, operands, examples = [] }: Command,
  given: readonly string[],
): readonly string[] {
  if (operands === undefined) return given
  const { value, least, most, decode } = operands
  if (given.length < least || given.length > most) {
    const bound = most > least && given.length > most ? `, at most ${most} of them` : ''
    const example = examples[0] === undefined ? '' : `, such as flashnode ${name} ${examples[0]}`
    throw new ConfigError(
      `${name} needs ${formOf(operands)}${bound}, ${given.length} given${example}`,
    )
  }
  for (const one of given)
    try {
      decode(one)
    } catch (error) {
      throw new ConfigError(`${name} ${value} "${one}": ${(error as Error).message}`)
    }
  return given
}

/** A value for people. */
export const show = (value: unknown): string =>
  value === undefined ? 'none' : Array.isArray(value) ? value.join(',') || 'none' : String(value)

/** What it runs with where nothing is given. */
function defaultsOf({ flags, defaults }: Command): Readonly<Record<string, unknown>> {
  const given = Object.fromEntries(
    Object.entries(flags).map(([name, { fallback }]) => [name, fallback]),
  )
  return { ...given, ...defaults(given) }
}

const PRECEDENCE =
  'Every flag is also FLASHNODE_… in the environment (upper case, - becomes _) and a key of the configuration file.\nOrder: flag, environment, file, default.\n'

/** As commander names what it has read. */
const camel = (key: string) => key.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())

function explain(error: CommanderError, argv: readonly string[], flags: readonly string[]): string {
  const quoted = /'([^']*)'/.exec(error.message)?.[1] ?? ''
  if (error.code === 'commander.unknownOption') {
    const [name = ''] = quoted.split('=', 1)
    if (flags.includes(name)) return `flag ${name} takes no value: it is given, or left out`
    return `unknown flag ${name}${hint(name, flags, '--help lists the flags of a command')}`
  }
  if (error.code === 'commander.optionMissingArgument')
    return `flag ${quoted.split(' ', 1)[0]} needs a value: ${quoted}`
  if (error.code === 'commander.excessArguments') {
    const stray = argv.find((argument) => !argument.startsWith('-')) ?? ''
    return `unexpected argument "${stray}": values are given to flags, such as --port 8545`
  }
  return error.message.replace(/^error: /, '').replaceAll('\n', ' ')
}
