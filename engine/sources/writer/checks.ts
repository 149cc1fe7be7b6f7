/** Checks of a block's or flashblock's claims; each names the first field that differs. */
import type { UpstreamBlock } from '../../chain/types.ts'
import { decodeExtraData, ExtraDataError, nextBaseFee } from '../../chainspec/base-fee.ts'
import { L1_ATTRIBUTES_DEPOSITOR, L1_BLOCK } from '../../chainspec/l1-attributes.ts'
import type { ChainSpec, Rules } from '../../chainspec/types.ts'
import { postExecIn } from '../../execution/transaction/post-exec.ts'
import type { BlockAttributes, BlockSums } from '../../execution/transaction/types.ts'
import type { FlashblockDelta } from '../../flashblocks/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { bytesToHex, hexToBytes } from '../../primitives/hex.ts'
import type { PostExecTransaction, Transaction } from '../../primitives/transaction.ts'
import { equalBytes, ZERO_32 } from '../../primitives/words.ts'

/** Kind of an edit of state, which only rules of development chains allow. */
export const EDIT = 'editOfState'

/**
 * Reasons to return a block that may be sent again. Its state cannot be fetched, too many blocks
 * wait, or an earlier block was returned.
 */
export const STATE = 'state'
export const FULL = 'queue'
export const DETACHED = 'parent'

/** Kind of a transaction whose type is unknown here, or not allowed on this chain. */
export const TYPE = 'transactionType'

/** `kind` is one of a small set of names, for counting; `ours` and `theirs` are for people. */
export type Mismatch = { readonly kind: string; readonly ours: string; readonly theirs: string }

export const attributesOfUpstreamBlock = (upstreamBlock: UpstreamBlock): BlockAttributes => ({
  parentHash: upstreamBlock.parentHash,
  parentBeaconBlockRoot: upstreamBlock.parentBeaconBlockRoot,
  coinbase: upstreamBlock.coinbase,
  prevRandao: upstreamBlock.prevRandao,
  number: BigInt(upstreamBlock.number),
  gasLimit: upstreamBlock.gasLimit,
  timestamp: upstreamBlock.timestamp,
  extraData: upstreamBlock.extraData,
  baseFee: upstreamBlock.baseFee,
  postExec: postExecIn(upstreamBlock.transactions.at(-1)),
})

/** Checks attributes, which are constant within a block, against the parent. */
export function checkAttributes(
  chain: ChainSpec,
  parent: { readonly header: Header; readonly hash: Bytes },
  attributes: BlockAttributes,
): Mismatch | undefined {
  const { header } = parent
  const { number, timestamp, baseFee, extraData } = attributes
  return (
    differ('number', header.number + 1n, number) ??
    differ('parentHash', parent.hash, attributes.parentHash) ??
    (timestamp > header.timestamp
      ? undefined
      : mismatch('timestamp', `above ${header.timestamp}`, `${timestamp}`)) ??
    differ('baseFee', nextBaseFee(chain, header, timestamp), baseFee) ??
    checkExtraData(chain.rulesAt(number, timestamp).extraDataVersion, extraData)
  )
}

/** Checks that a block of an OP chain starts with the L1 attributes deposit. */
export function checkFirstTransaction(
  chain: ChainSpec,
  attributes: BlockAttributes,
  first: Transaction | undefined,
): Mismatch | undefined {
  if (!chain.rulesAt(attributes.number, attributes.timestamp).isOptimism) return undefined
  const isDeposit =
    first?.type === 0x7e &&
    first.to !== undefined &&
    equalBytes(first.from, DEPOSITOR) &&
    equalBytes(first.to, ATTRIBUTES_CONTRACT)
  return isDeposit
    ? undefined
    : mismatch('firstTransaction', 'L1 attributes deposit', first ? `type ${first.type}` : 'none')
}

/**
 * Compares sums so far with a flashblock's claims. Gas and receipts are skipped with refunds,
 * because no specification says whether the sums count them.
 */
export function checkDelta(
  sums: BlockSums,
  delta: FlashblockDelta,
  isPlain: boolean,
): Mismatch | undefined {
  const ofRun = isPlain
    ? checkSums(sums, delta)
    : differ('logsBloom', sums.logsBloom, delta.logsBloom)
  return ofRun ?? differKnown('blobGasUsed', sums.blobGasUsed, delta.blobGasUsed)
}

/**
 * Checks that a flashblock's post-exec transaction names this block, and that the fork allows one.
 */
