/** Requests of a new replica to a source, as query parameters. */
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { bytesToHex, digitsToBytes } from '../../primitives/hex.ts'
import { isCopied, type RowsRequest } from './columns.ts'

export type CopyRequest =
  /** Requests the self-description of the source and the possible start of a copy. */
  | { readonly part: 'about' }
  /** Requests the genesis.json, from this byte on. */
  | { readonly part: 'genesis'; readonly at: number }
  /** Requests persisted blocks from this height on. */
  | { readonly part: 'blocks'; readonly from: number }
  /** Requests rows. `known`: checksum of the rows of this range that the replica has already. */
  | ({ readonly part: 'rows'; readonly known: bigint | undefined } & RowsRequest)

/** The query lacks a parameter, or has a wrong one. */
export class CopyRequestError extends Error {
  override name = 'CopyRequestError'
}

/** Upper bound of a key's bytes. */
const LONGEST_KEY = 64

/**
 * Decodes a query.
 * @throws {CopyRequestError}
 */
export function readCopyRequest(query: URLSearchParams): CopyRequest {
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
      if (!isCopied(column))
        throw new CopyRequestError(`column "${column.slice(0, 32)}" is not copied`)
      const known = query.get('known')
      if (known !== null && !/^[0-9a-f]{16}$/.test(known))
        throw new CopyRequestError('known: expected 16 hex digits')
      return {
        part,
        column,
        from: keyIn(query, 'from') ?? NO_BYTES,
        to: keyIn(query, 'to'),
        above: numberIn(query, 'above'),
        upTo: numberIn(query, 'up-to'),
        known: known === null ? undefined : BigInt(`0x${known}`),
      }
    }
    default:
      throw new CopyRequestError('part: expected about, genesis, blocks or rows')
  }
}

export function writeCopyRequest(request: CopyRequest): URLSearchParams {
  const { part } = request
  switch (part) {
    case 'about':
      return new URLSearchParams({ part })
    case 'genesis':
      return new URLSearchParams({ part, at: String(request.at) })
    case 'blocks':
      return new URLSearchParams({ part, from: String(request.from) })
    case 'rows': {
      const { column, from, to, above, upTo, known } = request
      return new URLSearchParams({
        part,
        column,
        from: bytesToHex(from).slice(2),
        above: String(above),
        'up-to': String(upTo),
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
  throw new CopyRequestError(`${name}: expected a number`)
}

function keyIn(query: URLSearchParams, name: string): Bytes | undefined {
  const text = query.get(name)
  if (text === null) return undefined
  const bytes = text.length > 2 * LONGEST_KEY ? undefined : digitsToBytes(text)
  if (bytes === undefined) throw new CopyRequestError(`${name}: expected hex digits of a key`)
  return bytes
}
