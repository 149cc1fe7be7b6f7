/** Encodes plain data with bytes and bigints, which JSON lacks, as lines of JSON. */
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'

/**
 * Encodes bytes as `0x…` and bigints as `12n`; a text that could be mistaken for them gets the
 * prefix `$`.
 */
export const encodeLine = (value: object): string =>
  JSON.stringify(value, function (this: Record<string, unknown>, key) {
    // The second argument is unsuitable, because Buffer.toJSON has changed it already.
    const field = this[key]
    if (field instanceof Uint8Array) return bytesToHex(field)
    if (typeof field === 'bigint') return `${field}n`
    if (typeof field === 'string' && LIKE_ENCODED.test(field)) return `$${field}`
    return field
  })

/** @throws {SyntaxError} if the text is no line of `encodeLine` */
export const decodeLine = (line: string): unknown =>
  JSON.parse(line, (_, value: unknown) => {
    if (typeof value !== 'string') return value
    if (value.startsWith('$')) return value.slice(1)
    if (value.startsWith('0x')) return hexToBytes(value as `0x${string}`)
    return BIGINT.test(value) ? BigInt(value.slice(0, -1)) : value
  })

const BIGINT = /^-?\d+n$/
const LIKE_ENCODED = /^(\$|0x|-?\d+n$)/
