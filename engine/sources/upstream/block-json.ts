/**
 * Decodes blocks of eth_getBlockByNumber and debug_getRawBlock, and verifies them against their
 * hash.
 */

import { decodeBlock } from '../../primitives/block-codec.ts'
import type { Bytes, Hex } from '../../primitives/bytes.ts'
import { type Header, hashHeader } from '../../primitives/header.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import {
  field,
  isObject,
  type JsonObject,
  Refusal,
  readArray,
  readBytes,
  readObject,
  readQuantity,
} from '../../primitives/json-fields.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { orderedRoot } from '../../primitives/ordered-root.ts'
import { unknownType } from '../../primitives/transaction-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import { decodeHeaderJson } from './header-json.ts'
import { encodeTransactionJson } from './transaction-json.ts'

export type FetchedBlock = {
  readonly number: number
  readonly hash: Hex
  readonly parentHash: Hex
  readonly header: Header
  /** Envelopes (EIP-2718). */
  readonly transactions: readonly Bytes[]
  /** Bytes of the transactions. */
  readonly bytes: number
  /** The block cannot be executed here. */
  readonly unknown?: UnknownType
}

/** The transaction at index `at` has a type that this node does not know. */
export type UnknownType = {
  readonly type: number
  readonly at: number
  /**
   * The upstream gives no bytes of the transaction. The block then has no transactions here, and
   * its unknown type is unverified.
   */
  readonly isClaimed: boolean
}

/** A block whose JSON does not reproduce its hash or a transaction's hash. */
export type Part = {
  readonly hash: Hex
  readonly why: string
  readonly header: Header | undefined
  /**
   * `raw` is undefined if the fields give another hash. `unknown` is a type that this node does not
   * know.
   */
  readonly transactions: readonly {
    readonly hash: Hex
    readonly raw: Bytes | undefined
    readonly unknown?: number
  }[]
}

/** @throws {Refusal} */
export function readBlock(json: unknown): { readonly block: FetchedBlock } | Part {
  const block = readObject(json, 'block')
  const hash = bytesToHex(readBytes(field(block, 'hash'), 'hash', 32))
  const header = headerOf(block, hash)
  const transactions = readArray(field(block, 'transactions'), 'transactions').map(readTransaction)
  const unlike = transactions.find(({ raw }) => raw === undefined)
  const part = { hash, transactions }
  if (typeof header === 'string') return { ...part, header: undefined, why: header }
  if (unlike !== undefined)
    return { ...part, header, why: `the fields of transaction ${unlike.hash} give another hash` }
  const raws = transactions.flatMap(({ raw }) => (raw === undefined ? [] : [raw]))
  return { block: completeBlock(hash, header, raws) }
}

/** Decodes the header; a text says why it does not match the hash. */
function headerOf(block: JsonObject, hash: Hex): Header | string {
  try {
    const header = decodeHeaderJson(block)
    const ours = bytesToHex(hashHeader(header))
    return ours === hash ? header : `the fields of its header give the hash ${ours}, not ${hash}`
  } catch (error) {
    // A RangeError means that a field of a later fork is there and one of an earlier fork is
    // missing.
    if (error instanceof Refusal || error instanceof RangeError) return error.message
    throw error
  }
}

/** @throws {Refusal} */
function readTransaction(json: unknown): Part['transactions'][number] {
  if (!isObject(json))
    return { hash: bytesToHex(readBytes(json, 'transaction', 32)), raw: undefined }
  const hash = bytesToHex(readBytes(field(json, 'hash'), 'transaction.hash', 32))
  try {
    const unknown = unknownTypeOf(json)
    if (unknown !== undefined) return { hash, raw: undefined, unknown }
    const raw = encodeTransactionJson(json)
    return { hash, raw: hashOf(raw) === hash ? raw : undefined }
  } catch (error) {
    if (error instanceof Refusal) return { hash, raw: undefined }
    throw error
  }
}

/** @throws {Refusal} */
function unknownTypeOf(json: JsonObject): number | undefined {
  const type = Number(readQuantity(field(json, 'type') ?? '0x0', 'type', 7))
  return type === 0 ? undefined : unknownType(Uint8Array.of(type))
}

/** Makes a block whose upstream does not give a transaction of unknown type. */
export function claimedBlock(
  { hash, transactions }: Part,
  header: Header,
  missing: Part['transactions'][number],
): FetchedBlock {
  const unknown = {
    type: missing.unknown!,
    at: transactions.indexOf(missing),
    isClaimed: true,
  }
  return { ...linkOf(hash, header), header, transactions: [], bytes: 0, unknown }
}

/** @throws {Refusal} when the transactions do not match the header */
export function completeBlock(
  hash: Hex,
  header: Header,
  transactions: readonly Bytes[],
): FetchedBlock {
  if (!equalBytes(orderedRoot(transactions), header.transactionsRoot))
    throw new Refusal('transactions', `a list with the root ${bytesToHex(header.transactionsRoot)}`)
  let bytes = 0
  let unknown: UnknownType | undefined
  for (const [at, raw] of transactions.entries()) {
    bytes += raw.length
    const type = unknownType(raw)
    if (type !== undefined) unknown ??= { type, at, isClaimed: false }
  }
  const block = { ...linkOf(hash, header), header, transactions, bytes }
  return unknown === undefined ? block : { ...block, unknown }
}

const linkOf = (hash: Hex, header: Header) => ({
  number: Number(header.number),
  hash,
  parentHash: bytesToHex(header.parentHash),
})

export const hashOf = (raw: Bytes): Hex => bytesToHex(keccak256(raw))

/**
 * Decodes a response of debug_getRawBlock.
 * @throws {Refusal}
 * @throws {RlpError}
 */
export function readRawBlock(raw: unknown, hash: Hex): FetchedBlock {
  const { header, transactions } = decodeBlock(readBytes(raw, 'debug_getRawBlock'))
  if (bytesToHex(hashHeader(header)) !== hash)
    throw new Refusal('debug_getRawBlock', `a block that hashes to ${hash}`)
  return completeBlock(hash, header, transactions)
}
