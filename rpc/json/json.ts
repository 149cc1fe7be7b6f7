/**
 * Blocks, transactions, receipts and logs as JSON text, with go-ethereum's keys and the fields that
 * OP chains add.
 */
import type { Block } from '../../engine/chain/types.ts'
import type { SimulatedBlock } from '../../engine/execution/call/simulate.ts'
import type { SimulatedLog } from '../../engine/execution/call/simulate-logs.ts'
import { type BlockTail, tailBytes, type Withdrawal } from '../../engine/primitives/block-codec.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { encodeHeader, type Header, hashHeader } from '../../engine/primitives/header.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { L1Fee, Log, Receipt } from '../../engine/primitives/receipt.ts'
import {
  type AccessList,
  isSigned,
  type PostExecTransaction,
  type SignedTransaction,
  type Transaction,
} from '../../engine/primitives/transaction.ts'
import { hexText, quantityText } from './codecs.ts'

/** Parts of a block that its JSON needs, also when no view has the block any more. */
export type TextBlock = Pick<
  Block,
  | 'number'
  | 'hash'
  | 'header'
  | 'tail'
  | 'transaction'
  | 'transactions'
  | 'transactionHashes'
  | 'receipt'
  | 'firstLogIndex'
>

/** JSON members about the block that its transactions and logs share. */
type BlockFields = {
  readonly blockHash: string
  readonly blockNumber: string
  readonly blockTimestamp: string
  readonly baseFee: bigint | undefined
}
const blockFieldsOf = (block: Pick<Block, 'hash' | 'number' | 'header'>): BlockFields => ({
  blockHash: hexText(block.hash),
  blockNumber: quantityText(block.number),
  blockTimestamp: quantityText(block.header.timestamp),
  baseFee: block.header.baseFeePerGas,
})

const nullable = (bytes: Bytes | undefined): string =>
  bytes === undefined ? 'null' : hexText(bytes)
const list = (texts: readonly string[]): string => `[${texts.join(',')}]`
export const member = (name: string, value: bigint | undefined): string =>
  value === undefined ? '' : `,"${name}":${quantityText(value)}`
const bytesMember = (name: string, value: Bytes | undefined): string =>
  value === undefined ? '' : `,"${name}":${hexText(value)}`

/** Members of a header, without braces. */
function headerMembers(header: Header, hash: Bytes): string {
  return (
    `"number":${quantityText(header.number)},"hash":${hexText(hash)},` +
    `"parentHash":${hexText(header.parentHash)},"nonce":${hexText(header.nonce)},` +
    `"mixHash":${hexText(header.mixHash)},"sha3Uncles":${hexText(header.ommersHash)},` +
    `"logsBloom":${hexText(header.logsBloom)},"stateRoot":${hexText(header.stateRoot)},` +
    `"miner":${hexText(header.coinbase)},"difficulty":${quantityText(header.difficulty)},` +
    `"extraData":${hexText(header.extraData)},"gasLimit":${quantityText(header.gasLimit)},` +
    `"gasUsed":${quantityText(header.gasUsed)},"timestamp":${quantityText(header.timestamp)},` +
    `"transactionsRoot":${hexText(header.transactionsRoot)},` +
    `"receiptsRoot":${hexText(header.receiptsRoot)}` +
    member('baseFeePerGas', header.baseFeePerGas) +
    bytesMember('withdrawalsRoot', header.withdrawalsRoot) +
    member('blobGasUsed', header.blobGasUsed) +
    member('excessBlobGas', header.excessBlobGas) +
    bytesMember('parentBeaconBlockRoot', header.parentBeaconBlockRoot) +
    bytesMember('requestsHash', header.requestsHash) +
    bytesMember('blockAccessListHash', header.blockAccessListHash) +
    member('slotNumber', header.slotNumber)
  )
}

export const headerText = (header: Header, hash: Bytes): string =>
  `{${headerMembers(header, hash)}}`

/** JSON of a header with the size of its block, for header requests. */
export const sizedHeaderText = (
  block: Pick<Block, 'header' | 'hash' | 'transactions' | 'tail'>,
): string =>
  `{${headerMembers(block.header, block.hash)},"size":${quantityText(blockSize(block, block.tail()))}}`

/**
 * Builds the JSON of a block.
 * @param isFull transactions as objects instead of hashes
 */
export function blockText(block: TextBlock, isFull: boolean): string {
  const transactions = isFull
    ? transactionTexts(block)
    : block.transactionHashes().map((one) => hexText(one))
  return `{${blockMembers(block, transactions)}}`
}

/**
 * Builds the JSON of a simulated block.
 * @param more further members as JSON
 */
