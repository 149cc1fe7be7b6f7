/**
 * The base fee of the next block, and its parameters in extraData (execution rules of Holocene and
 * Jovian).
 */
import { type Bytes, NO_BYTES } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import { bigintToBytes, bytesToBigint, concatBytes } from '../primitives/words.ts'
import { INITIAL_BASE_FEE } from './genesis.ts'
import type { ChainSpec, FeeConstants, Rules } from './types.ts'

export type FeeParameters = FeeConstants & {
  /** Wei; 0 before Jovian. */
  readonly minBaseFee: bigint
}

/**
 * Returns the base fee of the next block in wei.
 * @param timestamp timestamp of the next block; the parameters come from its parent
 * @throws {ExtraDataError} when the parent should have parameters and does not
 */
export function nextBaseFee(
  chain: Pick<ChainSpec, 'rulesAt'>,
  parent: Header,
  timestamp: bigint,
): bigint {
  const { baseFeePerGas: fee, gasLimit } = parent
  if (fee === undefined) return INITIAL_BASE_FEE
  const parentRules = chain.rulesAt(parent.number, parent.timestamp)
  const constants = chain.rulesAt(parent.number + 1n, timestamp).eip1559
  const { denominator, elasticity, minBaseFee } = feeParameters(parent, parentRules, constants)
  const target = gasLimit / elasticity
  const metered = parentRules.hasDaFootprint
    ? larger(parent.gasUsed, parent.blobGasUsed ?? 0n)
    : parent.gasUsed
  return larger(adjusted({ fee, metered, target, denominator }), minBaseFee)
}

/**
 * Encodes 0, 9 or 17 bytes: version, denominator and elasticity of 32 bits each, from Jovian on the
 * minimum base fee of 64 bits.
 * @throws {RangeError} when a number is too large
 */
export function encodeExtraData(
  parameters: FeeParameters,
  version: Rules['extraDataVersion'],
): Bytes {
  if (version === undefined) return NO_BYTES
  const constants = concatBytes(
    Uint8Array.of(version),
    bigintToBytes(parameters.denominator, 4),
    bigintToBytes(parameters.elasticity, 4),
  )
  return version === 1 ? concatBytes(constants, bigintToBytes(parameters.minBaseFee, 8)) : constants
}

/**
 * Decodes the extraData of a header of that version.
 * @throws {ExtraDataError} for another length or version, or for a zero
 */
export function decodeExtraData(
  extraData: Bytes,
  version: NonNullable<Rules['extraDataVersion']>,
): FeeParameters {
  const length = version === 1 ? 17 : 9
  if (extraData.length !== length)
    throw new ExtraDataError(`extraData of ${extraData.length} bytes, expected ${length}`)
  if (extraData[0] !== version)
    throw new ExtraDataError(`extraData of version ${extraData[0]}, expected ${version}`)
  const denominator = bytesToBigint(extraData.subarray(1, 5))
  const elasticity = bytesToBigint(extraData.subarray(5, 9))
  if (denominator === 0n) throw new ExtraDataError('extraData with a base fee denominator of 0')
  if (elasticity === 0n) throw new ExtraDataError('extraData with an elasticity of 0')
  return { denominator, elasticity, minBaseFee: bytesToBigint(extraData.subarray(9)) }
}

/** A header's extraData does not match its fork, so the block is invalid. */
export class ExtraDataError extends Error {
  override name = 'ExtraDataError'
}

const larger = (a: bigint, b: bigint) => (a > b ? a : b)

function feeParameters(parent: Header, rules: Rules, constants: FeeConstants): FeeParameters {
  if (rules.extraDataVersion === undefined) return { ...constants, minBaseFee: 0n }
  return decodeExtraData(parent.extraData, rules.extraDataVersion)
}

function adjusted(block: {
  readonly fee: bigint
  readonly metered: bigint
  readonly target: bigint
  readonly denominator: bigint
}): bigint {
  const { fee, metered, target, denominator } = block
  // A gas limit below the elasticity gives a target of 0.
  if (metered === target || target === 0n) return fee
  if (metered > target) return fee + larger(1n, (fee * (metered - target)) / target / denominator)
  return fee - (fee * (target - metered)) / target / denominator
}
