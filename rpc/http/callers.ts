/** Who a request says it is from: an API key in a header or at the end of its path, or nobody but its address. */
import { keyedAddress } from '../seam/address.ts'
import { type ApiKeys, isApiKey } from '../seam/api-keys.ts'

/** Of a request, what a key may stand in and what becomes of it. */
export type Keyed = {
  url?: string | undefined
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** In place of its address: set where it has a key. */
  caller: string | undefined
  /** It has one that is nobody's. */
  hasUnknownKey: boolean
}
export const UNKNOWN_KEY = 'unknown API key'

/** Reads the key of a request, before anything else is read of it; a key in its path is taken out of that. */
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
