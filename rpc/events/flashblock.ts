/**
 * A flashblock for subscribers: its additions to the block, and their JSON. Each JSON text is made
 * once for all subscribers.
 */
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

/** Transactions of a partial block. The lists only grow, because all its flashblocks share them. */
export type Contents = {
  readonly transactions: Transaction[]
  readonly receipts: Receipt[]
  /** Index in the block of each transaction's first log. */
  readonly firstLogs: number[]
}
export type FlashblockFields = {
  /** Sequence number in the feed. */
  readonly sequence: number
  readonly number: bigint
  readonly index: number
  /** 0x and 16 hex digits; undefined: the block came without flashblocks. */
  readonly payloadId: string | undefined
  /** Partial hash of the block up to this flashblock. */
  readonly hash: Bytes
  readonly header: Header
  readonly tail: BlockTail
  readonly contents: Contents
  /** Range of its transactions in the block, from `first` to `end` (exclusive). */
  readonly first: number
  readonly end: number
}
/** A log for matching. Its JSON is made on demand. */
export type MatchedLog = HexLog & {
  readonly bytes: Bytes
  /** JSON of the log's removal. */
  readonly removed: Bytes
}

/** Encodes JSON, which is ASCII here (rpc/json): one byte per character. */
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
  /** Approximate memory in bytes. */
  readonly bytes: number
  readonly #tail: BlockTail
  readonly #contents: Contents
  readonly #results = new Map<string, Bytes>()
  readonly #logs = new Map<number, readonly MatchedLog[]>()
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

  /** Returns the sender, the recipient and the log addresses of transaction `index`. */
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

  logs(index: number): readonly MatchedLog[] {
    const known = this.#logs.get(index)
    if (known !== undefined) return known
    const { hash } = this.transaction(index)!
    const first = this.firstLogIndex(index)
    const logs = this.receipt(index)!.logs.map((log, at) => {
      const location = { block: this, transactionHash: hash, index, logIndex: first + at }
      return matchedLog(log, () => logText(log, location))
    })
    this.#logs.set(index, logs)
    return logs
  }

  /** Returns the JSON of a transaction's hash. */
  hashResult(index: number): Bytes {
    return this.result(`hash ${index}`, () => `"${bytesToHex(this.transaction(index)!.hash)}"`)
  }
  /** Returns the JSON of a transaction, with its logs as an additional member. */
  transactionResult(index: number): Bytes {
    return this.result(`transaction ${index}`, () => {
      const logs = this.logs(index).map(({ text }) => text)
      return `${transactionAt(this, index)!.slice(0, -1)},"logs":[${logs.join(',')}]}`
    })
  }
  receiptText(index: number): string {
    return receiptAt(this, index)!
  }
  /** Returns the JSON of the partial block with full transactions. */
  blockResult(): Bytes {
    return this.result('block', () => blockText(this, true))
  }
  /** Returns the partial header as X Layer's event. */
  headerEvent(): Bytes {
    return this.result('header', () => `{"type":"header","header":${sizedHeaderText(this)}}`)
  }
  /** Returns a transaction as X Layer's event. */
  transactionEvent(index: number, includes: { readonly info: boolean; readonly receipt: boolean }) {
    return this.result(`event ${index} ${includes.info} ${includes.receipt}`, () => {
      const hash = `"txHash":"${bytesToHex(this.transaction(index)!.hash)}"`
      const info = includes.info ? `,"txData":${transactionAt(this, index)}` : ''
      const receipt = includes.receipt ? `,"receipt":${this.receiptText(index)}` : ''
      return `{"type":"transaction","transaction":{${hash}${info}${receipt}}}`
    })
  }

  /**
   * Returns a JSON text that is cached until `forget`.
   * @param name key in the cache of this flashblock
   */
  result(name: string, make: () => string): Bytes {
    const known = this.#results.get(name)
    if (known !== undefined) return known
    const made = encoded(make())
    this.#results.set(name, made)
    return made
  }
  /** Drops the caches after all subscribers have been served. A later use makes the JSON again. */
  forget(): void {
    this.#results.clear()
    this.#logs.clear()
    this.#addresses.clear()
  }
}

function matchedLog({ address, topics }: Log, make: () => string): MatchedLog {
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

/**
 * Memory in bytes of the objects and typed arrays around the data of a header, transaction and log.
 */
const HEADER_BYTES = 2_000
const TRANSACTION_BYTES = 1_500
const LOG_BYTES = 500

function bytesOf({ raw }: Transaction, { logs }: Receipt): number {
  const inLogs = logs.reduce((sum, { data }) => sum + LOG_BYTES + data.length, 0)
  // The decoded transaction has a second copy of the input.
  return TRANSACTION_BYTES + 2 * raw.length + inLogs
}
