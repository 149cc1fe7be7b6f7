/** API keys. They are stored as digests, and the time of a lookup reveals nothing about a guess. */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'

/** Owner of an API key. */
export type ApiKeyEntry = {
  readonly name: string
  /** SHA-256 of the key. */
  readonly digest: Uint8Array
  /** Points per second, or `off` for no limit. undefined: the default rate. */
  readonly rate: number | 'off' | undefined
}

/**
 * Letters, digits, `-` and `_`. The minimum length makes a key hard to guess and distinguishes it
 * from page names.
 */
const KEY = /^[\w-]{16,128}$/
export const isApiKey = (text: string): boolean => KEY.test(text)
export const digestOf = (key: string): Uint8Array => hash('sha256', key, 'buffer')

/** Maximum number of keys at a time. */
export const MAX_API_KEYS = 10_000

export class ApiKeys {
  /** Salt of the map's keys, so that clients cannot predict the lookup. */
  readonly #secret = randomBytes(32)
  #byDigest: ReadonlyMap<string, ApiKeyEntry> = new Map()
  #byName: ReadonlyMap<string, ApiKeyEntry> = new Map()

  constructor(entries: readonly ApiKeyEntry[]) {
    this.replace(entries)
  }

  /**
   * Replaces all keys.
   * @returns names whose key was removed or changed
   */
  replace(entries: readonly ApiKeyEntry[]): ReadonlySet<string> {
    const before = this.#byName
    this.#byDigest = new Map(entries.map((one) => [this.#saltedDigest(one.digest), one]))
    this.#byName = new Map(entries.map((one) => [one.name, one]))
    const hasSameKey = ({ name, digest }: ApiKeyEntry) => {
      const now = this.#byName.get(name)
      return now !== undefined && timingSafeEqual(now.digest, digest)
    }
    return new Set([...before.values()].filter((one) => !hasSameKey(one)).map(({ name }) => name))
  }

  /** Returns the name of the key's owner, or undefined for an unknown key. */
  nameOf(key: string): string | undefined {
    const digest = digestOf(key)
    const found = this.#byDigest.get(this.#saltedDigest(digest))
    return found !== undefined && timingSafeEqual(found.digest, digest) ? found.name : undefined
  }

  /** Returns the rate of a name. undefined: the default rate, also for a removed key. */
  rateOf(name: string): number | 'off' | undefined {
    return this.#byName.get(name)?.rate
  }

  #saltedDigest(digest: Uint8Array): string {
    return hash('sha256', Buffer.concat([this.#secret, digest]), 'base64')
  }
}
