/**
 * Messages of the raw feed in their wire forms (rollup-boost: specs/flashblocks.md,
 * FlashblocksPayloadV1). X Layer sends an envelope compressed with Brotli.
 * The form is detected for each message, so that a feed may change it while connected. A malformed
 * message does not affect the next one.
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
  FeedMessageId,
  Flashblock,
  FlashblockBase,
  FlashblockDelta,
} from './types.ts'

/** Maximum index. A block of 12 s with a flashblock every 10 ms has only 1,200. */
export const MAX_INDEX = 9_999

/**
 * Maximum per flashblock: five times what 200 M gas can pay for. Each one costs memory far beyond
 * its bytes on the wire.
 */
export const MAX_TRANSACTIONS = 50_000

export type DecodedPacket =
  /**
   * `metadata` is side data as received. Only its block number is checked, because execution does
   * not need the rest.
   */
  | { readonly message: FeedMessage; readonly metadata: JsonObject | undefined }
  | Refused
  /** Well formed, but not meant for this node. */
  | { readonly ignore: string }

/** `refuse` names the field and the expected value. `field` is one of few names, for counting. */
export type Refused = { readonly refuse: string; readonly field: string }

/** Wire forms that the node can send: X Layer's, rollup-boost's plain JSON, OP's subblocks. */
export const WIRE_FORMS = ['xlayer', 'plain', 'subblocks'] as const
export type WireForm = (typeof WIRE_FORMS)[number]

/** Decodes one WebSocket message, text or binary; never throws. */
export const decodePacket = (packet: Bytes, bounds = PACKET_BOUNDS): DecodedPacket =>
  refusing(() => {
    const packed = openPacket(packet, bounds)
    const json = 'json' in packed ? packed.json : inflateNow(packed.brotli, bounds)
    return decodeValue(readJson(json, bounds))
  })

/** Decodes the JSON bytes of one message; never throws. */
export const decodeJson = (json: Bytes, bounds: PacketBounds): DecodedPacket =>
  refusing(() => decodeValue(readJson(json, bounds)))

export function refusing<Done>(decode: () => Done): Done | Refused {
  try {
    return decode()
  } catch (error) {
    if (error instanceof Refusal) return refusedFor(error)
    throw error
  }
}
/** Removes list indexes from the field name, because a list may have 50,000 entries. */
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

/**
 * Encodes a message. `xlayer` is sent as a binary WebSocket message, the other forms as text. Only
 * subblocks have `outcomes`.
 */
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

/**
 * Compresses JSON as in X Layer's frames: a byte that never starts JSON, then Brotli.
 * @param quality from 0 to 11
 */
export function compressJson(json: Bytes, quality: number): Bytes {
  const compressed = brotliCompressSync(json, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: quality,
      [constants.BROTLI_PARAM_LGWIN]: 22,
    },
  })
  return Buffer.concat([Buffer.of(MAGIC), compressed])
}

/**
 * Says that the flashblocks between two ids are not retained any more. Without `next`, all later
 * ones are gone as well.
 */
export const gapMessage = (
  after: Omit<FeedMessageId, 'payloadId'> & { readonly payloadId: string | undefined },
  next: FeedMessageId | undefined,
): string =>
  JSON.stringify({
    [GAP]: { after: messageIdJson(after), next: next ? messageIdJson(next) : null },
  })

const messageIdJson = (messageId: Parameters<typeof gapMessage>[0]) => ({
  number: messageId.number,
  index: messageId.index ?? 'end',
  payload_id: messageId.payloadId,
})

/** Returns a packet as the WebSocket library expects it: JSON as text, everything else binary. */
export const socketData = (packet: Bytes): string | Bytes =>
  packet[0] === BRACE
    ? Buffer.from(packet.buffer, packet.byteOffset, packet.length).toString()
    : packet

/**
 * Compression delays every receipt, so the quality is lower than the 5 of X Layer's builder.
 * At the same size, a recorded packet (16 kB) takes 0.08 ms instead of 0.19. One with 500 random
 * transfers takes 2 ms instead of 5 (November 2026).
 */
const QUALITY = 3

const ENVELOPE = 'OpFlashblockPayload'
/** flashnode's own message for a client of /feed that asks for forgotten flashblocks. */
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

/** Returns undefined for 32 zero bytes, because no root or hash is zero. */
const stated = (hash: Bytes): Bytes | undefined => (equalBytes(hash, ZERO_32) ? undefined : hash)

/** The largest refund of each transaction, and the fields before the list of refunds. */
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
