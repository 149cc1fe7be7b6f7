/**
 * Encodings of receipts: the consensus form for roots, and the lossless stored form. Also the bloom
 * of their logs.
 */
import { type Bytes, NO_BYTES } from './bytes.ts'
import { keccak256 } from './keccak.ts'
import type { L1Fee, Log, LogSummary, Receipt } from './receipt.ts'
import {
  decodeRlp,
  encodeRlp,
  nextAt,
  RlpError,
  type RlpItem,
  readBytes,
  readFixed,
  readList,
  readUint,
  rlpUint,
  spanAt,
  startAt,
} from './rlp.ts'
import { concatBytes } from './words.ts'

/**
 * Encodes the consensus form (EIP-2718), a leaf of the receipts trie. A deposit has nonce and
 * version from Canyon on, when both are present.
 */
export function encodeReceipt(receipt: Receipt): Bytes {
  const items: RlpItem[] = [
    receipt.root ?? rlpUint(receipt.status),
    rlpUint(receipt.cumulativeGasUsed),
    receipt.logsBloom,
    receipt.logs.map(logItems),
  ]
  if (receipt.depositNonce !== undefined && receipt.depositReceiptVersion !== undefined)
    items.push(rlpUint(receipt.depositNonce), rlpUint(receipt.depositReceiptVersion))
  const body = encodeRlp(items)
  return receipt.type === 0 ? body : concatBytes(Uint8Array.of(receipt.type), body)
}

/**
 * Encodes every field for storage: RLP in the order below, with an empty list for an absent field.
 * Only receipts from Lagoon on have the last field.
 */
export function encodeStoredReceipt(receipt: Receipt): Bytes {
  return encodeRlp([
    rlpUint(receipt.type),
    receipt.root === undefined
      ? rlpUint(receipt.status)
      : statusAndRoot(receipt.status, receipt.root),
    rlpUint(receipt.cumulativeGasUsed),
    rlpUint(receipt.gasUsed),
    isZero(receipt.logsBloom) ? NO_BYTES : receipt.logsBloom,
    receipt.logs.map(logItems),
    receipt.contractAddress ?? ABSENT,
    rlpUint(receipt.effectiveGasPrice),
    optional(receipt.depositNonce),
    optional(receipt.depositReceiptVersion),
    optional(receipt.blobGasUsed),
    optional(receipt.blobGasPrice),
    receipt.l1 === undefined ? ABSENT : l1Items(receipt.l1),
    ...(receipt.gasRefund === undefined ? [] : [rlpUint(receipt.gasRefund)]),
  ])
}

/**
 * Decodes the stored form; byte strings are views into `data`.
 * @throws {RlpError} when `data` is not from `encodeStoredReceipt`
 */
export function decodeStoredReceipt(data: Bytes): Receipt {
  const items = readList(decodeRlp(data))
  if (items.length !== 13 && items.length !== 14)
    throw new RlpError(`stored receipt: 13 or 14 fields expected, not ${items.length}`)
  const at = (index: number) => items[index]!
  return {
    type: Number(readUint(at(0), 1)),
    ...storedStatus(at(1)),
    cumulativeGasUsed: readUint(at(2), 8),
    gasUsed: readUint(at(3), 8),
    logsBloom: storedBloom(at(4)),
    logs: readList(at(5)).map(logOf),
    contractAddress: isAbsent(at(6)) ? undefined : readFixed(at(6), 20),
    effectiveGasPrice: readUint(at(7), 32),
    ...present('depositNonce', at(8)),
    ...present('depositReceiptVersion', at(9)),
    ...present('blobGasUsed', at(10)),
    ...present('blobGasPrice', at(11)),
    ...(isAbsent(at(12)) ? {} : { l1: l1Of(at(12)) }),
    ...(items.length === 13 ? {} : { gasRefund: readUint(at(13), 8) }),
  }
}

/**
 * Returns the bloom and the number of logs, with a tenth of the work of decoding. The bloom is a
 * view into `data`.
 */
export function summariseStoredLogs(data: Bytes): LogSummary {
  let at = spanAt(data, 0).start
  for (let field = 0; field < 4; field++) at = spanAt(data, at).next
  const bloom = spanAt(data, at)
  return { bloom: data.subarray(bloom.start, bloom.next), count: countStoredLogs(data) }
}

/** Returns the concatenated RLP of the logs of a stored receipt, as a view into `data`. */
export function storedLogs(data: Bytes): Bytes {
  let at = startAt(data, 0)
  for (let field = 0; field < LOGS_FIELD; field++) at = nextAt(data, at)
  return data.subarray(startAt(data, at), nextAt(data, at))
}
/** Index of the logs in the order of `encodeStoredReceipt`. */
const LOGS_FIELD = 5

export function countStoredLogs(data: Bytes): number {
  const logs = storedLogs(data)
  let count = 0
  for (let at = 0; at < logs.length; at = nextAt(logs, at)) count++
  return count
}

/** Returns a new array of 256 bytes. */
export function bloomOf(logs: readonly Log[]): Bytes {
  const bloom = new Uint8Array(BLOOM_BYTES)
  for (const log of logs) {
    add(bloom, log.address)
    for (const topic of log.topics) add(bloom, topic)
  }
  return bloom
}

export function orBloom(a: Bytes, b: Bytes): Bytes {
  const both = a.slice()
  addBloom(both, b)
  return both
}

