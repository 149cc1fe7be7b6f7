/** One flashblock as subscribers are told of it: what it added to its block, and the JSON of it, each made once for all who get it. */
import type { BlockTail } from '../../engine/primitives/block-codec.ts'
import type { Bytes, Hex } from '../../engine/primitives/bytes.ts'
import type { Header } from '../../engine/primitives/header.ts'
import { bytesToHex } from '../../engine/primitives/hex.ts'
import type { Log, Receipt } from '../../engine/primitives/receipt.ts'
import type { Transaction } from '../../engine/primitives/transaction.ts'
import {
  blockText,
  logText,
  receiptAt,
  sizedHeaderText,
  type TextBlock,
  transactionAt,
} from '../json/json.ts'
import { type HexLog, removedText } from './log-filter.ts'

/** Transactions of a block so far, which its flashblocks share: they only grow. */
export type Contents = {
  readonly transactions: Transaction[]
  readonly receipts: Receipt[]
  /** Index in the block of each one's first log. */
  readonly firstLogs: number[]
}
export type FlashblockFields = {
  /** Counts through the feed. */
  readonly sequence: number
  readonly number: bigint
  readonly index: number
  /** 0x + 16 hex digits; undefined: its block came without a feed. */
  readonly payloadId: string | undefined
  /** Momentary, of the block up to here. */
  readonly hash: Bytes
  readonly header: Header
  readonly tail: BlockTail
  readonly contents: Contents
  /** Its transactions are those of the block from `first` up to `end`, without it. */
  readonly first: number
  readonly end: number
}
/** A log to match by; its JSON is made when somebody wants it. */
export type ToldLog = HexLog & {
  readonly bytes: Bytes
  /** As it is told when its place is gone. */
  readonly removed: Bytes
}

/** JSON is ASCII here (rpc/json): a byte for each character. */
export const encoded = (text: string): Bytes => Buffer.from(text, 'latin1')

export class Flashblock implements TextBlock {
  readonly sequence: number
  readonly number: bigint
  readonly index: number
  readonly payloadId: string | undefined
  readonly hash: Bytes
  readonly header: Header
  readonly first: number
  readonly end: number
  /** About what it holds in memory. */
  readonly bytes: number
  readonly #tail: BlockTail
  readonly #contents: Contents
  readonly #results = new Map<string, Bytes>()
  readonly #logs = new Map<number, readonly ToldLog[]>()
  readonly #addresses = new Map<number, ReadonlySet<Hex>>()

  constructor(fields: FlashblockFields) {
    this.sequence = fields.sequence
    this.number = fields.number
    this.index = fields.index
    this.payloadId = fields.payloadId
    this.hash = fields.hash
    this.header = fields.header
    this.first = fields.first
    this.end = fields.end
    this.#tail = fields.tail
    this.#contents = fields.contents
    this.bytes = HEADER_BYTES
    for (let at = this.first; at < this.end; at++)
      this.bytes += bytesOf(this.transaction(at)!, this.receipt(at)!)
  }

  transaction(index: number): Transaction | undefined {
    return index < this.end ? this.#contents.transactions[index] : undefined
  }
  receipt(index: number): Receipt | undefined {
    return index < this.end ? this.#contents.receipts[index] : undefined
  }
  firstLogIndex(index: number): number {
    return this.#contents.firstLogs[index]!
  }
  transactions(): readonly Transaction[] {
    return this.#contents.transactions.slice(0, this.end)
  }
  transactionHashes(): readonly Bytes[] {
    return this.transactions().map(({ hash }) => hash)
  }
  tail(): BlockTail {
    return this.#tail
  }

  /** Sender, recipient and those that emitted a log of transaction `index`. */
  addresses(index: number): ReadonlySet<Hex> {
    const known = this.#addresses.get(index)
    if (known !== undefined) return known
    const { from, to } = this.transaction(index)!
    const addresses = new Set([bytesToHex(from)])
    if (to !== undefined) addresses.add(bytesToHex(to))
    for (const { address } of this.receipt(index)!.logs) addresses.add(bytesToHex(address))
    this.#addresses.set(index, addresses)
    return addresses
  }

  logs(index: number): readonly ToldLog[] {
    const known = this.#logs.get(index)
    if (known !== undefined) return known
    const { hash } = this.transaction(index)!
    const first = this.firstLogIndex(index)
    const logs = this.receipt(index)!.logs.map((log, at) => {
      const place = { block: this, transactionHash: hash, index, logIndex: first + at }
      return toldLog(log, () => logText(log, place))
    })
    this.#logs.set(index, logs)
    return logs
  }

  /** JSON of the transaction's hash. */
  hashResult(index: number): Bytes {
    return this.result(`hash ${index}`, () => `"${bytesToHex(this.transaction(index)!.hash)}"`)
  }
  /** The transaction with its logs beside its own members. */
  transactionResult(index: number): Bytes {
    return this.result(`transaction ${index}`, () => {
      const logs = this.logs(index).map(({ text }) => text)
      return `${transactionAt(this, index)!.slice(0, -1)},"logs":[${logs.join(',')}]}`
    })
  }
  receiptText(index: number): string {
    return receiptAt(this, index)!
  }
  /** The block so far, transactions whole. */
  blockResult(): Bytes {
    return this.result('block', () => blockText(this, true))
  }
  /** The header so far, as X Layer's event. */
  headerEvent(): Bytes {
    return this.result('header', () => `{"type":"header","header":${sizedHeaderText(this)}}`)
  }
  /** A transaction as X Layer's event. */
  transactionEvent(index: number, shows: { readonly info: boolean; readonly receipt: boolean }) {
    return this.result(`event ${index} ${shows.info} ${shows.receipt}`, () => {
      const hash = `"txHash":"${bytesToHex(this.transaction(index)!.hash)}"`
      const info = shows.info ? `,"txData":${transactionAt(this, index)}` : ''
      const receipt = shows.receipt ? `,"receipt":${this.receiptText(index)}` : ''
      return `{"type":"transaction","transaction":{${hash}${info}${receipt}}}`
    })
  }

  /** JSON made once, until `forget`. @param name tells it from others of this flashblock */
  result(name: string, make: () => string): Bytes {
    const known = this.#results.get(name)
    if (known !== undefined) return known
    const made = encoded(make())
    this.#results.set(name, made)
    return made
  }
  /** Everybody has it: JSON is made again should somebody ask for it later. */
  forget(): void {
    this.#results.clear()
    this.#logs.clear()
    this.#addresses.clear()
  }
}

function toldLog({ address, topics }: Log, make: () => string): ToldLog {
  let text: string | undefined
  let bytes: Bytes | undefined
  let removed: Bytes | undefined
  return {
    address: bytesToHex(address),
    topics: topics.map(bytesToHex),
    get text() {
      text ??= make()
      return text
    },
    get bytes() {
      bytes ??= encoded(this.text)
      return bytes
    },
    get removed() {
      removed ??= encoded(removedText(this.text))
      return removed
    },
  }
}

/** Of objects and typed arrays around the bytes of a header, a transaction and a log. */
const HEADER_BYTES = 2_000
const TRANSACTION_BYTES = 1_500
const LOG_BYTES = 500

function bytesOf({ raw }: Transaction, { logs }: Receipt): number {
  const inLogs = logs.reduce((sum, { data }) => sum + LOG_BYTES + data.length, 0)
  // The input stands in the decoded transaction once more.
  return TRANSACTION_BYTES + 2 * raw.length + inLogs
}
