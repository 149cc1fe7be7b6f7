/** The log: to standard error, for people or as JSON lines. Standard output has the banner, the ready line and nothing else. */
import { type Logger, pino } from 'pino'
import pretty from 'pino-pretty'

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

/** Plain data, so that every thread logs alike. */
export type LogOptions = { readonly level: string; readonly isPretty: boolean }

const STANDARD_ERROR = 2

/** Lines are written at once: what was logged before the process ended is there. */
export function createLog({ level, isPretty }: LogOptions): Log {
  const destination = isPretty
    ? pretty({
        destination: STANDARD_ERROR,
        sync: true,
        colorize: process.stderr.isTTY,
        ignore: 'pid,hostname',
        translateTime: 'SYS:HH:MM:ss.l',
      })
    : pino.destination({ dest: STANDARD_ERROR, sync: true })
  return pino({ level, base: null }, destination)
}

/** Foreign text for a log line: short, and on one line. */
export const loggable = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not reach a terminal.
  text.slice(0, 64).replace(/[\u0000-\u001f\u007f-\u009f]/g, '?')
