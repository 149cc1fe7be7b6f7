/**
 * Writes logs as JSON to the response. Logs of persisted blocks are written from their stored form,
 * without a string for each.
 */
import { TOPIC_STEP } from '../../engine/chain/log-rows.ts'
import type { FoundLog, LogRow, LogRows, LogSink } from '../../engine/chain/types.ts'
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { TraceOutput } from '../../engine/tracers/types.ts'
import { hexText, quantityText } from './codecs.ts'
import { logText } from './json.ts'

/** Bytes of one write. */
const CHUNK_BYTES = 16_384
/** Space for a log with four topics, before its data. */
const FRONT_BYTES = 512
/** Size from which Node writes hex faster than a loop does (2026-11). */
const LONG_BYTES = 96

export class LogWriter implements LogSink {
  readonly #output: TraceOutput
  readonly #chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  #used = 0
  /** Length of all text, also of text that did not fit into the output. */
  length = 0
  #isFirst = true
  /** JSON members of the last row's block and transaction, for reuse. */
  #rows: LogRows | undefined
  #transaction = -1
  #ofBlock = ''
  #ofTransaction = ''

  constructor(output: TraceOutput) {
    this.#output = output
    this.#text('[')
  }

  add({ log, block, transactionHash, transactionIndex, logIndex }: FoundLog): void {
    const at = { block, transactionHash, index: transactionIndex, logIndex }
    this.#text(this.#isFirst ? logText(log, at) : `,${logText(log, at)}`)
    this.#isFirst = false
  }

  addRow(rows: LogRows, row: LogRow): void {
    this.#enter(rows, row)
    const { packed } = rows
    this.#capacity(FRONT_BYTES)
    if (!this.#isFirst) this.#ascii(COMMA)
    this.#isFirst = false
    this.#ascii(ADDRESS)
    this.#hex(packed, row.address, row.address + 20)
    this.#ascii(TOPICS)
    for (let topic = 0; topic < row.topicCount; topic++) {
      this.#ascii(topic === 0 ? TOPIC : NEXT_TOPIC)
      const at = row.topics + topic * TOPIC_STEP
      this.#hex(packed, at, at + 32)
      this.#ascii(QUOTE)
    }
    this.#ascii(DATA)
    this.#data(packed, row)
    this.#text(`${this.#ofTransaction}${row.logIndex.toString(16)}","removed":false}`)
  }

  /** Ends the list; nothing may be written afterwards. */
  end(): void {
    this.#text(']')
    this.#flush()
  }

  #enter(rows: LogRows, { transactionHash, transactionIndex }: LogRow): void {
    const isSameBlock = rows === this.#rows
    if (isSameBlock && transactionHash === this.#transaction) return
    if (!isSameBlock) {
      this.#rows = rows
      this.#ofBlock = `"blockHash":${hexText(rows.hash)},"blockTimestamp":${quantityText(rows.timestamp)},"logIndex":"0x`
    }
    this.#transaction = transactionHash
    const hash = hexText(rows.packed.subarray(transactionHash, transactionHash + 32))
    this.#ofTransaction = `","blockNumber":${quantityText(rows.number)},"transactionHash":${hash},"transactionIndex":${quantityText(transactionIndex)},${this.#ofBlock}`
  }

  #data(packed: Bytes, { data, dataEnd }: LogRow): void {
    for (let at = data; at < dataEnd; at += CHUNK_BYTES / 4) {
      const end = Math.min(dataEnd, at + CHUNK_BYTES / 4)
      this.#capacity(2 * (end - at))
      if (end - at < LONG_BYTES) this.#hex(packed, at, end)
      else this.#text(Buffer.from(packed.buffer, packed.byteOffset + at, end - at).toString('hex'))
    }
  }

  /** The caller has reserved the space. */
  #hex(bytes: Bytes, from: number, to: number): void {
    const chunk = this.#chunk
    let used = this.#used
    for (let at = from; at < to; at++) {
      const byte = bytes[at]!
      chunk[used++] = DIGITS[byte >> 4]!
      chunk[used++] = DIGITS[byte & 15]!
    }
    this.#used = used
  }
  /** The caller has reserved the space. */
  #ascii(text: Bytes): void {
    const chunk = this.#chunk
    for (let at = 0; at < text.length; at++) chunk[this.#used++] = text[at]!
  }
  #text(text: string): void {
    if (text.length > CHUNK_BYTES) {
      this.#flush()
      this.length += text.length
      this.#output.write(text)
      return
    }
    this.#capacity(text.length)
    this.#used += this.#chunk.write(text, this.#used, 'latin1')
  }
  #capacity(bytes: number): void {
    if (this.#used + bytes > CHUNK_BYTES) this.#flush()
  }
  #flush(): void {
    this.length += this.#used
    this.#output.writeBytes(this.#chunk.subarray(0, this.#used))
    this.#used = 0
  }
}

const asciiOf = (text: string): Bytes => Uint8Array.from(Buffer.from(text, 'latin1'))
const COMMA = asciiOf(',')
const ADDRESS = asciiOf('{"address":"0x')
const TOPICS = asciiOf('","topics":[')
const TOPIC = asciiOf('"0x')
const NEXT_TOPIC = asciiOf(',"0x')
const QUOTE = asciiOf('"')
const DATA = asciiOf('],"data":"0x')
const DIGITS = asciiOf('0123456789abcdef')