export function simulatedBlockText(block: SimulatedBlock, isFull: boolean, more: string): string {
  const { header, transactions } = block
  const blockFields = blockFieldsOf({ ...block, number: header.number })
  const texts = isFull
    ? transactions.map((one, index) => signedText(one, { blockFields, index }))
    : transactions.map((one) => hexText(one.hash))
  const tail = { ommers: [], withdrawals: block.withdrawals }
  const parts = { ...block, tail: () => tail, transactions: () => transactions }
  return `{${blockMembers(parts, texts)},${more}}`
}

function blockMembers(
  block: Pick<Block, 'header' | 'hash' | 'tail' | 'transactions'>,
  transactions: readonly string[],
): string {
  const { header, hash } = block
  const tail = block.tail()
  const uncles = tail.ommers.map((ommer) => hexText(hashHeader(ommer)))
  const withdrawals = (tail.withdrawals ?? []).map(withdrawalText)
  return (
    `${headerMembers(header, hash)},"size":${quantityText(blockSize(block, tail))},` +
    `"transactions":${list(transactions)},"uncles":${list(uncles)}` +
    `${header.withdrawalsRoot === undefined ? '' : `,"withdrawals":${list(withdrawals)}`}`
  )
}

const withdrawalText = ({ index, validatorIndex, address, amount }: Withdrawal): string =>
  `{"index":${quantityText(index)},"validatorIndex":${quantityText(validatorIndex)},` +
  `"address":${hexText(address)},"amount":${quantityText(amount)}}`

/** Size of the block's RLP: header, transactions, uncles and, since Shanghai, withdrawals. */
function blockSize(block: Pick<Block, 'header' | 'transactions'>, tail: BlockTail): number {
  const { header } = block
  let transactions = 0
  for (const { raw, type } of block.transactions())
    transactions += type === 0 ? raw.length : raw.length + prefixBytes(raw.length)
  const { withdrawals = header.withdrawalsRoot === undefined ? undefined : [] } = tail
  const content =
    encodeHeader(header).length +
    prefixBytes(transactions) +
    transactions +
    tailBytes({ ommers: tail.ommers, withdrawals })
  return prefixBytes(content) + content
}
/** Size of the RLP prefix of a list, or of a string of two bytes and more. */
function prefixBytes(length: number): number {
  if (length < 56) return 1
  return 1 + Math.ceil(length.toString(16).length / 2)
}

function transactionTexts(block: TextBlock): string[] {
  const blockFields = blockFieldsOf(block)
  return block
    .transactions()
    .map((transaction, index) => minedText(transaction, { block, blockFields, index }))
}

/** Builds the JSON of a transaction; undefined when the block does not have it. */
export function transactionAt(block: TextBlock, index: number): string | undefined {
  const transaction = block.transaction(index)
  if (transaction === undefined) return undefined
  return minedText(transaction, { block, blockFields: blockFieldsOf(block), index })
}

/** Builds the JSON of a transaction in the txpool; its block fields are null. */
export function pooledText(transaction: SignedTransaction): string {
  const price = 'gasPrice' in transaction ? transaction.gasPrice : transaction.maxFeePerGas
  return `{"blockHash":null,"blockNumber":null,"blockTimestamp":null,"transactionIndex":null,${commonMembers(transaction)},"gasPrice":${quantityText(price)},${signedMembers(transaction)}}`
}

function minedText(
  transaction: Transaction,
  at: { readonly block: TextBlock; readonly blockFields: BlockFields; readonly index: number },
): string {
  if (isSigned(transaction)) return signedText(transaction, at)
  if (transaction.type === 0x7d) return postExecText(transaction, at)
  const start = minedStart(transaction, at)
  const receipt = at.block.receipt(at.index)
  return (
    `${start},"gasPrice":"0x0","nonce":${quantityText(receipt?.depositNonce ?? 0n)},` +
    `"sourceHash":${hexText(transaction.sourceHash)},"mint":${quantityText(transaction.mint)}` +
    `${transaction.isSystemTransaction ? ',"isSystemTx":true' : ''}` +
    `${member('depositReceiptVersion', receipt?.depositReceiptVersion)},"v":"0x0","r":"0x0","s":"0x0"}`
  )
}

const minedStart = (transaction: Transaction, at: MinedAt): string =>
  `${locationStart(at)},${commonMembers(transaction)}`
const locationStart = ({ blockFields, index }: MinedAt): string =>
  `{"blockHash":${blockFields.blockHash},"blockNumber":${blockFields.blockNumber},"blockTimestamp":${blockFields.blockTimestamp},` +
  `"transactionIndex":${quantityText(index)}`
/**
 * Fields without a meaning for this type are left out (specs.optimism.io: Lagoon, Post-Execution
 * Transactions).
 */
