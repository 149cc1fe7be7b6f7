/**
 * Checks a header against its parent before the block is executed (Ethereum: yellow paper 4.4,
 * EIP-1559, 3675, 4844, 7918).
 */
import { decodeExtraData, ExtraDataError, nextBaseFee } from '../../chainspec/base-fee.ts'
import type { ChainSpec, Rules } from '../../chainspec/types.ts'
import type { Header } from '../../primitives/header.ts'
import { EMPTY_OMMERS } from '../../primitives/keccak.ts'
import { bytesToBigint, equalBytes } from '../../primitives/words.ts'
import { blobBaseFee } from '../transaction/fees.ts'
import { GAS_PER_BLOB } from '../transaction/validation.ts'

/** @returns the reason why the header is invalid; undefined for a valid header */
export function headerFault(
  chain: Pick<ChainSpec, 'rulesAt'>,
  parent: Header,
  header: Header,
): string | undefined {
  const rules = chain.rulesAt(header.number, header.timestamp)
  if (header.number !== parent.number + 1n)
    return `number is ${header.number}, expected ${parent.number + 1n}`
  if (header.blockAccessListHash !== undefined || header.slotNumber !== undefined)
    return 'the header has fields of Amsterdam, a fork that this version does not know'
  if (header.timestamp <= parent.timestamp)
    return `timestamp is ${header.timestamp}, expected more than its parent's ${parent.timestamp}`
  if (header.gasUsed > header.gasLimit)
    return `gasUsed is ${header.gasUsed}, expected at most the gasLimit ${header.gasLimit}`
  return (
    gasLimitFault(parent, header, rules, chain) ??
    (rules.header.baseFee
      ? differs('baseFeePerGas', header.baseFeePerGas, nextBaseFee(chain, parent, header.timestamp))
      : differs('baseFeePerGas', header.baseFeePerGas, undefined)) ??
    (rules.blobs === undefined
      ? undefined
      : differs('excessBlobGas', header.excessBlobGas, nextExcessBlobGas(rules, parent))) ??
    (rules.isMerged ? unminedFault(header) : undefined) ??
    (rules.isOptimism ? optimismFault(header, rules) : undefined)
  )
}

/** Checks fields that only mined blocks use. */
function unminedFault(header: Header): string | undefined {
  if (!equalBytes(header.ommersHash, EMPTY_OMMERS)) return 'ommersHash is not that of no ommers'
  return (
    differs('difficulty', header.difficulty, 0n) ??
    differs('nonce', bytesToBigint(header.nonce), 0n)
  )
}

/**
 * Checks that an OP chain's header has no blobs and readable parameters of the next base fee
 * (Holocene, Jovian).
 */
function optimismFault(header: Header, rules: Rules): string | undefined {
  if (rules.extraDataVersion !== undefined)
    try {
      decodeExtraData(header.extraData, rules.extraDataVersion)
    } catch (error) {
      if (error instanceof ExtraDataError) return error.message
      throw error
    }
  return rules.header.blobs ? differs('excessBlobGas', header.excessBlobGas, 0n) : undefined
}

const differs = (name: string, theirs: bigint | undefined, ours: bigint | undefined) =>
  theirs === ours ? undefined : `${name} is ${theirs ?? 'absent'}, expected ${ours ?? 'none'}`

/**
 * On Ethereum a block may change the limit by less than 1/1024. At London the limit is multiplied
 * by the elasticity.
 */
function gasLimitFault(
  parent: Header,
  header: Header,
  rules: Rules,
  chain: Pick<ChainSpec, 'rulesAt'>,
): string | undefined {
  if (rules.isOptimism) return undefined
  const before = chain.rulesAt(parent.number, parent.timestamp)
  const isFirstWithBaseFee = rules.header.baseFee && !before.header.baseFee
  const from = parent.gasLimit * (isFirstWithBaseFee ? rules.eip1559.elasticity : 1n)
  const maxChange = from / 1024n - 1n
  const change = header.gasLimit > from ? header.gasLimit - from : from - header.gasLimit
  if (change <= maxChange && header.gasLimit >= 5_000n) return undefined
  return `gasLimit is ${header.gasLimit}, expected ${from} ± ${maxChange}, at least 5000`
}

/** Blob gas above the target, accumulated over blocks. */
export function nextExcessBlobGas(rules: Rules, parent: Header): bigint {
  const { target, max } = rules.blobs!
  const excess = parent.excessBlobGas ?? 0n
  const used = parent.blobGasUsed ?? 0n
  const targetGas = target * GAS_PER_BLOB
  if (excess + used < targetGas) return 0n
  const isReserved =
    rules.hasBlobReserve &&
    BLOB_BASE_COST * (parent.baseFeePerGas ?? 0n) > GAS_PER_BLOB * blobBaseFee(rules, excess)
  return isReserved ? excess + (used * (max - target)) / max : excess + used - targetGas
}

/** Minimum execution gas of a blob (EIP-7918). */
const BLOB_BASE_COST = 8_192n
