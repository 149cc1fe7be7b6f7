/** The keys that callers say who they are with. They are kept as digests, and nothing takes a time that depends on what a caller has guessed. */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'

/** Who has a key. */
export type ApiKeyEntry = {
  readonly name: string
  /** SHA-256 of the key. */
  readonly digest: Uint8Array
  /** Points per second, or none; undefined: as everybody. */
  readonly rate: number | 'off' | undefined
}

/** Letters, digits, - and _: long enough not to be guessed, and told from the names of pages by that. */
const KEY = /^[\w-]{16,128}$/
export const isApiKey = (text: string): boolean => KEY.test(text)
export const digestOf = (key: string): Uint8Array => hash('sha256', key, 'buffer')

/** Keys at a time. */
export const MOST_API_KEYS = 10_000

export class ApiKeys {
  /** Where a key stands is known to this process alone. */
  readonly #secret = randomBytes(32)
  #byPlace: ReadonlyMap<string, ApiKeyEntry> = new Map()
  #byName: ReadonlyMap<string, ApiKeyEntry> = new Map()

  constructor(entries: readonly ApiKeyEntry[]) {
    this.replace(entries)
  }

  /** From now on these, and no others. Gives the names whose key is not theirs any more. */
  replace(entries: readonly ApiKeyEntry[]): ReadonlySet<string> {
    const before = this.#byName
    this.#byPlace = new Map(entries.map((one) => [this.#placeOf(one.digest), one]))
    this.#byName = new Map(entries.map((one) => [one.name, one]))
    const hasKept = ({ name, digest }: ApiKeyEntry) => {
      const now = this.#byName.get(name)
      return now !== undefined && timingSafeEqual(now.digest, digest)
    }
    return new Set([...before.values()].filter((one) => !hasKept(one)).map(({ name }) => name))
  }

  /** Whose key it is; undefined: nobody's. */
  nameOf(key: string): string | undefined {
    const digest = digestOf(key)
    const found = this.#byPlace.get(this.#placeOf(digest))
    return found !== undefined && timingSafeEqual(found.digest, digest) ? found.name : undefined
  }

  /** undefined: as everybody, as of who has no key any more. */
  rateOf(name: string): number | 'off' | undefined {
    return this.#byName.get(name)?.rate
  }

  #placeOf(digest: Uint8Array): string {
    return hash('sha256', Buffer.concat([this.#secret, digest]), 'base64')
  }
}
