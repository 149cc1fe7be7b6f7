/** Blocks as eth_getBlockByNumber and debug_getRawBlock have them → blocks that are what their hash says. */
import {
  field,
  isObject,
  type JsonObject,
  Refusal,
  readArray,
  readBytes,
  readObject,
} from '../../flashblocks/fields.ts'
import { decodeBlock } from '../../primitives/block-codec.ts'
import type { Bytes, Hex } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { hashHeader } from '../../primitives/header-codec.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { orderedRoot } from '../../primitives/ordered-root.ts'
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
  /** Of the transactions. */
  readonly bytes: number
}

/** A block whose JSON does not give it back exactly. */
export type Part = {
  readonly hash: Hex
  readonly why: string
  readonly header: Header | undefined
  /** `raw` is undefined where the fields do not come out as the hash. */
  readonly transactions: readonly { readonly hash: Hex; readonly raw: Bytes | undefined }[]
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
  return { block: wholeBlock(hash, header, raws) }
}

/** A text says what is wrong with it. */
function headerOf(block: JsonObject, hash: Hex): Header | string {
  try {
    const header = decodeHeaderJson(block)
    const ours = bytesToHex(hashHeader(header))
    return ours === hash ? header : `the fields of its header give the hash ${ours}, not ${hash}`
  } catch (error) {
    // RangeError: a field of a later fork, and none of an earlier one.
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
    const raw = encodeTransactionJson(json)
    return { hash, raw: hashOf(raw) === hash ? raw : undefined }
  } catch (error) {
    if (error instanceof Refusal) return { hash, raw: undefined }
    throw error
  }
}

/** @throws {Refusal} where the transactions are not those of the header */
export function wholeBlock(
  hash: Hex,
  header: Header,
  transactions: readonly Bytes[],
): FetchedBlock {
  if (!equalBytes(orderedRoot(transactions), header.transactionsRoot))
    throw new Refusal('transactions', `a list with the root ${bytesToHex(header.transactionsRoot)}`)
  let bytes = 0
  for (const { length } of transactions) bytes += length
  return {
    number: Number(header.number),
    hash,
    parentHash: bytesToHex(header.parentHash),
    header,
    transactions,
    bytes,
  }
}

export const hashOf = (raw: Bytes): Hex => bytesToHex(keccak256(raw))

/** As debug_getRawBlock has it. @throws {Refusal} {RlpError} */
export function readRawBlock(raw: unknown, hash: Hex): FetchedBlock {
  const { header, transactions } = decodeBlock(readBytes(raw, 'debug_getRawBlock'))
  if (bytesToHex(hashHeader(header)) !== hash)
    throw new Refusal('debug_getRawBlock', `a block that hashes to ${hash}`)
  return wholeBlock(hash, header, transactions)
}
