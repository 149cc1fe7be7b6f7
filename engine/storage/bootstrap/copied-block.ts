/** Blocks from a source, checked against their headers before anything is written. */
import { decodeTail, encodeWithdrawal, NO_TAIL } from '../../primitives/block-codec.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { decodeHeader, type Header, headerItems } from '../../primitives/header.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { orderedRoot } from '../../primitives/ordered-root.ts'
import { decodeStoredReceipt, encodeReceipt } from '../../primitives/receipt-codec.ts'
import { encodeRlp } from '../../primitives/rlp.ts'
import { decodeTransaction } from '../../primitives/transaction-codec.ts'
import { equalBytes } from '../../primitives/words.ts'
import type { EncodedDiff } from '../../state/diff.ts'
import { codesOf, rowsOf } from '../../state/encoded-diff.ts'
import { decodeBody } from '../blocks/block-codec.ts'
import { decodeList } from '../database/lists.ts'
import type { Entry } from '../database/types.ts'
import type { StoredBody } from '../types.ts'
import { BLOCK_ROWS } from './source.ts'

export type CopiedBlock = {
  readonly number: number
  readonly hash: Bytes
  readonly parentHash: Bytes
  /** Rows as they are stored; undefined if not sent. */
  readonly header: Bytes
  readonly body: Bytes | undefined
  readonly tail: Bytes | undefined
  readonly receipts: Bytes | undefined
  readonly diff: EncodedDiff | undefined
}

export type BlockRules = {
  /** Whether the header's withdrawals root is that of the list of withdrawals. */
  readonly hasWithdrawals: (header: Header) => boolean
  /** Share of the senders that is recovered again, in [0, 1). Recovery is most of the work. */
  readonly random: () => number
  readonly senderShare: number
}

/**
 * Decodes the blocks of a response.
 * @throws {Error} saying what is wrong
 */
export function readCopiedBlocks(rows: readonly Entry[], from: number): readonly CopiedBlock[] {
  const blocks: CopiedBlock[] = []
  for (let at = 0; at < rows.length; ) {
    let end = at + 1
    while (end < rows.length && rows[end]!.key[0] !== BLOCK_ROWS.header) end++
    blocks.push(readBlock(rows.slice(at, end), from + blocks.length))
    at = end
  }
  return blocks
}

function readBlock(rows: readonly Entry[], number: number): CopiedBlock {
  const byKind = new Map(rows.map(({ key, value }) => [key.length === 1 ? key[0]! : 0, value]))
  const header = byKind.get(BLOCK_ROWS.header)
  if (header === undefined || byKind.size !== rows.length || byKind.has(0))
    throw new Error(`the rows of block ${number} are not those of a block`)
  const { number: own, parentHash } = decodeHeader(header)
  if (own !== BigInt(number)) throw new Error(`block ${own} came in place of block ${number}`)
  return {
    number,
    header,
    hash: keccak256(header),
    parentHash: parentHash.slice(),
    body: byKind.get(BLOCK_ROWS.body),
    tail: byKind.get(BLOCK_ROWS.tail),
    receipts: byKind.get(BLOCK_ROWS.receipts),
    diff: byKind.get(BLOCK_ROWS.diff),
  }
}

/**
 * Checks a block's transactions, receipts, ommers and withdrawals against its header. The diff is
 * checked against the state root when the block is persisted.
 * @param options `isBare`: first block of the chain, which may have only a header
 * @throws {Error} saying what is wrong
 */
export function checkCopiedBlock(
  block: CopiedBlock,
  rules: BlockRules,
  { isBare, isGenesis }: { readonly isBare: boolean; readonly isGenesis: boolean },
): StoredBody | undefined {
  const header = decodeHeader(block.header)
  if (block.body === undefined || block.receipts === undefined) {
    if (isBare && block.body === undefined && block.receipts === undefined) return undefined
    throw new Error(`block ${block.number} has no transactions or no receipts`)
  }
  const fault = (what: string) =>
    new Error(`${what} of block ${block.number} are not those of its header`)
  const body = decodeBody(block.body)
  if (!equalBytes(orderedRoot(body.transactions.map(({ raw }) => raw)), header.transactionsRoot))
    throw fault('the transactions')
  checkSenders(block.number, body, rules)
  const receipts = decodeList(block.receipts).map((one) => encodeReceipt(decodeStoredReceipt(one)))
  if (
    receipts.length !== body.transactions.length ||
    !equalBytes(orderedRoot(receipts), header.receiptsRoot)
  )
    throw fault('the receipts')
  const { ommers, withdrawals } = block.tail === undefined ? NO_TAIL : decodeTail(block.tail)
  if (!equalBytes(keccak256(encodeRlp(ommers.map(headerItems))), header.ommersHash))
    throw fault('the ommers')
  const isNamed = !isGenesis && rules.hasWithdrawals(header) && header.withdrawalsRoot !== undefined
  if (
    isNamed &&
    !equalBytes(orderedRoot((withdrawals ?? []).map(encodeWithdrawal)), header.withdrawalsRoot!)
  )
    throw fault('the withdrawals')
  if (block.diff !== undefined) checkDiff(block.diff)
  return body
}

function checkSenders(number: number, { transactions }: StoredBody, rules: BlockRules): void {
  for (const [index, { raw, hash, from }] of transactions.entries()) {
    const isChosen = rules.random() < rules.senderShare
    const found = decodeTransaction(raw, isChosen ? undefined : from)
    if (!equalBytes(found.hash, hash) || !equalBytes(found.from, from))
      throw new Error(`transaction ${index} of block ${number} has another hash or sender`)
  }
}

/** Checks that a diff can be decoded, and that its code has the stated hashes. */
function checkDiff(diff: EncodedDiff): void {
  for (const _ of rowsOf(diff));
  for (const { hash, code } of codesOf(diff))
    if (code.length > 0 && !equalBytes(keccak256(code), hash))
      throw new Error('code in what a block changed is not of its hash')
}
