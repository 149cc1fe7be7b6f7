/** Parses the flags of a command line, and makes the help from a command's definition. */
import { CommanderError, Option, Command as Parser } from 'commander'
import { hint } from './closest-name.ts'
import { type Command, ConfigError, kebab, type Operands } from './command.ts'
import { headingOf, isLimit, isListedLimit, orderOf } from './help-groups.ts'

/** Flags that the user gave: undecoded text by kebab-case key. A switch has the text `true`. */
export type TypedFlags = ReadonlyMap<string, string>

/**
 * Parses the arguments of a command. The values are not decoded, and defaults are not filled in.
 * @param argv arguments after the command's name
 * @returns the given flags and operands, or the text of the help if the user asked for it
 * @throws {ConfigError} for an unknown flag, a missing value or wrong operands
 */
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
      // A terminal gets wrapped lines; a pipe gets one line for each flag, which suits grep.
      getOutHelpWidth: () => process.stdout.columns ?? 1_000,
    })
    .showSuggestionAfterError(false)
    .allowExcessArguments(false)
  const isLimitsHelp = argv.some((text, index) => isHelp(text) && argv[index + 1] === LIMITS_HELP)
  for (const option of optionsOf(command, isLimitsHelp)) parser.addOption(option)
  const hasLimits = Object.keys(command.flags).some(isLimit)
  const aboutLimits = hasLimits ? `; --help ${LIMITS_HELP} lists the limits` : ''
  const help = new Option('-h, --help', `prints this help${aboutLimits}`)
  parser.addHelpOption(help.helpGroup('Log and configuration:'))
  if (command.operands !== undefined)
    parser.argument('[operands...]').usage(`[options] ${formOf(command.operands)}`)
  parser.addHelpText('after', afterHelp(command, isLimitsHelp))
  const keys = Object.keys(command.flags).map(kebab)
  try {
    parser.parse(isLimitsHelp ? ['--help'] : argv, { from: 'user' })
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

/** `--help limits` prints the help of the limits instead of the other flags. */
const LIMITS_HELP = 'limits'
const isHelp = (text: string): boolean => text === '--help' || text === '-h'

/**
 * Returns the options in the order of their headings. Hidden options are parsed too.
 * @param isLimitsHelp shows only the listed limits if true, and only the other flags if false
 */
function optionsOf(command: Command, isLimitsHelp: boolean): readonly Option[] {
  const defaults = defaultsOf(command)
  return Object.entries(command.flags)
    .map(([name, { value, text, defaultText, isNeeded, isOwn }]) => {
      const form = `--${kebab(name)}${value === undefined ? '' : ` <${value}>`}`
      const byDefault =
        defaultText === undefined
          ? `default ${formatValue(defaults[name])}`
          : `default: ${defaultText}`
      const ending = isNeeded === true ? 'required' : byDefault
      const note = value === undefined ? '' : ` (${ending})`
      const isHidden = isLimitsHelp ? !isListedLimit(name) : isLimit(name)
      const option = new Option(form, `${text}${note}`).hideHelp(isHidden)
      return { option, heading: headingOf(name, isOwn) }
    })
    .toSorted((a, b) => orderOf(a.heading) - orderOf(b.heading))
    .map(({ option, heading }) => option.helpGroup(`${heading}:`))
}

/** Makes `<URL> <URL>` or `<URL> [URL…]`. */
const formOf = ({ value, min, max }: Operands): string =>
  `${Array.from({ length: min }, () => `<${value}>`).join(' ')}${max > min ? ` [${value}…]` : ''}`

function afterHelp({ name, flags, examples = [] }: Command, isLimitsHelp: boolean): string {
  const limits = Object.keys(flags).filter(isLimit)
  const hidden = limits.filter((limit) => !isListedLimit(limit)).length
  const aboutLimits = isLimitsHelp
    ? `docs/operate/limits.md lists ${hidden} more limits, which are flags too.\n`
    : `flashnode ${name} --help ${LIMITS_HELP} lists ${limits.length - hidden} of ${limits.length} limits.\n`
  const exampleLines = examples.map((one) => `  flashnode ${name} ${one}`.trimEnd())
  const parts = [
    ...(exampleLines.length === 0 || isLimitsHelp
      ? []
      : [`Examples:\n${exampleLines.join('\n')}\n`]),
    ...(limits.length === 0 ? [] : [aboutLimits]),
    PRECEDENCE,
  ]
  return `\n${parts.join('\n')}`
}

/**
 * Returns the operands unchanged, as text.
 * @throws {ConfigError} for a wrong number of operands or an invalid operand
 */
function checkedOperands(
  { name, operands, examples = [] }: Command,
  given: readonly string[],
): readonly string[] {
  if (operands === undefined) return given
  const { value, min, max, decode } = operands
  if (given.length < min || given.length > max) {
    const maximum = max > min && given.length > max ? `, at most ${max} of them` : ''
    const example = examples[0] === undefined ? '' : `; example: flashnode ${name} ${examples[0]}`
    throw new ConfigError(
      `${name} needs ${formOf(operands)}${maximum}, got ${given.length}${example}`,
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

/** Formats a decoded value of a flag. */
export const formatValue = (value: unknown): string =>
  value === undefined ? 'none' : Array.isArray(value) ? value.join(',') || 'none' : String(value)

/** Returns the decoded defaults by name. A command may compute some of them from the others. */
function defaultsOf({ flags, defaults }: Command): Readonly<Record<string, unknown>> {
  const fallbacks = Object.fromEntries(
    Object.entries(flags).map(([name, { fallback }]) => [name, fallback]),
  )
  return { ...fallbacks, ...defaults(fallbacks) }
}

const PRECEDENCE =
  'Each flag can also be set as FLASHNODE_… in the environment (upper case, - becomes _) or as a key of the configuration file.\nA flag overrides the environment, the environment overrides the file, and the file overrides the default.\n'

/** Converts a flag to the name that commander uses. */
const camel = (key: string) => key.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())

/** @param flags names with dashes */
function explain(error: CommanderError, argv: readonly string[], flags: readonly string[]): string {
  const quoted = /'([^']*)'/.exec(error.message)?.[1] ?? ''
  if (error.code === 'commander.unknownOption') {
    const [name = ''] = quoted.split('=', 1)
    if (flags.includes(name)) return `flag ${name} takes no value: give it alone, or leave it out`
    return `unknown flag ${name}${hint(name, flags, '--help lists the flags of a command')}`
  }
  if (error.code === 'commander.optionMissingArgument')
    return `flag ${quoted.split(' ', 1)[0]} needs a value: ${quoted}`
  if (error.code === 'commander.excessArguments') {
    const stray = argv.find((argument) => !argument.startsWith('-')) ?? ''
    return `unexpected argument "${stray}": each value needs its flag, such as --port 8545`
  }
  return error.message.replace(/^error: /, '').replaceAll('\n', ' ')
}
