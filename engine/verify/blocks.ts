/**
 * Checks the chain of headers from the newest block down, with the transactions, receipts and
 * indexes of each block.
 */

import { decodeTail, encodeWithdrawal, NO_TAIL } from '../primitives/block-codec.ts'
import type { Bytes } from '../primitives/bytes.ts'
import { decodeHeader, type Header, headerItems } from '../primitives/header.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { keccak256 } from '../primitives/keccak.ts'
import { orderedRoot } from '../primitives/ordered-root.ts'
import { decodeStoredReceipt, encodeReceipt } from '../primitives/receipt-codec.ts'
import { encodeRlp } from '../primitives/rlp.ts'
import { decodeTransaction } from '../primitives/transaction-codec.ts'
import { equalBytes } from '../primitives/words.ts'
import {
  decodeBody,
  decodeNumber,
  encodeNumber,
  encodeTransactionLocation,
  tailKey,
} from '../storage/blocks/block-codec.ts'
import { logPostings } from '../storage/blocks/log-index.ts'
import { decodeList } from '../storage/database/lists.ts'
import type { StoredBody, StoredHead } from '../storage/types.ts'
import { ALL, faultOf, type Verifying } from './verifying.ts'

/** A block of the canonical chain; `header` is undefined when its row is damaged. */
export type Linked = StoredHead & { readonly header: Header | undefined }

/**
 * Yields the blocks from the durable head down, by parent hashes. Past a damaged header, the index
 * of numbers is used.
 * The last block is the first of the directory.
 */
export function* chainDown({ store, findings, chain }: Verifying): Generator<Linked, void> {
  const persisted = store.persistedHead()
  for (let at: StoredHead | undefined = store.durableHead(); at !== undefined; ) {
    const { number, hash }: StoredHead = at
    const header = checkedHeader({ store, findings }, at)
    if (number <= persisted.number) checkNumber({ store, findings }, at)
    yield { number, hash, header }
    if (BigInt(number) === chain.genesisNumber) return
    const parent: Bytes | undefined = header?.parentHash ?? store.hashOfNumber(number - 1)
    const isFirst = parent !== undefined && store.header(parent) === undefined
    // A directory from a dump, or one that a follower started, has no block below its first.
    if (isFirst && store.hashOfNumber(number - 1) === undefined) return
    at = parent && { number: number - 1, hash: parent.slice() }
  }
}

type Read = Pick<Verifying, 'store' | 'findings'>

function checkedHeader({ store, findings }: Read, { number, hash }: StoredHead) {
  const location = { where: 'headers', key: hash, block: number } as const
  const row = store.header(hash)
  if (row === undefined) {
    findings.add(location, 'is missing')
    return undefined
  }
  if (equalBytes(keccak256(row), hash)) return decodeHeader(row)
  findings.add(location, 'is not what its hash says')
  return undefined
}

function checkNumber({ store, findings }: Read, { number, hash }: StoredHead): void {
  const indexed = store.hashOfNumber(number)
  if (indexed !== undefined && equalBytes(indexed, hash)) return
  const is = indexed === undefined ? 'is missing' : `names ${bytesToHex(indexed)}`
  findings.add(
    { where: 'numbers', key: encodeNumber(number), block: number },
    `${is}, the block is ${bytesToHex(hash)}`,
  )
}

/**
 * Checks one block.
 * @param isIndexed whether the block is persisted
 * @returns the transactions, when they match the header
 */
export function checkBlock(
  verifying: Verifying,
  { number, hash, header }: Linked,
  isIndexed: boolean,
): StoredBody | undefined {
  const { database, findings, counts } = verifying
  counts.blocks++
  if (header === undefined) return undefined
  const [rawBody, rawReceipts] = [database.get('bodies', hash), database.get('receipts', hash)]
  if (rawBody === undefined && rawReceipts === undefined && isBare(verifying, number))
    return undefined
  const body = checkedBody(verifying, { number, hash, header }, rawBody)
  checkTail(verifying, { number, hash, header })
  const fault = faultOf(() => checkReceipts(header, rawReceipts))
  if (fault !== undefined) findings.add({ where: 'receipts', key: hash, block: number }, fault)
  if (!isIndexed) return body
  if (body !== undefined) checkTransactionLocations(verifying, number, body)
  if (fault === undefined) checkPostings(verifying, number, decodeList(rawReceipts!))
  return body
}

/**
 * Returns whether only the header is there: for the block of a loaded state, and below a follower's
 * first block.
 */
const isBare = ({ store, chain }: Verifying, number: number): boolean =>
  store.isLazy()
    ? number < store.lazyStart()!.oldestBlock
    : BigInt(number) !== chain.genesisNumber && store.hashOfNumber(number - 1) === undefined

type Checked = StoredHead & { readonly header: Header }

