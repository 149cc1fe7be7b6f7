/** What a block or flashblock claims, compared with what it must be: the first field that differs, named. */
import type { SealedBlock } from '../../chain/types.ts'
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

/** Kind of what only a development chain's own rules can follow. */
export const EDIT = 'editOfState'

/** A block is given back because its state cannot be had, or because too many wait. */
export const STATE = 'state'
export const FULL = 'queue'

/** Kind of a transaction whose type is unknown here, or not allowed on this chain. */
export const TYPE = 'transactionType'

/** `kind` is a name of few, for counting; `ours` and `theirs` are for people. */
export type Mismatch = { readonly kind: string; readonly ours: string; readonly theirs: string }

export const attributesOfSealed = (sealed: SealedBlock): BlockAttributes => ({
  parentHash: sealed.parentHash,
  parentBeaconBlockRoot: sealed.parentBeaconBlockRoot,
  coinbase: sealed.coinbase,
  prevRandao: sealed.prevRandao,
  number: BigInt(sealed.number),
  gasLimit: sealed.gasLimit,
  timestamp: sealed.timestamp,
  extraData: sealed.extraData,
  baseFee: sealed.baseFee,
  postExec: postExecIn(sealed.transactions.at(-1)),
})

/** The constant part of a block against its parent. */
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

/** On an OP chain every block begins with the L1 attributes. */
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
 * Sums so far against what a flashblock says they are. Gas and receipts of one with refunds are not compared: no specification says whether
 * these sums count them.
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

/** The post-exec transaction that a flashblock states: of this block, and where the fork allows one. */
export function checkPostExec(
  { number }: Pick<BlockAttributes, 'number'>,
  { hasPostExec }: Pick<Rules, 'hasPostExec'>,
  postExec: PostExecTransaction | undefined,
): Mismatch | undefined {
  if (postExec === undefined) return undefined
  if (!hasPostExec) return mismatch('postExec', 'none', 'one')
  return differ('postExecNumber', number, postExec.blockNumber)
}

/** A canonical block's sums, as far as its source knows them, against ours. */
export function checkSealedSums(sums: BlockSums, sealed: SealedBlock): Mismatch | undefined {
  return checkSums(sums, sealed) ?? differKnown('blobGasUsed', sums.blobGasUsed, sealed.blobGasUsed)
}

/** Everything of the header that a source knows, and its hash, which is all of the rest. */
export function checkHeader(
  { header, hash }: { readonly header: Header; readonly hash: Bytes },
  sealed: SealedBlock,
): Mismatch | undefined {
  return (
    differKnown('stateRoot', header.stateRoot, sealed.stateRoot) ??
    differKnown('withdrawalsRoot', header.withdrawalsRoot, sealed.withdrawalsRoot) ??
    differKnown('blobGasUsed', header.blobGasUsed, sealed.blobGasUsed) ??
    differKnown('excessBlobGas', header.excessBlobGas, sealed.excessBlobGas) ??
    differKnown('requestsHash', header.requestsHash, sealed.requestsHash) ??
    differKnown('hash', hash, sealed.hash)
  )
}

/** First attribute in which a block of ours is not the canonical one. */
export function checkSealedAttributes(header: Header, sealed: SealedBlock): Mismatch | undefined {
  return (
    differ('parentHash', header.parentHash, sealed.parentHash) ??
    differ('timestamp', header.timestamp, sealed.timestamp) ??
    differ('prevRandao', header.mixHash, sealed.prevRandao) ??
    differ('coinbase', header.coinbase, sealed.coinbase) ??
    differ('gasLimit', header.gasLimit, sealed.gasLimit) ??
    differ('extraData', header.extraData, sealed.extraData) ??
    differ('baseFee', header.baseFeePerGas ?? 0n, sealed.baseFee) ??
    differ('beaconRoot', header.parentBeaconBlockRoot ?? ZERO_32, sealed.parentBeaconBlockRoot)
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
  return isEqual ? undefined : mismatch(kind, shown(ours), shown(theirs))
}

/** Nothing where nobody knows theirs. */
export function differKnown(
  kind: string,
  ours: Bytes | bigint | undefined,
  theirs: Bytes | bigint | undefined,
): Mismatch | undefined {
  if (theirs === undefined) return undefined
  return ours === undefined ? mismatch(kind, 'none', shown(theirs)) : differ(kind, ours, theirs)
}

export const mismatch = (kind: string, ours: string, theirs: string): Mismatch => ({
  kind,
  ours,
  theirs,
})

const DEPOSITOR = hexToBytes(L1_ATTRIBUTES_DEPOSITOR)
const ATTRIBUTES_CONTRACT = hexToBytes(L1_BLOCK)

const shown = (value: Bytes | bigint) =>
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
