/** Options as the flags that they are: what is wrong with one is said by the flag. */
import type { NodeOptions } from './types.ts'

/** What a node in a test has, and `dev` has not: one address sends all of a test's requests, and nobody reads along. */
const DEFAULTS = { port: 0, adminPort: 0, rateLimit: 'off', logLevel: 'warn' } as const

export function argvOf({ port, feed: _, ...options }: NodeOptions): string[] {
  const own = {
    ...DEFAULTS,
    ...(options.datadir === undefined ? { ephemeral: true } : {}),
    ...Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)),
    ...(typeof port === 'number' ? { port } : {}),
  }
  return Object.entries(own).flatMap(([name, value]) => flagOf(name, value))
}

function flagOf(name: string, value: unknown): string[] {
  const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
  if (value === true) return [flag]
  if (value === false) return []
  // An empty list is what is there without the flag.
  if (Array.isArray(value)) return value.length === 0 ? [] : [`${flag}=${value.join(',')}`]
  return [`${flag}=${String(value)}`]
}
