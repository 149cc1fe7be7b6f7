/** Rates of single addresses or ranges: `10.0.0.0/8=1000`, or `=off` for no limit. */
import { isTrusted, trustedProxies } from './address.ts'
import type { RateOf } from './limiter.ts'

/** All addresses of an IPv6 /64 count as one, so longer prefixes are refused. */
const MAX_IPV6_BITS = 64

/**
 * Parses rates. The first entry that contains an address decides.
 * @throws {Error} with the problem of the entry
 */
export function addressRates(entries: readonly string[]): RateOf {
  const ranges = entries.map((entry) => {
    const [range = '', wire = '', rest] = entry.split('=')
    const rate = wire === 'off' ? wire : Number(wire)
    const isRate = wire === 'off' || /^[1-9]\d{0,6}$/.test(wire)
    if (!isRate || rest !== undefined)
      throw new Error(`expected ADDRESS=RATE or RANGE=RATE, where RATE is 1 to 9999999 or "off"`)
    const list = trustedProxies([range])
    if (range.includes(':') && Number(range.split('/')[1] ?? 128) > MAX_IPV6_BITS)
      throw new Error(`IPv6 is counted by /64: ${range} is smaller, give a /64 or larger`)
    return { list, rate } as const
  })
  return (address) => ranges.find(({ list }) => isTrusted(address, list))?.rate
}