export function addBloom(to: Uint8Array, b: Bytes): void {
  for (let at = 0; at < BLOOM_BYTES; at++) to[at]! |= b[at]!
}

/** Returns whether a log may have this address or topic. False is certain. */
export function bloomHas(bloom: Bytes, item: Bytes): boolean {
  const hash = keccak256(item)
  return [0, 2, 4].every((at) => {
    const bit = bitAt(hash, at)
    return (bloom[byteOf(bit)]! & (1 << (bit & 7))) !== 0
  })
}

const BLOOM_BYTES = 256
const ABSENT: readonly RlpItem[] = []
/** A loop, because `every` would call a function for each byte of each receipt. */
function isZero(bytes: Bytes): boolean {
  for (let at = 0; at < bytes.length; at++) if (bytes[at] !== 0) return false
  return true
}
const isAbsent = (item: RlpItem) => !(item instanceof Uint8Array) && item.length === 0
const optional = (value: bigint | undefined): RlpItem =>
  value === undefined ? ABSENT : rlpUint(value)

const statusAndRoot = (status: 0 | 1, root: Bytes): Bytes =>
  concatBytes(Uint8Array.of(status), root)

/** Reads the status alone, or a status byte followed by the root. */
function storedStatus(item: RlpItem): Pick<Receipt, 'status' | 'root'> {
  const bytes = readBytes(item)
  const isLong = bytes.length === 33
  const status = isLong ? BigInt(bytes[0]!) : readUint(item, 1)
  if (status > 1n) throw new RlpError(`stored receipt: status 0 or 1 expected, not ${status}`)
  return { status: status === 1n ? 1 : 0, ...(isLong ? { root: bytes.subarray(1) } : {}) }
}

/** Reads a bloom; one without a bit is stored as no bytes. */
function storedBloom(item: RlpItem): Bytes {
  if (item.length === 0 && item instanceof Uint8Array) return new Uint8Array(BLOOM_BYTES)
  const bloom = readFixed(item, BLOOM_BYTES)
  if (isZero(bloom))
    throw new RlpError('stored receipt: a bloom without a bit is stored as nothing')
  return bloom
}

function decimalOf(item: RlpItem): string {
  const text = Buffer.from(readBytes(item)).toString('latin1')
  if (!/^[0-9.]*$/.test(text)) throw new RlpError('stored L1 fee: a decimal number expected')
  return text
}

function present<Name extends string>(
  name: Name,
  item: RlpItem,
): { readonly [K in Name]?: bigint } {
  const field: { [K in Name]?: bigint } = {}
  if (!isAbsent(item)) field[name] = readUint(item, 32)
  return field
}

const logItems = (log: Log): RlpItem => [log.address, log.topics, log.data]

function logOf(item: RlpItem): Log {
  const [address, topics, data, ...rest] = readList(item)
  if (address === undefined || topics === undefined || data === undefined || rest.length > 0)
    throw new RlpError('a log has 3 fields: address, topics, data')
  return {
    address: readFixed(address, 20),
    topics: readList(topics).map((topic) => readFixed(topic, 32)),
    data: readBytes(data),
  }
}

const l1Items = (fee: L1Fee): RlpItem => [
  rlpUint(fee.l1GasPrice),
  rlpUint(fee.l1GasUsed),
  rlpUint(fee.l1Fee),
  optional(fee.l1BaseFeeScalar),
  optional(fee.l1BlobBaseFee),
  optional(fee.l1BlobBaseFeeScalar),
  fee.l1FeeScalar === undefined ? ABSENT : Uint8Array.from(Buffer.from(fee.l1FeeScalar)),
  optional(fee.operatorFeeScalar),
  optional(fee.operatorFeeConstant),
  optional(fee.daFootprintGasScalar),
  optional(fee.blobGasUsed),
]

function l1Of(item: RlpItem): L1Fee {
  const items = readList(item)
  if (items.length !== 11)
    throw new RlpError(`stored L1 fee: 11 fields expected, not ${items.length}`)
  const at = (index: number) => items[index]!
  return {
    l1GasPrice: readUint(at(0), 32),
    l1GasUsed: readUint(at(1), 32),
    l1Fee: readUint(at(2), 32),
    ...present('l1BaseFeeScalar', at(3)),
    ...present('l1BlobBaseFee', at(4)),
    ...present('l1BlobBaseFeeScalar', at(5)),
    ...(isAbsent(at(6)) ? {} : { l1FeeScalar: decimalOf(at(6)) }),
    ...present('operatorFeeScalar', at(7)),
    ...present('operatorFeeConstant', at(8)),
    ...present('daFootprintGasScalar', at(9)),
    ...present('blobGasUsed', at(10)),
  }
}

function add(bloom: Uint8Array, item: Bytes): void {
  const hash = keccak256(item)
  for (let at = 0; at < 6; at += 2) {
    const bit = bitAt(hash, at)
    bloom[byteOf(bit)]! |= 1 << (bit & 7)
  }
}

/** Returns one of three bits of an item: the low 11 bits of the 16-bit word of its hash at `at`. */
const bitAt = (hash: Bytes, at: number) => ((hash[at]! << 8) | hash[at + 1]!) & 2047
const byteOf = (bit: number) => BLOOM_BYTES - 1 - (bit >> 3)
