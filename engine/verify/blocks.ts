/** The chain of headers from the newest block down, and of each block what its header says: transactions, receipts, and where they are found. */

import { decodeTail, encodeWithdrawal, NO_TAIL } from '../primitives/block-codec.ts'
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import { decodeHeader, headerItems } from '../primitives/header-codec.ts'
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
  encodePlace,
  tailKey,
} from '../storage/blocks/block-codec.ts'
import { logPostings } from '../storage/blocks/log-index.ts'
import { decodeList } from '../storage/database/lists.ts'
import type { StoredBody, StoredHead } from '../storage/types.ts'
import { ALL, faultOf, type Verifying } from './verifying.ts'

/** A block of the canonical chain; `header` is undefined where its row is damaged. */
export type Linked = StoredHead & { readonly header: Header | undefined }

/**
 * From the durable head down, as each header names its parent; past a damaged one by the index of numbers. Ends at the first block of
 * the directory.
 */
export function* chainDown({ store, findings, chain }: Verifying): Generator<Linked, void> {
  const fold = store.foldHead()
  for (let at: StoredHead | undefined = store.durableHead(); at !== undefined; ) {
    const { number, hash }: StoredHead = at
    const header = checkedHeader({ store, findings }, at)
    if (number <= fold.number) checkNumber({ store, findings }, at)
    yield { number, hash, header }
    if (BigInt(number) === chain.genesisNumber) return
    const parent: Bytes | undefined = header?.parentHash ?? store.hashOfNumber(number - 1)
    const isFirst = parent !== undefined && store.header(parent) === undefined
    // A directory that was made from a dump, or begun by a follower, has no block below its first.
    if (isFirst && store.hashOfNumber(number - 1) === undefined) return
    at = parent && { number: number - 1, hash: parent.slice() }
  }
}

type Read = Pick<Verifying, 'store' | 'findings'>

function checkedHeader({ store, findings }: Read, { number, hash }: StoredHead) {
  const place = { where: 'headers', key: hash, block: number } as const
  const row = store.header(hash)
  if (row === undefined) {
    findings.add(place, 'is missing')
    return undefined
  }
  if (equalBytes(keccak256(row), hash)) return decodeHeader(row)
  findings.add(place, 'is not what its hash says')
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

/** @param isIndexed it is folded @returns its transactions, where they are those of the header */
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
  if (body !== undefined) checkPlaces(verifying, number, body)
  if (fault === undefined) checkPostings(verifying, number, decodeList(rawReceipts!))
  return body
}

/** Of the block whose state was loaded, and of those below the first that a follower began with, the header alone is there. */
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

/** @throws {Error} saying what is wrong */
function checkReceipts(header: Header, row: Bytes | undefined): void {
  if (row === undefined) throw new Error('is missing')
  const receipts = decodeList(row).map((one) => encodeReceipt(decodeStoredReceipt(one)))
  if (!equalBytes(orderedRoot(receipts), header.receiptsRoot))
    throw new Error('its receipts are not those of the header')
}

function checkPlaces({ database, findings }: Verifying, number: number, body: StoredBody): void {
  const hashes = body.transactions.map(({ hash }) => hash)
  if (hashes.length === 0) return
  for (const [index, row] of database.getMany('transactions', hashes).entries()) {
    const place = encodePlace({ blockNumber: number, index })
    if (row !== undefined && equalBytes(row, place)) continue
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

/** The other way round: no number and no transaction leads to what is not there. `folded`: what the chain has. */
export function checkLeftOver(
  { database, store, findings }: Verifying,
  folded: { readonly oldest: number; readonly transactions: number },
): void {
  const first = database.range('numbers', { ...ALL, limit: 1 })[0]
  if (first !== undefined && decodeNumber(first.key) < folded.oldest)
    findings.add(
      { where: 'numbers', key: first.key, block: decodeNumber(first.key) },
      `the chain ends at block ${folded.oldest}, and this stands below it`,
    )
  let count = 0
  for (const _ of database.scan('transactions', ALL)) count++
  if (count <= folded.transactions) return
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
