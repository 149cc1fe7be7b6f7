/**
 * JSON of a chain snapshot for /feed?enrich=1 (ADR 41). Any change here also changes the
 * documentation and the version.
 */

import type { Bytes } from '../../engine/primitives/bytes.ts'
import { decodeHeader } from '../../engine/primitives/header.ts'
import type { Receipt } from '../../engine/primitives/receipt.ts'
import { decodeStoredReceipt } from '../../engine/primitives/receipt-codec.ts'
import type {
  BlockRef,
  Changes,
  EncodedFlashblock,
  EncodedHeader,
} from '../../engine/sources/writer/changes.ts'
import type { AccountChange, SlotChange } from '../../engine/state/diff.ts'
import { decodeDiff } from '../../engine/state/diff-codec.ts'
import { hexText, quantityText } from '../json/codecs.ts'
import { headerText, l1Members, member, refundMember } from '../json/json.ts'
import { hashOfBefore } from './before.ts'

export const ENRICHED_VERSION = 2

/** Identity of a message: numbers increase by one within a run of the node. */
export type Stamp = { readonly run: string; readonly seq: number }

export const changesText = (
  { isStart, removed, flashblocks, headers, heads }: Changes,
  { run, seq }: Stamp,
): string =>
  `{"enriched":${ENRICHED_VERSION},"run":"${run}","seq":${seq},"snapshot":${isStart},` +
  `"removed":${removed === undefined ? null : removedText(removed)},` +
  `"headers":[${headers.map(finalText).join(',')}],` +
  `"flashblocks":[${flashblocks.map(flashblockText).join(',')}],` +
  `"heads":{"canonical":${blockText(heads.canonical)},"complete":${blockText(heads.complete)},` +
  `"pending":${blockText(heads.pending, `,"index":${heads.pending.index ?? null}`)},` +
  `"safe":${heads.safe},"finalized":${heads.finalized}}}`

/** Estimates the bytes of the text without building it. */
export function changesSize({ flashblocks, headers }: Changes): number {
  let bytes = MESSAGE_BYTES + headers.length * HEADER_BYTES
  for (const flashblock of flashblocks) {
    const accounts = new DataView(
      flashblock.bytes.buffer,
      flashblock.bytes.byteOffset + flashblock.ends[1]!,
    ).getUint32(0)
    bytes += HEADER_BYTES + 2.1 * flashblock.bytes.length
    bytes += flashblock.transactions * TRANSACTION_BYTES + accounts * ACCOUNT_BYTES
  }
  return Math.ceil(bytes)
}
const MESSAGE_BYTES = 600
const HEADER_BYTES = 1_800
const TRANSACTION_BYTES = 400
const ACCOUNT_BYTES = 150

const removedText = ({ above, blocks }: NonNullable<Changes['removed']>): string =>
  `{"above":${above},"blocks":[${blocks.map((block) => blockText(block)).join(',')}]}`

const blockText = ({ number, hash, payloadId }: BlockRef, more = ''): string =>
  `{"number":${number},"hash":"${hash}","payload_id":${payloadId === undefined ? null : `"${payloadId}"`}${more}}`

const finalText = ({ header, hash }: EncodedHeader): string =>
  headerText(decodeHeader(header), hash)

/** `final` is the final header of the block, on its last flashblock. */
export type VisibleFlashblock = EncodedFlashblock & { readonly final?: EncodedHeader | undefined }

/** Members that identify a flashblock. */
const aboutText = ({ number, index, payloadId, isFinal, final }: VisibleFlashblock): string =>
  `"number":${number},"index":${index},"payload_id":${payloadId === undefined ? null : `"${payloadId}"`},` +
  `"final":${isFinal || final !== undefined}`

function flashblockText(flashblock: VisibleFlashblock): string {
  const { final } = flashblock
  const piece = (at: number): Bytes =>
    flashblock.bytes.subarray(at === 0 ? 0 : flashblock.ends[at - 1]!, flashblock.ends[at]!)
  const diff = decodeDiff(piece(2))
  const transactions: string[] = []
  const receipts: string[] = []
  for (let at = 3; at < flashblock.ends.length; at += 4) {
    transactions.push(
      `{"hash":${hexText(piece(at + 2))},"from":${hexText(piece(at + 1))},"raw":${hexText(piece(at))}}`,
    )
    receipts.push(receiptText(decodeStoredReceipt(piece(at + 3))))
  }
  return (
    `{${aboutText(flashblock)},"header":${final === undefined ? headerText(decodeHeader(piece(0)), piece(1)) : finalText(final)},` +
    `"transactions":[${transactions.join(',')}],"receipts":[${receipts.join(',')}],` +
    `"before":${hexText(hashOfBefore(diff))},"accounts":[${diff.map(accountText).join(',')}]}`
  )
}

/** Receipt without the fields that follow from its index, its transaction and its logs. */
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
