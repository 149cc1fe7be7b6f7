/**
 * Wire types of the Ethereum JSON-RPC, with go-ethereum's strictness and error texts: hex only, no
 * leading zeros, lengths before digits.
 */
import type { BlockSelector, BlockTag, FlashblockId } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { bytesToHex, digitsToBytes, quantity } from '../../engine/primitives/hex.ts'
import type { Limits } from '../core/limits.ts'
import {
  array,
  type Codec,
  kindOf,
  object,
  type PlainCodec,
  plainObject,
  SchemaError,
} from './schema.ts'

const hexPattern = (digits: string): string => `^0[xX]${digits}$`

/**
 * Returns the digits after 0x.
 * @throws {SchemaError}
 */
function digitsOf(wire: unknown, type: string): string {
  if (typeof wire !== 'string') throw new SchemaError('non-string', type)
  if (wire === '') return ''
  if (wire.charCodeAt(0) !== 48 || (wire.charCodeAt(1) | 32) !== 120)
    throw new SchemaError('hex string without 0x prefix', type)
  return wire.slice(2)
}

/** @throws {SchemaError} */
function bytesOf(digits: string, type: string): Bytes {
  if (digits.length % 2 !== 0) throw new SchemaError('hex string of odd length', type)
  const bytes = digitsToBytes(digits)
  if (bytes === undefined) throw new SchemaError('invalid hex string', type)
  return bytes
}

function fixed(type: string, length: number, title: string): PlainCodec<Bytes> {
  return {
    decode(wire) {
      const digits = digitsOf(wire, type)
      if (digits.length % 2 === 0 && digits.length !== 2 * length)
        throw new SchemaError(
          `hex string has length ${digits.length}, want ${2 * length} for ${type}`,
          undefined,
          true,
        )
      return bytesOf(digits, type)
    },
    encode: (value) => bytesToHex(value),
    schema: { title, type: 'string', pattern: hexPattern(`[0-9a-fA-F]{${2 * length}}`) },
  }
}

export const address = fixed('common.Address', 20, 'hex encoded address')
export const hash = fixed('common.Hash', 32, '32 byte hex value')
export const bytes: PlainCodec<Bytes> = {
  decode: (wire) => bytesOf(digitsOf(wire, 'hexutil.Bytes'), 'hexutil.Bytes'),
  encode: (value) => bytesToHex(value),
  schema: { title: 'hex encoded bytes', type: 'string', pattern: hexPattern('([0-9a-fA-F]{2})*') },
}

/**
 * Returns the fault of a quantity of at most `bits`, or undefined. The length is checked before any
 * digit.
 */
function quantityFault(wire: string, bits: number): string | undefined {
  if (wire === '') return 'empty hex string'
  if (wire.charCodeAt(0) !== 48 || (wire.charCodeAt(1) | 32) !== 120)
    return 'hex string without 0x prefix'
  if (wire.length === 2) return 'hex string "0x"'
  if (wire.length > 3 && wire.charCodeAt(2) === 48) return 'hex number with leading zero digits'
  if (wire.length > 2 + bits / 4) return `hex number > ${bits} bits`
  for (let at = 2; at < wire.length; at++)
    if (!isHexDigit(wire.charCodeAt(at))) return 'invalid hex string'
  return undefined
}
function isHexDigit(code: number): boolean {
  const letter = code | 32
  return (code >= 48 && code <= 57) || (letter >= 97 && letter <= 102)
}

function unsigned(type: string, bits: number): PlainCodec<bigint> {
  return {
    decode(wire) {
      if (typeof wire !== 'string') throw new SchemaError('non-string', type)
      const fault = quantityFault(wire, bits)
      if (fault !== undefined) throw new SchemaError(fault, type)
      return BigInt(wire)
    },
    encode: (value) => quantity(value),
    schema: {
      title: `hex encoded unsigned integer of ${bits} bits`,
      type: 'string',
      pattern: hexPattern(`(0|[1-9a-fA-F][0-9a-fA-F]{0,${bits / 4 - 1}})`),
    },
  }
}
export const uint256 = unsigned('*hexutil.Big', 256)
export const uint64 = unsigned('hexutil.Uint64', 64)
/** A field of one byte in an envelope. */
const uint8 = unsigned('hexutil.Uint64', 8)
/** Exactly hexutil.Uint of go-ethereum. */
export const index64 = unsigned('hexutil.Uint', 64)
/** Index in a block. An index beyond any block reads as the greatest safe number. */
export const index: PlainCodec<number> = {
  decode: (wire) => Math.min(Number(index64.decode(wire)), Number.MAX_SAFE_INTEGER),
  encode: (value) => quantity(value),
  schema: index64.schema,
}

