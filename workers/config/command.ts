/**
 * Definition of a command, from which help, flag checks, suggestions and the configuration dump are
 * made.
 */
import type { Option } from './option.ts'

/** Flags by name; `receiptHold` is the flag `--receipt-hold`. */
export type Flags = Readonly<Record<string, Option<unknown>>>
export type Given<F extends Flags> = {
  readonly [K in keyof F]: F[K] extends Option<infer T> ? T : never
}
/** Configuration of a command: its flags, with defaults from `D`. */
export type ConfigOf<F extends Flags, D extends object> = Omit<Given<F>, keyof D> & D

export type Command<F extends Flags = Flags, D extends object = object> = {
  readonly name: string
  /** One line of the help. */
  readonly summary: string
  /** Heading of the command in the list of commands. */
  readonly heading?: string
  /** Example arguments for the help, without the command's name. */
  readonly examples?: readonly string[]
  readonly flags: F
  /** Arguments without a flag, as in `compare URL URL`. */
  readonly operands?: Operands
  /** Computes defaults that depend on the command or on other flags. */
  defaults(given: Given<F>): D
  /**
   * Finds problems that concern several flags. `isFlag` says if an option was given on the command
   * line.
   */
  problems?(config: ConfigOf<F, D>, isFlag: (key: string) => boolean): readonly string[]
  /**
   * Resolves when the command is done or its node runs. Large modules are imported here, because
   * the help loads every command.
   */
  run(config: ConfigOf<F, D>, operands: readonly string[]): Promise<void>
}

export type Operands = {
  /** Placeholder of an operand in the help. */
  readonly value: string
  readonly min: number
  readonly max: number
  /** @throws {Error} saying what was expected */
  readonly decode: (text: string) => string
}

/** Infers the types: flags and defaults determine the configuration that `run` gets. */
export const defineCommand = <F extends Flags, D extends object>(
  command: Command<F, D>,
): Command<F, D> => command

/**
 * Converts `receiptHold` to `receipt-hold`, the flag without dashes and the key of the
 * configuration file.
 */
export const kebab = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

/** An invalid command line or configuration: one line on standard error, exit status 2. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}
