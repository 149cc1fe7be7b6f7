/** The file of API keys: a JSON object that maps each owner's name to a key. */
import { readFileSync } from 'node:fs'
import { type ApiKeyEntry, digestOf, isApiKey, MAX_API_KEYS } from '../../rpc/core/api-keys.ts'

export type ApiKeysFile = {
  readonly entries: readonly ApiKeyEntry[]
  readonly problems: readonly string[]
}

const NAME = /^[\w.-]{1,64}$/
const MAX_RATE = 9_999_999
const FIELDS: ReadonlySet<string> = new Set(['key', 'sha256', 'rateLimit'])

/** Reads the file and returns its problems, none of which quotes a key; never throws. */
export function readApiKeys(path: string): ApiKeysFile {
  let json: unknown
  try {
    json = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    // A parser's message would quote the file.
    const why = error instanceof SyntaxError ? 'not valid JSON' : (error as Error).message
    return { entries: [], problems: [`keys ${path}: ${why.replaceAll('\n', ' ')}`] }
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json))
    return { entries: [], problems: [`keys ${path}: expected an object`] }
  const entries: ApiKeyEntry[] = []
  const problems: string[] = []
  const named = Object.entries(json)
  if (named.length > MAX_API_KEYS) problems.push(`keys ${path}: more than ${MAX_API_KEYS} keys`)
  for (const [name, wire] of named.slice(0, MAX_API_KEYS)) {
    const entry = entryOf(name, wire as unknown)
    if (typeof entry === 'string') problems.push(`keys ${path}, "${name.slice(0, 64)}": ${entry}`)
    else entries.push(entry)
  }
  const isTwice = new Set(entries.map(hexOf)).size < entries.length
  if (isTwice) problems.push(`keys ${path}: two names have the same key`)
  return { entries, problems }
}

const hexOf = ({ digest }: ApiKeyEntry): string => Buffer.from(digest).toString('hex')

function entryOf(name: string, wire: unknown): ApiKeyEntry | string {
  if (!NAME.test(name)) return 'expected a name of 1 to 64 letters, digits, _, . and -'
  if (typeof wire !== 'object' || wire === null) return 'expected an object'
  const { key, sha256, rateLimit } = wire as Readonly<Record<string, unknown>>
  const unknown = Object.keys(wire).find((field) => !FIELDS.has(field))
  if (unknown !== undefined) return `expected key or sha256, and rateLimit, not ${unknown}`
  const rate = rateOf(rateLimit)
  if (rate === null) return `rateLimit: expected an integer from 1 to ${MAX_RATE}, or "off"`
  if ((key === undefined) === (sha256 === undefined)) return 'expected either key or sha256'
  if (sha256 !== undefined) {
    if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256))
      return 'sha256: expected 64 hex digits'
    return { name, digest: Buffer.from(sha256, 'hex'), rate }
  }
  if (typeof key !== 'string' || !isApiKey(key))
    return 'key: expected 16 to 128 letters, digits, - and _'
  return { name, digest: digestOf(key), rate }
}

function rateOf(wire: unknown): number | 'off' | undefined | null {
  if (wire === undefined || wire === 'off') return wire
  const isRate = Number.isInteger(wire) && (wire as number) >= 1 && (wire as number) <= MAX_RATE
  return isRate ? (wire as number) : null
}
