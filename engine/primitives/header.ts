/** Block headers of every fork, and their RLP. */
import type { Bytes } from './bytes.ts'
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

export type Header = {
  readonly parentHash: Bytes
  readonly ommersHash: Bytes
  readonly coinbase: Bytes
  readonly stateRoot: Bytes
  readonly transactionsRoot: Bytes
  readonly receiptsRoot: Bytes
  readonly logsBloom: Bytes
  readonly difficulty: bigint
  readonly number: bigint
  readonly gasLimit: bigint
  readonly gasUsed: bigint
  /** Seconds. */
  readonly timestamp: bigint
  readonly extraData: Bytes
  readonly mixHash: Bytes
  /** 8 bytes. */
  readonly nonce: Bytes
  readonly baseFeePerGas?: bigint
  readonly withdrawalsRoot?: Bytes
  readonly blobGasUsed?: bigint
  readonly excessBlobGas?: bigint
  readonly parentBeaconBlockRoot?: Bytes
  readonly requestsHash?: Bytes
  /** Hash of the block's reads and writes (EIP-7928, Amsterdam). */
  readonly blockAccessListHash?: Bytes
  /** Slot of the consensus layer (EIP-7843, Amsterdam). */
  readonly slotNumber?: bigint
}

export function encodeHeader(header: Header): Bytes {
  return encodeRlp(headerItems(header))
}

/**
 * Decodes a header; byte strings are views into `data`.
 * @throws {RlpError} when the bytes are not a header
 */
export function decodeHeader(data: Bytes): Header {
  return headerOf(decodeRlp(data))
}

/** Returns the block hash. */
export function hashHeader(header: Header): Bytes {
  return keccak256(encodeHeader(header))
}

/**
 * Returns a header's items, for use within a block.
 * @throws {RangeError} when a later field is present and an earlier one is not
 */
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

/** @throws {RlpError} when the item is not a header */
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
  // Every field of FIELDS up to the length was read by its kind; the rest is optional.
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
/** Number of fields of the first fork. */
const REQUIRED = 15

function checked(value: Bytes, kind: Kind, name: string): Bytes {
  if (typeof kind === 'number' && value.length !== kind)
    throw new RangeError(`header ${name} has ${value.length} bytes, expected ${kind}`)
  return value
}