/** Decodes a quantity, as clients have it from JSON, or a number, as they have it from a header. */
function countOf(wire: unknown, name: string): bigint {
  try {
    if (typeof wire === 'number' && Number.isSafeInteger(wire) && wire >= 0) return BigInt(wire)
    if (typeof wire === 'number') throw new SchemaError('not an integer', 'hexutil.Uint64')
    return uint64.decode(wire)
  } catch (error) {
    throw error instanceof SchemaError ? error.below(name, 'flashblock') : error
  }
}
const PAYLOAD_ID = /^0x[0-9a-fA-F]{16}$/
const FLASHBLOCK_KEYS: ReadonlySet<string> = new Set(['number', 'index', 'payloadId'])
const flashblockSchema = {
  title: 'Flashblock id',
  type: 'object',
  required: ['flashblock'],
  properties: {
    flashblock: {
      type: 'object',
      required: ['number', 'index'],
      properties: {
        number: uint64.schema,
        index: uint64.schema,
        payloadId: { type: 'string', pattern: PAYLOAD_ID.source },
      },
      additionalProperties: false,
    },
  },
}
const isFlashblockSelector = (wire: unknown): wire is { readonly flashblock: unknown } =>
  typeof wire === 'object' && wire !== null && Object.hasOwn(wire, 'flashblock')

/**
 * Decodes a flashblock selector. An index beyond any block reads as the greatest safe number.
 * @throws {SchemaError}
 */
function decodeFlashblockSelector(wire: { readonly flashblock: unknown }): {
  readonly flashblock: FlashblockId
} {
  if (Object.keys(wire).length > 1)
    throw new SchemaError('cannot specify both a flashblock and a block, choose one or the other')
  const flashblockId = plainObject(wire.flashblock, 'flashblock')
  for (const key of Object.keys(flashblockId))
    if (!FLASHBLOCK_KEYS.has(key))
      throw new SchemaError(
        `unknown field, expected one of ${[...FLASHBLOCK_KEYS].join(', ')}`,
      ).below(key, 'flashblock')
  for (const key of ['number', 'index'])
    if (!Object.hasOwn(flashblockId, key))
      throw new SchemaError(`missing required field '${key}' for flashblock`)
  const number = countOf(flashblockId['number'], 'number')
  const index = Math.min(Number(countOf(flashblockId['index'], 'index')), Number.MAX_SAFE_INTEGER)
  const payloadId = flashblockId['payloadId']
  if (payloadId === undefined || payloadId === null) return { flashblock: { number, index } }
  if (typeof payloadId !== 'string' || !PAYLOAD_ID.test(payloadId))
    throw new SchemaError('expected 0x and 16 hex digits').below('payloadId', 'flashblock')
  return { flashblock: { number, index, payloadId: payloadId.toLowerCase() } }
}
const encodeFlashblockId = ({ number, index, payloadId }: FlashblockId) => ({
  flashblock: {
    number: quantity(number),
    index: quantity(index),
    ...(payloadId === undefined ? {} : { payloadId }),
  },
})

const MAX_BLOCK_NUMBER = 2n ** 63n - 1n
const TAGS: ReadonlyMap<string, BlockTag> = new Map(
  (['latest', 'pending', 'safe', 'finalized', 'earliest'] as const).map((tag) => [tag, tag]),
)
const tagSchema = { title: 'Block tag', type: 'string', enum: [...TAGS.keys()] }

function tagOrNumber(wire: string): { tag: BlockTag } | { number: bigint } {
  const tag = TAGS.get(wire)
  if (tag !== undefined) return { tag }
  const fault = quantityFault(wire, 64)
  if (fault !== undefined) throw new SchemaError(fault)
  const number = BigInt(wire)
  if (number > MAX_BLOCK_NUMBER) throw new SchemaError('block number larger than int64')
  return { number }
}

export type BlockNumber = Exclude<BlockSelector, { readonly hash: Bytes }>
/** A tag, a height, or a FlashblockId. */
export const blockNumber: PlainCodec<BlockNumber> = {
  decode(wire) {
    if (typeof wire === 'string') return tagOrNumber(wire)
    if (isFlashblockSelector(wire)) return decodeFlashblockSelector(wire)
    throw new SchemaError('hex string without 0x prefix')
  },
  encode(value) {
    if ('tag' in value) return value.tag
    return 'number' in value ? quantity(value.number) : encodeFlashblockId(value.flashblock)
  },
  schema: { title: 'Block number or tag', oneOf: [uint64.schema, tagSchema, flashblockSchema] },
}

