/** Address of a client behind trusted proxies, and the key that its limits are counted under. */
import { BlockList, isIP, isIPv4 } from 'node:net'

export type TrustedProxies = BlockList

/**
 * Returns the address that a request counts for. `X-Forwarded-For` is read from the right; the
 * result is the first address that is not a trusted proxy. An invalid entry ends the search at the
 * proxy that passed it on.
 */
export function clientAddress(
  remote: string | undefined,
  forwardedFor: string | undefined,
  trusted: TrustedProxies,
): string {
  let address = plainAddress(remote ?? '') ?? 'unknown'
  if (forwardedFor === undefined || trusted.rules.length === 0) return address
  const hops = forwardedFor.split(',')
  while (isTrusted(address, trusted)) {
    const hop = hops.pop()
    const next = hop === undefined ? undefined : plainAddress(hop.trim())
    if (next === undefined) break
    address = next
  }
  return address
}

/**
 * Prefix of the name that replaces the address of a caller with an API key. Limits of a key count
 * for all addresses together.
 */
const KEYED = 'key '
export const keyedAddress = (name: string): string => `${KEYED}${name}`
/** Returns the name of an API key's owner. undefined: `address` is an address. */
export const keyNameOf = (address: string): string | undefined =>
  address.startsWith(KEYED) ? address.slice(KEYED.length) : undefined
/** Returns the bucket that a refusal names, if it is not the address's own. */
export const bucketOf = (address: string): { readonly bucket?: 'key' } =>
  address.startsWith(KEYED) ? { bucket: 'key' } : {}

/**
 * Returns the key of the limits: the IPv4 address, or the IPv6 /64, because one customer has a
 * whole /64.
 */
export function limiterKey(address: string): string {
  if (isIP(address) !== 6) return address
  return `${groups(address).slice(0, 4).join(':')}::/64`
}

/**
 * Parses addresses and ranges.
 * @throws {Error} with the invalid entry
 */
export function trustedProxies(ranges: readonly string[]): TrustedProxies {
  const list = new BlockList()
  for (const range of ranges) {
    const [network = '', length, rest] = range.split('/')
    const version = isIP(network)
    const bits = version === 4 ? 32 : 128
    const prefix = length === undefined ? bits : /^\d{1,3}$/.test(length) ? Number(length) : -1
    if (version === 0 || rest !== undefined || prefix < 0 || prefix > bits)
      throw new Error(`"${range}" is not an address or a range such as 10.0.0.0/8`)
    list.addSubnet(network, prefix, version === 4 ? 'ipv4' : 'ipv6')
  }
  return list
}

export function isLoopback(address: string): boolean {
  const plain = plainAddress(address)
  return plain === '::1' || (plain !== undefined && isIP(plain) === 4 && plain.startsWith('127.'))
}

/**
 * Tells whether an address is private: loopback, RFC 1918, RFC 6598 (carriers and clouds), RFC 4193
 * or link-local. A text that is no address is not private.
 */
export function isPrivate(address: string): boolean {
  const plain = plainAddress(address)
  return plain !== undefined && isTrusted(plain, PRIVATE)
}
const PRIVATE = trustedProxies([
  ...['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '169.254.0.0/16'],
  ...['100.64.0.0/10', '::1', 'fc00::/7', 'fe80::/10'],
])

/** Tells whether the list contains an address. A text that is no address is not trusted. */
export function isTrusted(address: string, trusted: TrustedProxies): boolean {
  const version = isIP(address)
  return version !== 0 && trusted.check(address, version === 4 ? 'ipv4' : 'ipv6')
}

/** Removes brackets, port, zone and the IPv4-in-IPv6 prefix. undefined: the text is no address. */
function plainAddress(text: string): string | undefined {
  if (isIPv4(text)) return text
  let address = text.replace(/%.*$/, '')
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(address)
  if (bracketed !== null) address = bracketed[1]!
  else if (/^[\d.]+:\d+$/.test(address)) address = address.slice(0, address.indexOf(':'))
  const version = isIP(address)
  if (version === 0) return undefined
  if (version === 4) return address
  const words = groups(address)
  if (words.slice(0, 6).join(':') !== '0:0:0:0:0:ffff') return address.toLowerCase()
  const [high, low] = [Number.parseInt(words[6]!, 16), Number.parseInt(words[7]!, 16)]
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
}

/** Returns the eight groups of an IPv6 address, without leading zeros. */
function groups(address: string): string[] {
  const plain = address.replace(
    /(\d+)\.(\d+)\.(\d+)\.(\d+)$/,
    (_, a: string, b: string, c: string, d: string) =>
      `${(Number(a) * 256 + Number(b)).toString(16)}:${(Number(c) * 256 + Number(d)).toString(16)}`,
  )
  const [left = '', right] = plain.split('::')
  const head = left === '' ? [] : left.split(':')
  const tail = right === undefined || right === '' ? [] : right.split(':')
  const gap = Array.from({ length: 8 - head.length - tail.length }, () => '0')
  return [...head, ...gap, ...tail].map((group) => Number.parseInt(group, 16).toString(16))
}