function checkedBody(
  { findings, counts }: Verifying,
  { number, hash, header }: Checked,
  row: Bytes | undefined,
): StoredBody | undefined {
  let body: StoredBody | undefined
  const fault = faultOf(() => {
    if (row === undefined) throw new Error('is missing')
    body = decodeBody(row)
    const root = orderedRoot(body.transactions.map(({ raw }) => raw))
    if (!equalBytes(root, header.transactionsRoot))
      throw new Error('its transactions are not those of the header')
    for (const [index, one] of body.transactions.entries()) {
      const { hash, from } = decodeTransaction(one.raw)
      if (!equalBytes(hash, one.hash)) throw new Error(`transaction ${index} has another hash`)
      if (!equalBytes(from, one.from)) throw new Error(`transaction ${index} has another sender`)
    }
    counts.transactions += body.transactions.length
  })
  if (fault === undefined) return body
  findings.add({ where: 'bodies', key: hash, block: number }, fault)
  return undefined
}

function checkTail({ database, findings, chain }: Verifying, { number, hash, header }: Checked) {
  const row = database.get('bodies', tailKey(hash))
  const { isOptimism } = chain.rulesAt(header.number, header.timestamp)
  const fault = faultOf(() => {
    const { ommers, withdrawals } = row === undefined ? NO_TAIL : decodeTail(row)
    if (!equalBytes(keccak256(encodeRlp(ommers.map(headerItems))), header.ommersHash))
      throw new Error('its ommers are not those of the header')
    if (
      isOptimism ||
      header.withdrawalsRoot === undefined ||
      BigInt(number) === chain.genesisNumber
    )
      return
    const root = orderedRoot((withdrawals ?? []).map(encodeWithdrawal))
    if (!equalBytes(root, header.withdrawalsRoot))
      throw new Error('its withdrawals are not those of the header')
  })
  if (fault !== undefined)
    findings.add({ where: 'bodies', key: tailKey(hash), block: number }, fault)
}

/** @throws {Error} with the fault */
function checkReceipts(header: Header, row: Bytes | undefined): void {
  if (row === undefined) throw new Error('is missing')
  const receipts = decodeList(row).map((one) => encodeReceipt(decodeStoredReceipt(one)))
  if (!equalBytes(orderedRoot(receipts), header.receiptsRoot))
    throw new Error('its receipts are not those of the header')
}

function checkTransactionLocations(
  { database, findings }: Verifying,
  number: number,
  body: StoredBody,
): void {
  const hashes = body.transactions.map(({ hash }) => hash)
  if (hashes.length === 0) return
  for (const [index, row] of database.getMany('transactions', hashes).entries()) {
    const location = encodeTransactionLocation({ blockNumber: number, index })
    if (row !== undefined && equalBytes(row, location)) continue
    findings.add(
      { where: 'transactions', key: hashes[index]!, block: number },
      row === undefined
        ? `is missing: it is transaction ${index} of block ${number}`
        : `names another place: it is transaction ${index} of block ${number}`,
    )
  }
}

function checkPostings(
  { database, findings }: Verifying,
  number: number,
  receipts: readonly Bytes[],
): void {
  const postings = [...logPostings(number, receipts)]
  if (postings.length === 0) return
  const rows = database.getMany(
    'logs',
    postings.map(({ key }) => key),
    { isOnce: true },
  )
  for (const [at, { key, value }] of postings.entries())
    if (!hasPosting(rows[at], value))
      findings.add({ where: 'logs', key, block: number }, `does not lead to block ${number}`)
}

function hasPosting(row: Bytes | undefined, posting: Bytes): boolean {
  if (row === undefined) return false
  for (let at = 0; at + 1 < row.length; at += 2)
    if (row[at] === posting[0] && row[at + 1] === posting[1]) return true
  return false
}

/**
 * Checks the reverse direction: no number and no transaction row leads to a missing entry.
 * @param persisted the oldest block and the number of transactions of the chain
 */
export function checkLeftOver(
  { database, store, findings }: Verifying,
  persisted: { readonly oldest: number; readonly transactions: number },
): void {
  const first = database.range('numbers', { ...ALL, limit: 1 })[0]
  if (first !== undefined && decodeNumber(first.key) < persisted.oldest)
    findings.add(
      { where: 'numbers', key: first.key, block: decodeNumber(first.key) },
      `the chain ends at block ${persisted.oldest}, and this stands below it`,
    )
  let count = 0
  for (const _ of database.scan('transactions', ALL)) count++
  if (count <= persisted.transactions) return
  for (const { key, value } of database.scan('transactions', ALL)) {
    const number = decodeNumber(value)
    const index = new DataView(value.buffer, value.byteOffset).getUint32(8)
    const hash = store.hashOfNumber(number)
    const body = hash && store.body(hash)
    const found = body?.transactions[index]
    if (found === undefined || !equalBytes(found.hash, key))
      findings.add(
        { where: 'transactions', key, block: number },
        `leads to transaction ${index} of block ${number}, which is another`,
      )
  }
}
