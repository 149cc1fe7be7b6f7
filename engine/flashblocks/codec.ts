/**
 * The raw feed's wire forms and its messages (rollup-boost: specs/flashblocks.md, FlashblocksPayloadV1; X Layer sends them in an envelope,
 * compressed with Brotli). The form is found for each message, so that a feed may change it while connected; one bad message never costs
 * the next.
 */
import { brotliCompressSync, constants } from 'node:zlib'
import type { Bytes } from '../primitives/bytes.ts'
import { bytesToHex } from '../primitives/hex.ts'
import {
  field,
  isObject,
  type JsonObject,
  Refusal,
  readArray,
  readBytes,
  readInteger,
  readObject,
  readQuantity,
} from '../primitives/json-fields.ts'
import { decodeTransaction, TransactionError } from '../primitives/transaction-codec.ts'
import { equalBytes, ZERO_32 } from '../primitives/words.ts'
import { flashblockJson } from './json.ts'
import {
  inflateNow,
  MAGIC,
  openPacket,
  PACKET_BOUNDS,
  type PacketBounds,
  readJson,
} from './packed.ts'
import { NO_OUTCOMES, type Outcomes, subblockJson } from './subblock.ts'
import type {
  FeedMessage,
  FeedPlace,
  Flashblock,
  FlashblockBase,
  FlashblockDelta,
} from './types.ts'

/** A block of 12 s with a flashblock every 10 ms has 1,200. */
export const MAX_INDEX = 9_999

/** Of one flashblock: five times what 200 M gas can hold. Each costs memory far beyond its bytes on the wire. */
export const MAX_TRANSACTIONS = 50_000

export type DecodedPacket =
  /** `metadata` is side data as it was sent, unchecked but for its block number: execution never needs it. */
  | { readonly message: FeedMessage; readonly metadata: JsonObject | undefined }
  | Refused
  /** Well formed and not for us. */
  | { readonly ignore: string }

/** `refuse` names the field and what was expected; `field` is the name alone, one of few, for counting. */
export type Refused = { readonly refuse: string; readonly field: string }

/** Forms of a feed that we can send: X Layer's, plain JSON as rollup-boost sends it, OP's subblocks. */
export const WIRE_FORMS = ['xlayer', 'plain', 'subblocks'] as const
export type WireForm = (typeof WIRE_FORMS)[number]

/** One WebSocket message, text or binary. Never throws. */
export const decodePacket = (packet: Bytes, bounds = PACKET_BOUNDS): DecodedPacket =>
  refusing(() => {
    const packed = openPacket(packet, bounds)
    const json = 'json' in packed ? packed.json : inflateNow(packed.brotli, bounds)
    return decodeValue(readJson(json, bounds))
  })

/** The JSON of one message, as bytes. Never throws. */
export const decodeJson = (json: Bytes, bounds: PacketBounds): DecodedPacket =>
  refusing(() => decodeValue(readJson(json, bounds)))

/** What is done to a packet, or why it is refused. */
export function refusing<Done>(decode: () => Done): Done | Refused {
  try {
    return decode()
  } catch (error) {
    if (error instanceof Refusal) return refusedFor(error)
    throw error
  }
}
/** Places in a list are no names: there may be 50,000 of them. */
export const refusedFor = ({ message, field }: Refusal): Refused => ({
  refuse: message,
  field: field.replace(/\[\d+\]$/, ''),
})

function decodeValue(value: unknown): DecodedPacket {
  if (!isObject(value)) throw new Refusal('message', 'an object')
  const keys = Object.keys(value)
  if (keys.length !== 1) return decodeMessage(value)
  if (keys[0] === 'OpBuiltPayload') return { ignore: 'OpBuiltPayload is for sequencers' }
  if (keys[0] === GAP) return { ignore: 'what a replay has not' }
  if (keys[0] !== ENVELOPE) return decodeMessage(value)
  return decodeMessage(readObject(value[ENVELOPE], 'envelope'))
}

/** `xlayer` goes out as a binary message of a WebSocket, the others as text. `outcomes` go into subblocks alone. */
export function encodePacket(
  message: FeedMessage,
  form: WireForm = 'xlayer',
  outcomes: Outcomes = NO_OUTCOMES,
): Bytes {
  const value =
    message.type === 'end'
      ? { payload_id: message.payloadId }
      : form === 'subblocks'
        ? subblockJson(message, outcomes)
        : flashblockJson(message)
  if (form !== 'xlayer') return Buffer.from(JSON.stringify(value))
  return compressJson(Buffer.from(JSON.stringify({ [ENVELOPE]: value })), QUALITY)
}

/** As X Layer's frames are: a byte that no JSON begins with, and Brotli. @param quality from 0 to 11 */
export function compressJson(json: Bytes, quality: number): Bytes {
  const compressed = brotliCompressSync(json, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: quality,
      [constants.BROTLI_PARAM_LGWIN]: 22,
    },
  })
  return Buffer.concat([Buffer.of(MAGIC), compressed])
}

/** The flashblocks after the first place and before the second are not held any more; null: nor is any later one. */
export const gapMessage = (
  after: Omit<FeedPlace, 'payloadId'> & { readonly payloadId: string | undefined },
  next: FeedPlace | undefined,
): string =>
  JSON.stringify({ [GAP]: { after: placeJson(after), next: next ? placeJson(next) : null } })

const placeJson = (place: Parameters<typeof gapMessage>[0]) => ({
  number: place.number,
  index: place.index ?? 'end',
  payload_id: place.payloadId,
})

/** A packet as a WebSocket takes it: JSON is text, everything else binary. */
export const socketData = (packet: Bytes): string | Bytes =>
  packet[0] === BRACE
    ? Buffer.from(packet.buffer, packet.byteOffset, packet.length).toString()
    : packet

