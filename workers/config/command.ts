/** What a command is. The help, the check of flags, the suggestions and the dump of the configuration are made of it. */
import type { Option } from './option.ts'

/** By name; `receiptHold` is the flag `--receipt-hold`. */
export type Flags = Readonly<Record<string, Option<unknown>>>
export type Given<F extends Flags> = {
  readonly [K in keyof F]: F[K] extends Option<infer T> ? T : never
}
/** What a command runs with: its flags, with `D` in place of what was not given. */
export type ConfigOf<F extends Flags, D extends object> = Omit<Given<F>, keyof D> & D

export type Command<F extends Flags = Flags, D extends object = object> = {
  readonly name: string
  /** One line of the help. */
  readonly summary: string
  /** Under which it stands in the list of commands. */
  readonly heading?: string
  /** Lines of the help: what stands behind the command's name. */
  readonly examples?: readonly string[]
  /** In the order of the help. */
  readonly flags: F
  /** What stands without a flag: `compare URL URL`. */
  readonly operands?: Operands
  /** What no option can say alone: defaults of this command, and what follows from several flags. */
  defaults(given: Given<F>): D
  /** What no option can see alone. `isFlag`: it was given on the command line, not elsewhere. */
  problems?(config: ConfigOf<F, D>, isFlag: (key: string) => boolean): readonly string[]
  /** Resolves when it is done, or runs. Whatever is large is loaded here: asking for help loads every command. */
  run(config: ConfigOf<F, D>, operands: readonly string[]): Promise<void>
}

export type Operands = {
  /** Placeholder of one in the help. */
  readonly value: string
  readonly least: number
  readonly most: number
  /** @throws {Error} saying what was expected. */
  readonly decode: (text: string) => string
}

/** For its types: what `run` gets is said by the flags and the defaults. */
export const defineCommand = <F extends Flags, D extends object>(
  command: Command<F, D>,
): Command<F, D> => command

/** `receiptHold` → `receipt-hold`: the flag without dashes, and the key of the file. */
export const kebab = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

/** A start that cannot be: one line for standard error, exit status 2. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}
