/** The log: to standard error, for people or as JSON lines. Standard output has the banner, the ready line and nothing else. */
import { createRequire } from 'node:module'
import { type Logger, pino } from 'pino'

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'> &
  Partial<Pick<Logger, 'isLevelEnabled'>>

/** Plain data, so that every thread logs alike. */
export type LogOptions = { readonly level: string; readonly isPretty: boolean }

const STANDARD_ERROR = 2

/** Lines are written at once: what was logged before the process ended is there. */
export function createLog({ level, isPretty }: LogOptions): Log {
  const destination = isPretty
    ? prettyStream()
    : pino.destination({ dest: STANDARD_ERROR, sync: true })
  return pino({ level, base: null }, destination)
}

/** Loaded where a person reads along: 20 ms that others need not wait. */
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

/** Foreign text for a log line: short, and on one line. */
export const loggable = (text: string, mostCharacters = 64): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not reach a terminal.
  text.slice(0, mostCharacters).replace(/[\u0000-\u001f\u007f-\u009f]/g, '?')
