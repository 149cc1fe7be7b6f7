/**
 * Which Host headers are served: a name that a stranger's page was made to point at this node is not (DNS rebinding). And what the pages of
 * other origins may read.
 */
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { UNKNOWN_KEY } from './callers.ts'
import { hasUnknownKey, isExpectationKnown } from './incoming.ts'

export const EXPOSED_HEADERS: readonly string[] = [
  'X-Flashblock',
  'Retry-After',
  'RateLimit',
  'RateLimit-Policy',
]

/**
 * Loopback names, literal addresses (no page can own one) and `names` pass; '*' lets all pass. A request without a Host header
 * (HTTP/1.0), or with an empty one, comes from no browser and passes.
 */
export function createHostCheck(names: readonly string[]): (host: string | undefined) => boolean {
  if (names.includes('*')) return () => true
  const allowed = new Set(['localhost', ...names.map((name) => name.toLowerCase())])
  const isAllowed = (name: string) =>
    allowed.has(name) || isIP(name) !== 0 || name.endsWith('.localhost')
  // Clients say the same each time.
  let last = { host: 'localhost', isAllowed: true }
  return (host) => {
    if (host === undefined || host === '') return true
    if (host !== last.host)
      // An IPv6 address may stand without brackets, as in go-ethereum.
      last = { host, isAllowed: isIP(host) !== 0 || isAllowed(nameOf(host)) }
    return last.isAllowed
  }
}

/** More than one is 400 (RFC 9112 3.2): of two, Node takes the first and a proxy before it perhaps the second. */
export const TWO_HOSTS = 'more than one Host header'

/** `rawHeaders`: names and values in turns, as they came. `headers` has the first of each only. 20 ns for ten of them (2026-11). */
export function hasTwoHosts(rawHeaders: readonly string[]): boolean {
  let isOne = false
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!
    if (name.length !== 4) continue
    if (name !== 'Host' && name !== 'host' && name.toLowerCase() !== 'host') continue
    if (isOne) return true
    isOne = true
  }
  return false
}

/** What is wrong with the Host of an upgrade, where Node itself does not ask for one as it does of other requests; undefined: nothing. */
export function hostFault(request: {
  readonly rawHeaders: readonly string[]
  readonly headers: { readonly host?: string | undefined }
}): string | undefined {
  if (request.headers.host === undefined) return 'no Host header'
  return hasTwoHosts(request.rawHeaders) ? TWO_HOSTS : undefined
}

/** Why a request is refused before anything is read of its body: status and text; undefined: nothing speaks against it. */
export function faultOfHead(
  request: IncomingMessage,
  isHostAllowed: (host: string | undefined) => boolean,
): [number, string] | undefined {
  const { rawHeaders, headers } = request
  if (hasTwoHosts(rawHeaders)) return [400, TWO_HOSTS]
  if (!isHostAllowed(headers.host)) return [403, 'invalid host specified']
  if (hasUnknownKey(request)) return [401, UNKNOWN_KEY]
  return isExpectationKnown(headers) ? undefined : [417, 'expectation is not known']
}

/** Without port and brackets. */
function nameOf(host: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(host)
  return (bracketed?.[1] ?? host.replace(/:\d*$/, '')).toLowerCase()
}

/** What is said to pages of `origins`; `*`: of all. */
export const corsOf = (origins: readonly string[]): CorsOptions => ({
  origin: origins.includes('*') ? '*' : [...origins],
  methods: ['POST', 'GET', 'OPTIONS'],
  exposedHeaders: [...EXPOSED_HEADERS],
  maxAge: 600,
  strictPreflight: false,
})
export type CorsOptions = {
  readonly origin: string | string[]
  readonly methods: string[]
  readonly exposedHeaders: string[]
  readonly maxAge: number
  readonly strictPreflight: boolean
}
