/** Which flashblocks are the same one, in whatever form, with whatever hashes and metadata they came. */
import type { Bytes } from '../primitives/bytes.ts'
import { equalBytes } from '../primitives/words.ts'
import type { Flashblock, FlashblockBase } from './types.ts'

/** Compares what execution needs and what it must come to: no hash and no root of a state, because subblocks state none. */
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

/** OP's sequencers send these: neither an End nor a target index tells how many a block has. */
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
