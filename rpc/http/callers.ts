/** API key of a request, in a header or at the end of its path. */

import { type ApiKeys, isApiKey } from '../core/api-keys.ts'
import { keyedAddress } from '../limiter/address.ts'

/** Parts of a request that may have a key, and the result of the lookup. */
export type Keyed = {
  url?: string | undefined
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** Pseudo-address of the key's owner (`keyedAddress`), which replaces the address. */
  caller: string | undefined
  /** The request has a key that belongs to no client. */
  hasUnknownKey: boolean
}
export const UNKNOWN_KEY = 'unknown API key'

/**
 * Reads the key of a request, before all other parts. A key in the path is removed from the path.
 */
export function readKey(request: Keyed, keys: ApiKeys): void {
  const key = takeFromPath(request) ?? inHeaders(request.headers)
  if (key === undefined) return
  const name = keys.nameOf(key)
  if (name === undefined) request.hasUnknownKey = true
  else request.caller = keyedAddress(name)
}

function takeFromPath(request: Keyed): string | undefined {
  const { url = '' } = request
  const query = url.indexOf('?')
  const path = query < 0 ? url : url.slice(0, query)
  const slash = path.lastIndexOf('/')
  const last = path.slice(slash + 1)
  if (slash < 0 || !isApiKey(last)) return undefined
  request.url = `${path.slice(0, slash) || '/'}${url.slice(path.length)}`
  return last
}

const BEARER = /^Bearer +([^ ]+) *$/i
function inHeaders({ 'x-api-key': own, authorization }: Keyed['headers']): string | undefined {
  if (typeof own === 'string') return own
  return typeof authorization === 'string' ? BEARER.exec(authorization)?.[1] : undefined
}
