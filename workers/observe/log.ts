/**
 * The log on standard error, for people or as JSON lines. Standard output is left to the commands,
 * which print the banner, the ready line and so on.
 */
import { createRequire } from 'node:module'
import { type Logger, pino } from 'pino'

/** pino's logger, or a simpler one of a test. */
export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'> &
  Partial<Pick<Logger, 'isLevelEnabled'>>

/**
 * Options of a log. They are plain data, because each thread makes its own logger for standard
 * error.
 */
export type LogOptions = { readonly level: string; readonly isPretty: boolean }

const STANDARD_ERROR = 2

/**
 * Creates a logger for the calling thread. Lines are written synchronously, so that none is lost
 * when the process ends.
 * @throws for an unknown level
 */
export function createLog({ level, isPretty }: LogOptions): Log {
  const destination = isPretty
    ? prettyStream()
    : pino.destination({ dest: STANDARD_ERROR, sync: true })
  return pino({ level, base: null }, destination)
}

/**
 * Loads pino-pretty, which takes 20 ms, and opens its stream. `--log-format pretty` uses the stream
 * without a terminal too, and then the lines have no colours.
 */
function prettyStream() {
  const pretty: typeof import('pino-pretty') = createRequire(import.meta.url)('pino-pretty')
  return pretty({
    destination: STANDARD_ERROR,
    sync: true,
    colorize: process.stderr.isTTY,
    ignore: 'pid,hostname',
    translateTime: 'SYS:HH:MM:ss.l',
  })
}

/**
 * Makes a text of a client or peer safe for the log. The text is cut to `maxCharacters`, and each
 * control character becomes '?'.
 * @param maxCharacters in UTF-16 units
 */
export const loggable = (text: string, maxCharacters = 64): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not reach a terminal.
  text.slice(0, maxCharacters).replace(/[\u0000-\u001f\u007f-\u009f]/g, '?')
