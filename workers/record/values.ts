/** Plain data as lines of JSON and back: what crosses threads here has bytes and bigints, which JSON has not. */
import { bytesToHex, hexToBytes } from '../../engine/primitives/hex.ts'

/** Bytes are `0x…`, bigints `12n`; a text that looks like one of them, or begins so, has a `$` before it. */
export const encodeLine = (value: object): string =>
  JSON.stringify(value, function (this: Record<string, unknown>, key) {
    // Not the second argument: Buffer has a toJSON of its own.
    const field = this[key]
    if (field instanceof Uint8Array) return bytesToHex(field)
    if (typeof field === 'bigint') return `${field}n`
    if (typeof field === 'string' && LOOKS.test(field)) return `$${field}`
    return field
  })

/** @throws {SyntaxError} for what is no line of `encodeLine` */
export const decodeLine = (line: string): unknown =>
  JSON.parse(line, (_, value: unknown) => {
    if (typeof value !== 'string') return value
    if (value.startsWith('$')) return value.slice(1)
    if (value.startsWith('0x')) return hexToBytes(value as `0x${string}`)
    return BIGINT.test(value) ? BigInt(value.slice(0, -1)) : value
  })

const BIGINT = /^-?\d+n$/
const LOOKS = /^(\$|0x|-?\d+n$)/