const postExecText = (
  { hash, type, from, value, gasLimit, input }: PostExecTransaction,
  at: MinedAt,
): string =>
  `${locationStart(at)},"hash":${hexText(hash)},"type":${quantityText(type)},"from":${hexText(from)},` +
  `"value":${quantityText(value)},"gas":${quantityText(gasLimit)},"input":${hexText(input)}}`
const signedText = (transaction: SignedTransaction, at: MinedAt): string =>
  `${minedStart(transaction, at)},"gasPrice":${quantityText(effectivePrice(transaction, at.blockFields.baseFee))},${signedMembers(transaction)}}`
type MinedAt = { readonly blockFields: BlockFields; readonly index: number }

/** Returns the price per gas in a block with this base fee. */
function effectivePrice(transaction: SignedTransaction, baseFee: bigint | undefined): bigint {
  if ('gasPrice' in transaction) return transaction.gasPrice
  const { maxFeePerGas, maxPriorityFeePerGas } = transaction
  const price = (baseFee ?? 0n) + maxPriorityFeePerGas
  return price < maxFeePerGas ? price : maxFeePerGas
}

function commonMembers(transaction: Transaction): string {
  const { from, gasLimit, hash, input, to, value, type } = transaction
  return (
    `"hash":${hexText(hash)},"type":${quantityText(type)},"from":${hexText(from)},"to":${nullable(to)},` +
    `"value":${quantityText(value)},"gas":${quantityText(gasLimit)},"input":${hexText(input)}`
  )
}

function signedMembers(transaction: SignedTransaction): string {
  const { nonce, v, r, s } = transaction
  const chainId = transaction.chainId === undefined ? '' : member('chainId', transaction.chainId)
  const signature = `"v":${quantityText(v)},"r":${quantityText(r)},"s":${quantityText(s)}`
  if (transaction.type === 0) return `"nonce":${quantityText(nonce)}${chainId},${signature}`
  return (
    `"nonce":${quantityText(nonce)}${chainId},"accessList":${accessListText(transaction.accessList)}` +
    `${feeMembers(transaction)},${signature},"yParity":${quantityText(v)}`
  )
}

function feeMembers(transaction: Exclude<SignedTransaction, { type: 0 }>): string {
  if (transaction.type === 1) return ''
  const fees =
    member('maxFeePerGas', transaction.maxFeePerGas) +
    member('maxPriorityFeePerGas', transaction.maxPriorityFeePerGas)
  if (transaction.type === 3) {
    const hashes = list(transaction.blobVersionedHashes.map((one) => hexText(one)))
    return `${fees}${member('maxFeePerBlobGas', transaction.maxFeePerBlobGas)},"blobVersionedHashes":${hashes}`
  }
  if (transaction.type === 2) return fees
  const authorizations = transaction.authorizationList.map(
    ({ chainId, address, nonce, yParity, r, s }) =>
      `{"chainId":${quantityText(chainId)},"address":${hexText(address)},"nonce":${quantityText(nonce)},` +
      `"yParity":${quantityText(yParity)},"r":${quantityText(r)},"s":${quantityText(s)}}`,
  )
  return `${fees},"authorizationList":${list(authorizations)}`
}

export function accessListText(accessList: AccessList): string {
  return list(
    accessList.map(({ address, storageKeys }) => {
      const keys = list(storageKeys.map((key) => hexText(key)))
      return `{"address":${hexText(address)},"storageKeys":${keys}}`
    }),
  )
}

/** Builds the JSON of a receipt; undefined when the block does not have it. */
export function receiptAt(block: TextBlock, index: number): string | undefined {
  const transaction = block.transaction(index)
  const receipt = block.receipt(index)
  if (transaction === undefined || receipt === undefined) return undefined
  const at = { blockFields: blockFieldsOf(block), index, firstLog: block.firstLogIndex(index) }
  return receiptText(transaction, receipt, at)
}

export function receiptsText(block: Block): string {
  const blockFields = blockFieldsOf(block)
  const transactions = block.transactions()
  let firstLog = 0
  return list(
    block.receipts().map((receipt, index) => {
      const text = receiptText(transactions[index]!, receipt, { blockFields, index, firstLog })
      firstLog += receipt.logs.length
      return text
    }),
  )
}

