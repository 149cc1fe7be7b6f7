/**
 * Identity of feed messages: whether two flashblocks are the same, whatever their form, hashes and
 * metadata, and the id of each message. Only index 0 has to name the block of its payload.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { equalBytes } from '../primitives/words.ts'
import type { FeedMessage, FeedMessageId, Flashblock, FlashblockBase } from './types.ts'

/**
 * Compares the input and the results of execution. State roots and block hashes are left out,
 * because subblocks do not have them.
 */
export const isSameFlashblock = (a: Flashblock, b: Flashblock): boolean =>
  a.payloadId === b.payloadId &&
  a.index === b.index &&
  (a.blockNumber ?? b.blockNumber) === (b.blockNumber ?? a.blockNumber) &&
  isSameBase(a.base, b.base) &&
  a.delta.gasUsed === b.delta.gasUsed &&
  a.delta.blobGasUsed === b.delta.blobGasUsed &&
  equalBytes(a.delta.receiptsRoot, b.delta.receiptsRoot) &&
  equalBytes(a.delta.logsBloom, b.delta.logsBloom) &&
  isSameBytes(a.delta.postExec, b.delta.postExec) &&
  areEqual(a.delta.transactions, b.delta.transactions)

/** OP's sequencers send subblocks. Neither an End nor a target index says how many a block has. */
export const isSubblock = ({ delta }: Flashblock): boolean => delta.blockHash === undefined

function isSameBase(a: FlashblockBase | undefined, b: FlashblockBase | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return (
    a.blockNumber === b.blockNumber &&
    a.timestamp === b.timestamp &&
    a.gasLimit === b.gasLimit &&
    a.baseFeePerGas === b.baseFeePerGas &&
    equalBytes(a.parentHash, b.parentHash) &&
    equalBytes(a.parentBeaconBlockRoot, b.parentBeaconBlockRoot) &&
    equalBytes(a.feeRecipient, b.feeRecipient) &&
    equalBytes(a.prevRandao, b.prevRandao) &&
    equalBytes(a.extraData, b.extraData)
  )
}

const isSameBytes = (a: Bytes | undefined, b: Bytes | undefined): boolean =>
  a === undefined || b === undefined ? a === b : equalBytes(a, b)

const areEqual = (a: readonly Bytes[], b: readonly Bytes[]): boolean =>
  a.length === b.length && a.every((bytes, at) => equalBytes(bytes, b[at]!))

/** Number of payloads whose height is remembered. Later messages of older payloads get no id. */
const MAX_PAYLOADS = 16

/**
 * Returns a function that gives each message its id; undefined: no message has named the block of
 * the payload.
 */
export function createMessageIds(): (message: FeedMessage) => FeedMessageId | undefined {
  const numbers = new Map<string, number>()
  return (message) => {
    const { payloadId } = message
    const isFlashblock = message.type === 'flashblock'
    const said = isFlashblock ? (message.base?.blockNumber ?? message.blockNumber) : undefined
    if (said !== undefined && !numbers.has(payloadId)) {
      numbers.set(payloadId, Number(said))
      if (numbers.size > MAX_PAYLOADS) numbers.delete(numbers.keys().next().value!)
    }
    const number = numbers.get(payloadId)
    if (number === undefined) return undefined
    return { number, index: isFlashblock ? message.index : undefined, payloadId }
  }
}

/** Returns `number:index:payload_id` as in `X-Flashblock`; an End has `end` as its index. */
export const messageIdText = ({ number, index, payloadId }: FeedMessageId): string =>
  `${number}:${index ?? 'end'}:${payloadId}`