/**
 * Everybody who waits for a receipt waits for this. X Layer's builder takes 5; of a recorded packet (16 kB) 3 makes as much in 0.08 ms
 * instead of 0.19, of one with 500 random transfers in 2 ms instead of 5 (2026-11).
 */
const QUALITY = 3

const ENVELOPE = 'OpFlashblockPayload'
/** Our own, for who asks /feed for what has been forgotten. */
const GAP = 'FlashnodeGap'
const BRACE = 0x7b

function decodeMessage(object: JsonObject): DecodedPacket {
  const payloadId = bytesToHex(readBytes(field(object, 'payload_id'), 'payload_id', 8))
  if (!Object.hasOwn(object, 'diff') && !Object.hasOwn(object, 'index'))
    return { message: { type: 'end', payloadId }, metadata: undefined }
  const index = readInteger(field(object, 'index'), 'index', MAX_INDEX)
  const targetIndex = readInteger(field(object, 'target_index') ?? 0, 'target_index', MAX_INDEX)
  const base = field(object, 'base')
  if (index === 0 && base === undefined) throw new Refusal('base', 'an object at index 0')
  if (index > 0 && base !== undefined) throw new Refusal('base', `none at index ${index}`)
  const metadata = field(object, 'metadata')
  const sides = metadata === undefined ? undefined : readObject(metadata, 'metadata')
  const message: Flashblock = {
    type: 'flashblock',
    payloadId,
    index,
    targetIndex,
    base: base === undefined ? undefined : decodeBase(readObject(base, 'base')),
    delta: decodeDelta(readObject(field(object, 'diff'), 'diff')),
    blockNumber: sides && decodeHeight(sides),
  }
  if (
    message.base &&
    (message.blockNumber ?? message.base.blockNumber) !== message.base.blockNumber
  )
    throw new Refusal('metadata.block_number', `${message.base.blockNumber}`, message.blockNumber)
  return { message, metadata: sides }
}

const decodeHeight = (metadata: JsonObject) =>
  BigInt(readInteger(field(metadata, 'block_number'), 'metadata.block_number'))

function decodeBase(base: JsonObject): FlashblockBase {
  const bytes = (key: string, size?: number) => readBytes(field(base, key), `base.${key}`, size)
  const uint = (key: string, bits?: number) => readQuantity(field(base, key), `base.${key}`, bits)
  return {
    parentBeaconBlockRoot: bytes('parent_beacon_block_root', 32),
    parentHash: bytes('parent_hash', 32),
    feeRecipient: bytes('fee_recipient', 20),
    prevRandao: bytes('prev_randao', 32),
    blockNumber: uint('block_number'),
    gasLimit: uint('gas_limit'),
    timestamp: uint('timestamp'),
    extraData: bytes('extra_data'),
    baseFeePerGas: uint('base_fee_per_gas', 256),
  }
}

function decodeDelta(diff: JsonObject): FlashblockDelta {
  const bytes = (key: string, size?: number) => readBytes(field(diff, key), `diff.${key}`, size)
  const withdrawals = readArray(field(diff, 'withdrawals'), 'diff.withdrawals')
  if (withdrawals.length > 0) throw new Refusal('diff.withdrawals', 'none on this kind of chain')
  const transactions = readArray(field(diff, 'transactions'), 'diff.transactions')
  if (transactions.length > MAX_TRANSACTIONS)
    throw new Refusal('diff.transactions', `at most ${MAX_TRANSACTIONS}`, transactions.length)
  const blobGasUsed = field(diff, 'blob_gas_used')
  const postExec = field(diff, 'post_exec_tx')
  return {
    stateRoot: stated(bytes('state_root', 32)),
    receiptsRoot: bytes('receipts_root', 32),
    logsBloom: bytes('logs_bloom', 256),
    gasUsed: readQuantity(field(diff, 'gas_used'), 'diff.gas_used'),
    blockHash: stated(bytes('block_hash', 32)),
    transactions: transactions.map(decodeRaw),
    withdrawalsRoot:
      field(diff, 'withdrawals_root') === undefined
        ? undefined
        : stated(bytes('withdrawals_root', 32)),
    blobGasUsed:
      blobGasUsed === undefined ? undefined : readQuantity(blobGasUsed, 'diff.blob_gas_used'),
    ...(postExec === undefined ? {} : { postExec: decodePostExec(postExec) }),
  }
}

/** No root and no hash is zero. */
const stated = (hash: Bytes): Bytes | undefined => (equalBytes(hash, ZERO_32) ? undefined : hash)

/** A refund for each transaction, in the most bytes that one takes, and what stands before them. */
const MAX_POST_EXEC_BYTES = 19 * MAX_TRANSACTIONS + 32

function decodePostExec(value: unknown): Bytes {
  const raw = readBytes(value, 'diff.post_exec_tx')
  if (raw.length > MAX_POST_EXEC_BYTES)
    throw new Refusal('diff.post_exec_tx', `at most ${MAX_POST_EXEC_BYTES} bytes`, raw.length)
  try {
    if (decodeTransaction(raw).type === 0x7d) return raw
  } catch (error) {
    if (!(error instanceof TransactionError)) throw error
    throw new Refusal('diff.post_exec_tx', 'a post-exec transaction', error.message)
  }
  throw new Refusal('diff.post_exec_tx', 'a post-exec transaction', 'another type')
}

function decodeRaw(value: unknown, at: number): Bytes {
  const raw = readBytes(value, `diff.transactions[${at}]`)
  if (raw.length === 0) throw new Refusal(`diff.transactions[${at}]`, 'a transaction', 'no bytes')
  return raw
}
