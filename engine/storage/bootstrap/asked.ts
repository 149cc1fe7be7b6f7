/** What a new replica may ask a source, as it stands in the query of its request. */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bytesToHex, digitsToBytes } from '../../primitives/hex.ts'
import { type AskedRows, isCopied } from './columns.ts'

export type Asked =
  /** Who it is, and where a copy may begin. */
  | { readonly part: 'about' }
  /** The genesis.json, from this byte on. */
  | { readonly part: 'genesis'; readonly at: number }
  /** Folded blocks from this height on. */
  | { readonly part: 'blocks'; readonly from: number }
  /** `known`: checksum of the rows of this range that are there already. */
  | ({ readonly part: 'rows'; readonly known: bigint | undefined } & AskedRows)

/** What the query lacks, or has too much. */
export class AskedError extends Error {
  override name = 'AskedError'
}

/** Above every key. */
const LONGEST_KEY = 64

/** @throws {AskedError} */
export function readAsked(query: URLSearchParams): Asked {
  const part = query.get('part')
  switch (part) {
    case 'about':
      return { part }
    case 'genesis':
      return { part, at: numberIn(query, 'at') }
    case 'blocks':
      return { part, from: numberIn(query, 'from') }
    case 'rows': {
      const column = query.get('column') ?? ''
      if (!isCopied(column)) throw new AskedError(`column "${column.slice(0, 32)}" is not copied`)
      const known = query.get('known')
      if (known !== null && !/^[0-9a-f]{16}$/.test(known))
        throw new AskedError('known: expected 16 hex digits')
      return {
        ...{ part, column },
        from: keyIn(query, 'from') ?? NO_BYTES,
        to: keyIn(query, 'to'),
        above: numberIn(query, 'above'),
        upTo: numberIn(query, 'up-to'),
        known: known === null ? undefined : BigInt(`0x${known}`),
      }
    }
    default:
      throw new AskedError('part: expected about, genesis, blocks or rows')
  }
}

export function writeAsked(asked: Asked): URLSearchParams {
  const { part } = asked
  switch (part) {
    case 'about':
      return new URLSearchParams({ part })
    case 'genesis':
      return new URLSearchParams({ part, at: String(asked.at) })
    case 'blocks':
      return new URLSearchParams({ part, from: String(asked.from) })
    case 'rows': {
      const { column, from, to, above, upTo, known } = asked
      return new URLSearchParams({
        ...{ part, column, from: bytesToHex(from).slice(2) },
        ...{ above: String(above), 'up-to': String(upTo) },
        ...(to === undefined ? {} : { to: bytesToHex(to).slice(2) }),
        ...(known === undefined ? {} : { known: hexOfChecksum(known) }),
      })
    }
  }
}

const hexOfChecksum = (value: bigint): string => value.toString(16).padStart(16, '0')

function numberIn(query: URLSearchParams, name: string): number {
  const text = query.get(name) ?? ''
  const number = Number(text)
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(number)) return number
  throw new AskedError(`${name}: expected a number`)
}

function keyIn(query: URLSearchParams, name: string): Bytes | undefined {
  const text = query.get(name)
  if (text === null) return undefined
  const bytes = text.length > 2 * LONGEST_KEY ? undefined : digitsToBytes(text)
  if (bytes === undefined) throw new AskedError(`${name}: expected hex digits of a key`)
  return bytes
}