export function checkPostExec(
  { number }: Pick<BlockAttributes, 'number'>,
  { hasPostExec }: Pick<Rules, 'hasPostExec'>,
  postExec: PostExecTransaction | undefined,
): Mismatch | undefined {
  if (postExec === undefined) return undefined
  if (!hasPostExec) return mismatch('postExec', 'none', 'one')
  return differ('postExecNumber', number, postExec.blockNumber)
}

/** Compares the sums of a canonical block, as far as its source gives them, with ours. */
export function checkUpstreamSums(
  sums: BlockSums,
  upstreamBlock: UpstreamBlock,
): Mismatch | undefined {
  return (
    checkSums(sums, upstreamBlock) ??
    differKnown('blobGasUsed', sums.blobGasUsed, upstreamBlock.blobGasUsed)
  )
}

/** Compares the header fields that a source gives, and then the hash, which covers all others. */
export function checkHeader(
  { header, hash }: { readonly header: Header; readonly hash: Bytes },
  upstreamBlock: UpstreamBlock,
): Mismatch | undefined {
  return (
    differKnown('stateRoot', header.stateRoot, upstreamBlock.stateRoot) ??
    differKnown('withdrawalsRoot', header.withdrawalsRoot, upstreamBlock.withdrawalsRoot) ??
    differKnown('blobGasUsed', header.blobGasUsed, upstreamBlock.blobGasUsed) ??
    differKnown('excessBlobGas', header.excessBlobGas, upstreamBlock.excessBlobGas) ??
    differKnown('requestsHash', header.requestsHash, upstreamBlock.requestsHash) ??
    differKnown('hash', hash, upstreamBlock.hash)
  )
}

/** Returns the first attribute in which our block differs from the canonical block. */
export function checkUpstreamAttributes(
  header: Header,
  upstreamBlock: UpstreamBlock,
): Mismatch | undefined {
  return (
    differ('parentHash', header.parentHash, upstreamBlock.parentHash) ??
    differ('timestamp', header.timestamp, upstreamBlock.timestamp) ??
    differ('prevRandao', header.mixHash, upstreamBlock.prevRandao) ??
    differ('coinbase', header.coinbase, upstreamBlock.coinbase) ??
    differ('gasLimit', header.gasLimit, upstreamBlock.gasLimit) ??
    differ('extraData', header.extraData, upstreamBlock.extraData) ??
    differ('baseFee', header.baseFeePerGas ?? 0n, upstreamBlock.baseFee) ??
    differ(
      'beaconRoot',
      header.parentBeaconBlockRoot ?? ZERO_32,
      upstreamBlock.parentBeaconBlockRoot,
    )
  )
}

export function checkSums(
  sums: Pick<BlockSums, 'gasUsed' | 'receiptsRoot' | 'logsBloom'>,
  claimed: Pick<BlockSums, 'gasUsed' | 'receiptsRoot' | 'logsBloom'>,
): Mismatch | undefined {
  return (
    differ('gasUsed', sums.gasUsed, claimed.gasUsed) ??
    differ('receiptsRoot', sums.receiptsRoot, claimed.receiptsRoot) ??
    differ('logsBloom', sums.logsBloom, claimed.logsBloom)
  )
}

export function differ(
  kind: string,
  ours: Bytes | bigint,
  theirs: Bytes | bigint,
): Mismatch | undefined {
  const isEqual =
    typeof ours === 'bigint' || typeof theirs === 'bigint'
      ? ours === theirs
      : equalBytes(ours, theirs)
  return isEqual ? undefined : mismatch(kind, format(ours), format(theirs))
}

/** Returns undefined when `theirs` is not known. */
export function differKnown(
  kind: string,
  ours: Bytes | bigint | undefined,
  theirs: Bytes | bigint | undefined,
): Mismatch | undefined {
  if (theirs === undefined) return undefined
  return ours === undefined ? mismatch(kind, 'none', format(theirs)) : differ(kind, ours, theirs)
}

export const mismatch = (kind: string, ours: string, theirs: string): Mismatch => ({
  kind,
  ours,
  theirs,
})

const DEPOSITOR = hexToBytes(L1_ATTRIBUTES_DEPOSITOR)
const ATTRIBUTES_CONTRACT = hexToBytes(L1_BLOCK)

const format = (value: Bytes | bigint) =>
  typeof value === 'bigint'
    ? `${value}`
    : bytesToHex(value.length > 64 ? value.slice(0, 64) : value)

function checkExtraData(version: Rules['extraDataVersion'], extraData: Bytes) {
  if (version === undefined) return undefined
  try {
    decodeExtraData(extraData, version)
    return undefined
  } catch (error) {
    if (error instanceof ExtraDataError)
      return mismatch(
        'extraData',
        `version ${version}`,
        `${bytesToHex(extraData.slice(0, 64))}: ${error.message}`,
      )
    throw error
  }
}
