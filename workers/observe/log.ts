/**
 * The log on standard error, for people or as JSON lines. Standard output has only the banner and
 * the ready line.
 */
import { createRequire } from 'node:module'
import { type Logger, pino } from 'pino'

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'> &
  Partial<Pick<Logger, 'isLevelEnabled'>>

/** Plain data, so that every thread can open the same log. */
export type LogOptions = { readonly level: string; readonly isPretty: boolean }

const STANDARD_ERROR = 2

/** Lines are written synchronously, so that none is lost when the process ends. */
export function createLog({ level, isPretty }: LogOptions): Log {
  const destination = isPretty
    ? prettyStream()
    : pino.destination({ dest: STANDARD_ERROR, sync: true })
  return pino({ level, base: null }, destination)
}

/** Loaded only for a terminal, because loading takes 20 ms. */
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

/** Shortens a foreign text to one safe line for the log. */
export const loggable = (text: string, maxCharacters = 64): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not reach a terminal.
  text.slice(0, maxCharacters).replace(/[\u0000-\u001f\u007f-\u009f]/g, '?')
