/** Turns options into flags; the flags report invalid values. */
import type { NodeOptions } from './types.ts'

/**
 * Defaults for tests, which differ from those of `dev`: one address sends all requests, and nobody
 * reads the log.
 */
const DEFAULTS = { port: 0, adminPort: 0, rateLimit: 'off', logLevel: 'warn' } as const

/** @throws {Error} naming the option and its valid values */
export function argvOf(given: NodeOptions): string[] {
  checkOptions(given)
  const { port, feed: _, ...options } = given
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
  // An empty list equals an omitted flag.
  if (Array.isArray(value)) return value.length === 0 ? [] : [`${flag}=${value.join(',')}`]
  return [`${flag}=${String(value)}`]
}

function checkOptions(options: unknown): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw new Error(`createNode: expected an object of options, got ${format(options)}`)
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue
    const expected = expectedOf(name)
    if (!expected.takes(value))
      throw new Error(`option ${name}: expected ${expected.what}, got ${format(value)}`)
  }
}

type Expected = { readonly takes: (value: unknown) => boolean; readonly what: string }
const isText = (value: unknown) => typeof value === 'string' || typeof value === 'number'
const EXPECTED: Readonly<Record<string, Expected>> = {
  port: {
    takes: (value) => value === 'none' || typeof value === 'number',
    what: "a port number or 'none'",
  },
  feed: {
    takes: (value) => value === 'clock' || value === 'scripted',
    what: "'clock' or 'scripted'",
  },
}
type NamesOf<T> = {
  readonly [Name in keyof NodeOptions]-?: NonNullable<NodeOptions[Name]> extends T ? Name : never
}[keyof NodeOptions]
/**
 * The forms of flags are repeated here, because the flags are not loaded. The types ensure that
 * none is missing.
 */
const SWITCHES: Readonly<Record<NamesOf<boolean>, true>> = {
  allowInsecureUnlock: true,
  ephemeral: true,
  slowCallParams: true,
  traceModeOptional: true,
}
const LISTS: Readonly<Record<NamesOf<readonly string[]>, true>> = {
  rateLimitOf: true,
  trustProxy: true,
  proxyProtocol: true,
  cors: true,
  hosts: true,
  unlock: true,
  forkTime: true,
}
const TEXTS: Readonly<Record<NamesOf<string>, true>> = {
  chain: true,
  datadir: true,
  host: true,
  http: true,
  apiKeys: true,
  enrichTokenFile: true,
  bootstrapTokenFile: true,
  limitStore: true,
  limitBy: true,
  agentHost: true,
  methods: true,
  page: true,
  keystore: true,
  passwordFile: true,
  latest: true,
  engine: true,
  config: true,
  logLevel: true,
  logFormat: true,
  feedForm: true,
  genesisAlloc: true,
  feed: true,
}

function expectedOf(name: string): Expected {
  if (Object.hasOwn(EXPECTED, name)) return EXPECTED[name]!
  if (Object.hasOwn(SWITCHES, name)) return SWITCH
  if (Object.hasOwn(LISTS, name)) return LIST
  return Object.hasOwn(TEXTS, name) ? TEXT : VALUE
}
const SWITCH: Expected = { takes: (value) => typeof value === 'boolean', what: 'true or false' }
const TEXT: Expected = { takes: (value) => typeof value === 'string', what: 'a text' }
const LIST: Expected = {
  takes: (value) => isText(value) || (Array.isArray(value) && value.every(isText)),
  what: 'a text, or a list of texts',
}
const VALUE: Expected = { takes: isText, what: 'a text or a number' }
const format = (value: unknown): string => {
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object' && value !== null) return 'an object'
  return typeof value === 'string' ? JSON.stringify(value.slice(0, 64)) : String(value)
}
