/** What a record shows, as the JSON that /feed?enrich=1 sends (ADR 41). Its documentation and this file change together, and the version with them. */

import type { Bytes } from '../../engine/primitives/bytes.ts'
import { decodeHeader } from '../../engine/primitives/header-codec.ts'
import type { Receipt } from '../../engine/primitives/receipt.ts'
import { decodeStoredReceipt } from '../../engine/primitives/receipt-codec.ts'
import type {
  Changes,
  ToldBlock,
  ToldFlashblock,
  ToldHeader,
} from '../../engine/sources/writer/changes.ts'
import type { AccountChange, SlotChange } from '../../engine/state/diff.ts'
import { decodeDiff } from '../../engine/state/diff-codec.ts'
import { hexText, quantityText } from '../json/codecs.ts'
import { headerText, l1Members, member, refundMember } from '../json/json.ts'
import { hashOfBefore } from './before.ts'

export const ENRICHED_VERSION = 2

/** Which message it is: numbers go on by one within a run of the node. */
export type Stamp = { readonly run: string; readonly seq: number }

export const changesText = (
  { isBeginning, removed, flashblocks, headers, heads }: Changes,
  { run, seq }: Stamp,
): string =>
  `{"enriched":${ENRICHED_VERSION},"run":"${run}","seq":${seq},"snapshot":${isBeginning},` +
  `"removed":${removed === undefined ? null : removedText(removed)},` +
  `"headers":[${headers.map(finalText).join(',')}],` +
  `"flashblocks":[${flashblocks.map(flashblockText).join(',')}],` +
  `"heads":{"canonical":${blockText(heads.canonical)},"complete":${blockText(heads.complete)},` +
  `"pending":${blockText(heads.pending, `,"index":${heads.pending.index ?? null}`)},` +
  `"safe":${heads.safe},"finalized":${heads.finalized}}}`

/** Bytes of the text, about, without making it. */
export function changesSize({ flashblocks, headers }: Changes): number {
  let bytes = MESSAGE_BYTES + headers.length * HEADER_BYTES
  for (const told of flashblocks) {
    const accounts = new DataView(
      told.bytes.buffer,
      told.bytes.byteOffset + told.ends[1]!,
    ).getUint32(0)
    bytes += HEADER_BYTES + 2.1 * told.bytes.length
    bytes += told.transactions * TRANSACTION_BYTES + accounts * ACCOUNT_BYTES
  }
  return Math.ceil(bytes)
}
const MESSAGE_BYTES = 600
const HEADER_BYTES = 1_800
const TRANSACTION_BYTES = 400
const ACCOUNT_BYTES = 150

const removedText = ({ above, blocks }: NonNullable<Changes['removed']>): string =>
  `{"above":${above},"blocks":[${blocks.map((block) => blockText(block)).join(',')}]}`

const blockText = ({ number, hash, payloadId }: ToldBlock, more = ''): string =>
  `{"number":${number},"hash":"${hash}","payload_id":${payloadId === undefined ? null : `"${payloadId}"`}${more}}`

const finalText = ({ header, hash }: ToldHeader): string => headerText(decodeHeader(header), hash)

/** `final`: the header that its block has got since, with its last flashblock. */
export type ShownFlashblock = ToldFlashblock & { readonly final?: ToldHeader | undefined }

/** Which one it is. */
const aboutText = ({ number, index, payloadId, isFinal, final }: ShownFlashblock): string =>
  `"number":${number},"index":${index},"payload_id":${payloadId === undefined ? null : `"${payloadId}"`},` +
  `"final":${isFinal || final !== undefined}`

function flashblockText(told: ShownFlashblock): string {
  const { final } = told
  const piece = (at: number): Bytes =>
    told.bytes.subarray(at === 0 ? 0 : told.ends[at - 1]!, told.ends[at]!)
  const diff = decodeDiff(piece(2))
  const transactions: string[] = []
  const receipts: string[] = []
  for (let at = 3; at < told.ends.length; at += 4) {
    transactions.push(
      `{"hash":${hexText(piece(at + 2))},"from":${hexText(piece(at + 1))},"raw":${hexText(piece(at))}}`,
    )
    receipts.push(receiptText(decodeStoredReceipt(piece(at + 3))))
  }
  return (
    `{${aboutText(told)},"header":${final === undefined ? headerText(decodeHeader(piece(0)), piece(1)) : finalText(final)},` +
    `"transactions":[${transactions.join(',')}],"receipts":[${receipts.join(',')}],` +
    `"before":${hexText(hashOfBefore(diff))},"accounts":[${diff.map(accountText).join(',')}]}`
  )
}

/** Without what follows from its place in the block, from the transaction and from the logs. */
const receiptText = (receipt: Receipt): string =>
  `{"type":${quantityText(receipt.type)},` +
  (receipt.root === undefined
    ? `"status":${quantityText(receipt.status)},`
    : `"root":${hexText(receipt.root)},`) +
  `"cumulativeGasUsed":${quantityText(receipt.cumulativeGasUsed)},"gasUsed":${quantityText(receipt.gasUsed)},` +
  `"effectiveGasPrice":${quantityText(receipt.effectiveGasPrice)},` +
  `"contractAddress":${receipt.contractAddress === undefined ? null : hexText(receipt.contractAddress)},` +
  `"logs":[${receipt.logs.map(logText).join(',')}]` +
  (receipt.l1 === undefined ? member('blobGasUsed', receipt.blobGasUsed) : '') +
  member('blobGasPrice', receipt.blobGasPrice) +
  member('depositNonce', receipt.depositNonce) +
  member('depositReceiptVersion', receipt.depositReceiptVersion) +
  `${receipt.l1 === undefined ? '' : l1Members(receipt.l1)}${refundMember(receipt)}}`

const logText = ({ address, topics, data }: Receipt['logs'][number]): string =>
  `{"address":${hexText(address)},"topics":[${topics.map((topic) => hexText(topic)).join(',')}],"data":${hexText(data)}}`

const accountText = ({ address, after, slots, code }: AccountChange): string =>
  `{"address":${hexText(address)},` +
  (after === undefined
    ? '"account":null'
    : `"account":{"nonce":${quantityText(after.nonce)},"balance":${quantityText(after.balance)},"codeHash":${hexText(after.codeHash)}}`) +
  `,"code":${after === undefined || code === undefined ? null : hexText(code)},"slots":[${slots.map(slotText).join(',')}]}`

const slotText = ({ key, after }: SlotChange): string => `[${hexText(key)},${hexText(after)}]`
