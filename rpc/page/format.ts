/** Formats values for people. */

export const count = (value: number): string => value.toLocaleString('en')

/** Three digits and a unit: 1.24 k, 13.1 M. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return '–'
  const size = Math.abs(value)
  if (size < 1_000) return Number.isInteger(value) ? String(value) : value.toPrecision(3)
  const [by, unit] = size < 1e6 ? [1e3, 'k'] : size < 1e9 ? [1e6, 'M'] : [1e9, 'G']
  return `${(value / by).toPrecision(3)} ${unit}`
}

export function ms(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return '–'
  if (value >= 60_000) return `${(value / 60_000).toFixed(1)} min`
  if (value >= 10_000) return `${(value / 1_000).toFixed(1)} s`
  if (value >= 1_000) return `${(value / 1_000).toFixed(2)} s`
  return value < 10 ? `${value.toFixed(1)} ms` : `${Math.round(value)} ms`
}

export const rate = (value: number): string =>
  value === 0 ? '0' : value < 10 ? value.toFixed(1) : short(Math.round(value))

export const gas = (value: number): string =>
  value >= 1e6 ? `${(value / 1e6).toFixed(2)} Mgas` : `${short(value)} gas`

export function bytes(value: number): string {
  const megabytes = value / 2 ** 20
  return megabytes < 1_000
    ? `${megabytes.toFixed(megabytes < 10 ? 1 : 0)} MB`
    : `${(megabytes / 1_024).toFixed(2)} GB`
}

export const percent = (share: number): string =>
  `${(100 * share).toFixed(share === 0 || share === 1 ? 0 : share > 0.99 || share < 0.1 ? 2 : 1)} %`

/** Local time of day, with milliseconds. */
export function clock(at: number): string {
  const time = new Date(at)
  const digits = (value: number, length = 2) => String(value).padStart(length, '0')
  return `${digits(time.getHours())}:${digits(time.getMinutes())}:${digits(time.getSeconds())}.${digits(time.getMilliseconds(), 3)}`
}

/** Shortens a long hex text to its two ends. */
export const ends = (hex: string): string =>
  hex.length <= 16 ? hex : `${hex.slice(0, 8)}…${hex.slice(-6)}`

const SMALL_WEI = 10n ** 9n
/** Formats less than a gwei in wei, and more in tokens. */
export const amount = (wei: bigint): string =>
  wei > 0n && wei < SMALL_WEI ? `${wei.toLocaleString('en')} wei` : `${tokens(wei)} tokens`

export function tokens(wei: bigint): string {
  const integer = wei / 10n ** 18n
  const rest = wei % 10n ** 18n
  if (rest === 0n) return integer.toLocaleString('en')
  const digits = rest.toString().padStart(18, '0')
  const leading = integer > 999n ? digits.slice(0, 4) : digits
  const trimmed = leading.replace(/0+$/, '')
  return trimmed === ''
    ? integer.toLocaleString('en')
    : `${integer.toLocaleString('en')}.${trimmed}`
}

/** Converts a snake-cased name to words. */
export const words = (name: string): string => name.replaceAll('_', ' ')
/** Converts a camel-cased name to words. */
export const spaced = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