function receiptText(
  transaction: Transaction,
  receipt: Receipt,
  at: { readonly blockFields: BlockFields; readonly index: number; readonly firstLog: number },
): string {
  const { blockFields, index, firstLog } = at
  const hash = hexText(transaction.hash)
  const logs = receipt.logs.map((log, position) =>
    logMembers(log, { blockFields, index, hash, logIndex: firstLog + position, isRemoved: false }),
  )
  const blobs = receipt.l1 === undefined ? member('blobGasUsed', receipt.blobGasUsed) : ''
  return (
    `{"type":${quantityText(receipt.type)},` +
    (receipt.root === undefined
      ? `"status":${quantityText(receipt.status)},`
      : `"root":${hexText(receipt.root)},`) +
    `"cumulativeGasUsed":${quantityText(receipt.cumulativeGasUsed)},"logs":${list(logs)},` +
    `"logsBloom":${hexText(receipt.logsBloom)},"transactionHash":${hash},"transactionIndex":${quantityText(index)},` +
    `"blockHash":${blockFields.blockHash},"blockNumber":${blockFields.blockNumber},"gasUsed":${quantityText(receipt.gasUsed)},` +
    `"effectiveGasPrice":${quantityText(receipt.effectiveGasPrice)},"from":${hexText(transaction.from)},` +
    `"to":${nullable(transaction.to)},"contractAddress":${nullable(receipt.contractAddress)}` +
    `${blobs}${member('blobGasPrice', receipt.blobGasPrice)}` +
    `${member('depositNonce', receipt.depositNonce)}${member('depositReceiptVersion', receipt.depositReceiptVersion)}` +
    `${receipt.l1 === undefined ? '' : l1Members(receipt.l1)}${refundMember(receipt)}}`
  )
}

/** Builds the receipt field `opGasRefund`: absent before Lagoon, null without a refund. */
export function refundMember({ gasRefund }: Receipt): string {
  if (gasRefund === undefined) return ''
  return gasRefund === 0n ? ',"opGasRefund":null' : member('opGasRefund', gasRefund)
}

export function l1Members(fee: L1Fee): string {
  const isOperatorFree = !fee.operatorFeeScalar && !fee.operatorFeeConstant
  return (
    member('l1GasPrice', fee.l1GasPrice) +
    member('l1GasUsed', fee.l1GasUsed) +
    member('l1Fee', fee.l1Fee) +
    member('l1BaseFeeScalar', fee.l1BaseFeeScalar) +
    member('l1BlobBaseFee', fee.l1BlobBaseFee) +
    member('l1BlobBaseFeeScalar', fee.l1BlobBaseFeeScalar) +
    (fee.l1FeeScalar === undefined ? '' : `,"l1FeeScalar":"${fee.l1FeeScalar}"`) +
    (isOperatorFree ? '' : member('operatorFeeScalar', fee.operatorFeeScalar ?? 0n)) +
    (isOperatorFree ? '' : member('operatorFeeConstant', fee.operatorFeeConstant ?? 0n)) +
    member('daFootprintGasScalar', fee.daFootprintGasScalar) +
    member('blobGasUsed', fee.blobGasUsed)
  )
}

/** Builds the JSON of a log; `logIndex` counts through the block. */
export function logText(
  log: Log,
  at: {
    readonly block: Pick<Block, 'number' | 'hash' | 'header'>
    readonly transactionHash: Bytes
    readonly index: number
    readonly logIndex: number
  },
  isRemoved = false,
): string {
  const { block, transactionHash, index, logIndex } = at
  return logMembers(log, {
    blockFields: blockFieldsOf(block),
    index,
    hash: hexText(transactionHash),
    logIndex,
    isRemoved,
  })
}

/** Builds the JSON of a log of the call at `index`. */
export function simulatedLogText(block: SimulatedBlock, log: SimulatedLog, index: number): string {
  const blockFields = blockFieldsOf({ ...block, number: block.header.number })
  const hash = hexText(block.transactions[index]!.hash)
  return logMembers(log, { blockFields, index, hash, logIndex: log.index, isRemoved: false })
}

function logMembers(
  log: Log,
  at: {
    readonly blockFields: BlockFields
    readonly index: number
    readonly hash: string
    readonly logIndex: number
    readonly isRemoved: boolean
  },
): string {
  const { blockFields, index, hash, logIndex, isRemoved } = at
  return (
    `{"address":${hexText(log.address)},"topics":${list(log.topics.map((topic) => hexText(topic)))},` +
    `"data":${hexText(log.data)},"blockNumber":${blockFields.blockNumber},"transactionHash":${hash},` +
    `"transactionIndex":${quantityText(index)},"blockHash":${blockFields.blockHash},` +
    `"blockTimestamp":${blockFields.blockTimestamp},"logIndex":${quantityText(logIndex)},"removed":${isRemoved}}`
  )
}

/** Builds the JSON list of block or transaction hashes. */
export const hashesText = (hashes: readonly Bytes[]): string =>
  list(hashes.map((hash) => `"${bytesToHex(hash)}"`))
