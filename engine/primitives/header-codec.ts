/** Block headers ↔ RLP, of every fork. */
import type { Bytes } from './bytes.ts'
import type { Header } from './header.ts'
import { keccak256 } from './keccak.ts'
import {
  decodeRlp,
  encodeRlp,
  RlpError,
  type RlpItem,
  readBytes,
  readFixed,
  readList,
  readUint,
  rlpUint,
} from './rlp.ts'

export function encodeHeader(header: Header): Bytes {
  return encodeRlp(headerItems(header))
}

/** Byte strings are views into `data`. @throws {RlpError} */
export function decodeHeader(data: Bytes): Header {
  return headerOf(decodeRlp(data))
}

/** The block hash. */
export function hashHeader(header: Header): Bytes {
  return keccak256(encodeHeader(header))
}

/** For a header within a block. @throws {RangeError} when a later field is present and an earlier one is not. */
export function headerItems(header: Header): RlpItem {
  const items: RlpItem[] = []
  let absent: string | undefined
  for (const { name, kind } of FIELDS) {
    const value = header[name]
    if (value === undefined) absent ??= name
    else if (absent !== undefined) throw new RangeError(`a header with ${name} needs ${absent}`)
    else items.push(typeof value === 'bigint' ? rlpUint(value) : checked(value, kind, name))
  }
  return items
}

/** @throws {RlpError} */
export function headerOf(item: RlpItem): Header {
  const items = readList(item, ' for types.Header')
  if (items.length < REQUIRED) throw new RlpError('rlp: too few elements for types.Header')
  if (items.length > FIELDS.length)
    throw new RlpError('rlp: input list has too many elements for types.Header')
  const header: Record<string, Bytes | bigint> = {}
  for (const [index, value] of items.entries()) {
    const { name, kind } = FIELDS[index]!
    const where = `, decoding into (types.Header).${name}`
    if (typeof kind === 'number') header[name] = readFixed(value, kind, where)
    else if (kind === 'bytes') header[name] = readBytes(value, where)
    else header[name] = readUint(value, kind === 'uint64' ? 8 : 32, where)
  }
  // Every field of FIELDS up to the length was read as its kind says; the rest is optional.
  return header as unknown as Header
}

/** A number is a length in bytes. */
type Kind = number | 'bytes' | 'uint64' | 'uint256'
const FIELDS: readonly { readonly name: keyof Header; readonly kind: Kind }[] = [
  { name: 'parentHash', kind: 32 },
  { name: 'ommersHash', kind: 32 },
  { name: 'coinbase', kind: 20 },
  { name: 'stateRoot', kind: 32 },
  { name: 'transactionsRoot', kind: 32 },
  { name: 'receiptsRoot', kind: 32 },
  { name: 'logsBloom', kind: 256 },
  { name: 'difficulty', kind: 'uint256' },
  { name: 'number', kind: 'uint64' },
  { name: 'gasLimit', kind: 'uint64' },
  { name: 'gasUsed', kind: 'uint64' },
  { name: 'timestamp', kind: 'uint64' },
  { name: 'extraData', kind: 'bytes' },
  { name: 'mixHash', kind: 32 },
  { name: 'nonce', kind: 8 },
  { name: 'baseFeePerGas', kind: 'uint256' },
  { name: 'withdrawalsRoot', kind: 32 },
  { name: 'blobGasUsed', kind: 'uint64' },
  { name: 'excessBlobGas', kind: 'uint64' },
  { name: 'parentBeaconBlockRoot', kind: 32 },
  { name: 'requestsHash', kind: 32 },
  { name: 'blockAccessListHash', kind: 32 },
  { name: 'slotNumber', kind: 'uint64' },
]
/** Fields of the first fork. */
const REQUIRED = 15

function checked(value: Bytes, kind: Kind, name: string): Bytes {
  if (typeof kind === 'number' && value.length !== kind)
    throw new RangeError(`header ${name} has ${value.length} bytes, expected ${kind}`)
  return value
}