const HASH_CHARACTERS = 66
/**
 * A tag, a height, a hash, an object with one of these (go-ethereum's BlockNumberOrHash), or a
 * FlashblockId.
 */
export const blockId: Codec<BlockSelector> = {
  decode(wire, limits) {
    if (typeof wire === 'string')
      return wire.length === HASH_CHARACTERS
        ? { hash: hash.decode(wire), requireCanonical: false }
        : tagOrNumber(wire)
    if (typeof wire !== 'object' || wire === null) throw new SchemaError(kindOf(wire), 'string')
    if (isFlashblockSelector(wire)) return decodeFlashblockSelector(wire)
    return selectorOf(plainObject(wire, 'rpc.BlockNumberOrHash'), limits)
  },
  encode(value) {
    if (!('hash' in value)) return blockNumber.encode(value)
    return { blockHash: bytesToHex(value.hash), requireCanonical: value.requireCanonical }
  },
  schema: {
    title: 'Block number, tag, or block hash',
    oneOf: [uint64.schema, tagSchema, hash.schema, flashblockSchema, { type: 'object' }],
  },
}
const blockIdObject = object('rpc.BlockNumberOrHash', {
  blockHash: hash,
  blockNumber,
  requireCanonical: {
    decode: (wire) => wire === true,
    encode: (value: boolean) => value,
    schema: { type: 'boolean' },
  } satisfies Codec<boolean>,
})
function selectorOf(wire: Record<string, unknown>, limits: Limits): BlockSelector {
  const { blockHash, blockNumber, requireCanonical } = blockIdObject.decode(wire, limits)
  if (blockHash !== undefined && blockNumber !== undefined)
    throw new SchemaError('cannot specify both BlockHash and BlockNumber, choose one or the other')
  if (blockHash !== undefined)
    return { hash: blockHash, requireCanonical: requireCanonical ?? false }
  if (blockNumber === undefined)
    throw new SchemaError('must specify either BlockHash or BlockNumber')
  return blockNumber
}

const accessList = array(
  requiredFields('types.AccessTuple', { address, storageKeys: array(hash, 'accessListItems') }),
  'accessListItems',
)
const authorizationList = array(
  requiredFields('types.SetCodeAuthorization', {
    chainId: uint256,
    address,
    nonce: uint64,
    yParity: uint8,
    r: uint256,
    s: uint256,
  }),
  1_000,
)

/** A member whose value no method reads; only its presence matters. */
const present: Codec<true> = { decode: () => true, encode: (value) => value, schema: {} }

/** The transaction object of eth_call, eth_estimateGas and eth_sendTransaction. */
export const transactionCall = object('TransactionArgs', {
  from: address,
  to: address,
  gas: uint64,
  gasPrice: uint256,
  maxFeePerGas: uint256,
  maxPriorityFeePerGas: uint256,
  value: uint256,
  nonce: uint64,
  data: bytes,
  input: bytes,
  accessList,
  chainId: uint256,
  maxFeePerBlobGas: uint256,
  blobVersionedHashes: array(hash, 64),
  authorizationList,
  blobs: present,
  commitments: present,
  proofs: present,
})

/** Codec of an object whose fields are all required. */
function requiredFields<const F extends { readonly [key: string]: Codec<unknown> }>(
  title: string,
  fields: F,
): Codec<{ readonly [K in keyof F]: F[K] extends Codec<infer T> ? T : never }> {
  type All = { readonly [K in keyof F]: F[K] extends Codec<infer T> ? T : never }
  const optional = object(title, fields)
  return {
    decode(wire, limits) {
      const value = optional.decode(wire, limits)
      for (const key of Object.keys(fields))
        if (value[key] === undefined)
          throw new SchemaError(`missing required field '${key}' for ${title.split('.').at(-1)}`)
      return value as All
    },
    encode: (value) => optional.encode(value as Parameters<typeof optional.encode>[0]),
    schema: { ...optional.schema, required: Object.keys(fields) },
  }
}

/** JSON text of bytes and quantities, for results that are assembled by hand. */
export const hexText = (value: Bytes): string => `"${bytesToHex(value)}"`
export const quantityText = (value: bigint | number): string => `"0x${value.toString(16)}"`
