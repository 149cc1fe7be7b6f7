/**
 * Checks Host headers against DNS rebinding, in which a foreign page's name points at this node.
 * The file also has the CORS rules.
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
 * Creates the check of Host headers. Loopback names, `names` and literal addresses pass, because no
 * page can own an address; '*' lets all pass. A request without a Host header (HTTP/1.0), or with
 * an empty one, comes from no browser and passes.
 */
export function createHostCheck(names: readonly string[]): (host: string | undefined) => boolean {
  if (names.includes('*')) return () => true
  const allowed = new Set(['localhost', ...names.map((name) => name.toLowerCase())])
  const isAllowed = (name: string) =>
    allowed.has(name) || isIP(name) !== 0 || name.endsWith('.localhost')
  // The last result is cached, because clients repeat the header.
  let last = { host: 'localhost', isAllowed: true }
  return (host) => {
    if (host === undefined || host === '') return true
    if (host !== last.host)
      // An IPv6 address may have no brackets, as in go-ethereum.
      last = { host, isAllowed: isIP(host) !== 0 || isAllowed(nameOf(host)) }
    return last.isAllowed
  }
}

/**
 * Two Host headers are refused with 400 (RFC 9112 3.2). Node takes the first one, and a proxy
 * before it perhaps the second.
 */
export const TWO_HOSTS = 'more than one Host header'

/**
 * Tells whether a request has two Host headers. `headers` has only the first of each. Ten headers
 * take 20 ns (2026-11).
 * @param rawHeaders alternating names and values, as received
 */
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

/**
 * Returns the fault of an upgrade's Host header. Node checks the header of other requests, but not
 * of upgrades. undefined: no fault.
 */
export function hostFault(request: {
  readonly rawHeaders: readonly string[]
  readonly headers: { readonly host?: string | undefined }
}): string | undefined {
  if (request.headers.host === undefined) return 'no Host header'
  return hasTwoHosts(request.rawHeaders) ? TWO_HOSTS : undefined
}

/** Returns status and text of a refusal that needs no body. undefined: the request is accepted. */
export function faultOfHead(
  request: IncomingMessage,
  isHostAllowed: (host: string | undefined) => boolean,
): [number, string] | undefined {
  const { rawHeaders, headers } = request
  if (hasTwoHosts(rawHeaders)) return [400, TWO_HOSTS]
  if (!isHostAllowed(headers.host)) return [403, 'invalid host specified']
  if (hasUnknownKey(request)) return [401, UNKNOWN_KEY]
  return isExpectationKnown(headers)
    ? undefined
    : [417, 'unknown value of the header Expect, only 100-continue is supported']
}

/** Returns the host's name without port and brackets. */
function nameOf(host: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(host)
  return (bracketed?.[1] ?? host.replace(/:\d*$/, '')).toLowerCase()
}

/** Returns the CORS rules for pages of `origins`; `*` allows all. */
export const corsOf = (origins: readonly string[]): CorsOptions => ({
  origin: origins.includes('*') ? '*' : [...origins],
  methods: ['POST', 'GET', 'OPTIONS'],
  // The list is joined once, because the library would join it for each request.
  exposedHeaders: EXPOSED_HEADERS.join(', '),
  maxAge: 600,
  strictPreflight: false,
})
export type CorsOptions = {
  readonly origin: string | string[]
  readonly methods: string[]
  readonly exposedHeaders: string
  readonly maxAge: number
  readonly strictPreflight: boolean
}
