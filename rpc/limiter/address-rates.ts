/** Addresses that have a rate of their own: `10.0.0.0/8=1000`, or `=off`, which is the list of those that may ask without a limit. */
import { isTrusted, trustedProxies } from '../seam/address.ts'
import type { RateOf } from './limiter.ts'

/** Of IPv6 a whole /64 is one address here. */
const MOST_IPV6_BITS = 64

/** The first entry that an address is in decides. @throws {Error} saying what is wrong with an entry. */
export function addressRates(entries: readonly string[]): RateOf {
  const ranges = entries.map((entry) => {
    const [range = '', wire = '', rest] = entry.split('=')
    const rate = wire === 'off' ? wire : Number(wire)
    const isRate = wire === 'off' || /^[1-9]\d{0,6}$/.test(wire)
    if (!isRate || rest !== undefined)
      throw new Error(`expected an address or range, = and 1 to 9999999 or "off"`)
    const list = trustedProxies([range])
    if (range.includes(':') && Number(range.split('/')[1] ?? 128) > MOST_IPV6_BITS)
      throw new Error(`IPv6 is counted by /64: ${range} is less than that`)
    return { list, rate } as const
  })
  return (address) => ranges.find(({ list }) => isTrusted(address, list))?.rate
}
