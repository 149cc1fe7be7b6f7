/**
 * Fees of an OP chain besides gas: L1 fee, operator fee, DA footprint (specs.optimism.io: Bedrock
 * to Jovian).
 */
import type { Bytes } from '../primitives/bytes.ts'
import type { L1Fee } from '../primitives/receipt.ts'
import { bytesToBigint, ZERO_32 } from '../primitives/words.ts'
import { fastlzLength } from './fastlz.ts'
import type { L1Attributes } from './l1-attributes.ts'
import type { Rules } from './types.ts'

/**
 * Parameters of the fees. Execution reads them from the L1Block contract, receipts from calldata.
 */
export type L1FeeParameters = Pick<
  L1Attributes,
  | 'baseFee'
  | 'blobBaseFee'
  | 'baseFeeScalar'
  | 'blobBaseFeeScalar'
  | 'operatorFeeScalar'
  | 'operatorFeeConstant'
  | 'daFootprintGasScalar'
  | 'overhead'
  | 'scalar'
>

/**
 * Properties of a transaction's envelope that fees depend on. They are computed once for all fees.
 */
export type RollupData = {
  readonly zeroBytes: bigint
  readonly nonZeroBytes: bigint
  /** Estimated bytes after compression × 10^6 (Fjord); at least 10^8. */
  readonly estimatedSize: bigint
}

/** Slots of the L1Block contract with the parameters. */
export const L1_FEE_SLOTS = [1, 3, 5, 6, 7, 8] as const

/**
 * Reads the parameters that these rules need. The others are 0 and their slots are not read.
 * Execution therefore reads no more state than the reference implementations.
 * @param slot returns the 32 bytes of a slot of L1Block, after this block's attributes were set
 */
export function l1FeeParameters(
  rules: Pick<Rules, 'l1Fee' | 'operatorFee' | 'hasDaFootprint'>,
  slot: (number: (typeof L1_FEE_SLOTS)[number]) => Bytes,
): L1FeeParameters {
  const isOld = rules.l1Fee === 'overhead'
  const scalars = isOld ? ZERO_32 : slot(3)
  const blob = {
    blobBaseFee: isOld ? 0n : bytesToBigint(slot(7)),
    baseFeeScalar: bytesToBigint(scalars.subarray(16, 20)),
    blobBaseFeeScalar: bytesToBigint(scalars.subarray(20, 24)),
  }
  const hasOld = isOld || isFirstWithBlobs(blob, rules)
  const hasOperator = rules.operatorFee !== undefined || rules.hasDaFootprint
  const operator = hasOperator ? slot(8) : ZERO_32
  return {
    baseFee: bytesToBigint(slot(1)),
    ...blob,
    operatorFeeScalar: bytesToBigint(operator.subarray(20, 24)),
    operatorFeeConstant: bytesToBigint(operator.subarray(24, 32)),
    daFootprintGasScalar: bytesToBigint(operator.subarray(18, 20)),
    overhead: hasOld ? bytesToBigint(slot(5)) : 0n,
    scalar: hasOld ? bytesToBigint(slot(6)) : 0n,
  }
}

/**
 * Measures an envelope.
 * @param raw the whole signed envelope
 */
export function rollupData(raw: Bytes): RollupData {
  let zeros = 0
  for (let at = 0; at < raw.length; at++) if (raw[at] === 0) zeros++
  const estimate = 836_500n * BigInt(fastlzLength(raw)) - 42_585_600n
  return {
    zeroBytes: BigInt(zeros),
    nonZeroBytes: BigInt(raw.length - zeros),
    estimatedSize: estimate > MIN_SIZE ? estimate : MIN_SIZE,
  }
}

/** Returns the L1 gas of an envelope, and the fee in wei. */
export function l1Cost(
  data: RollupData,
  parameters: L1FeeParameters,
  rules: Rules,
): { readonly gasUsed: bigint; readonly fee: bigint } {
  const gas = data.zeroBytes * 4n + data.nonZeroBytes * 16n
  const { baseFee, baseFeeScalar, blobBaseFeeScalar, blobBaseFee, overhead, scalar } = parameters
  const perByte = baseFeeScalar * 16n * baseFee + blobBaseFeeScalar * blobBaseFee
  const form = formOf(parameters, rules)
  switch (form) {
    case 'none':
      return { gasUsed: 0n, fee: 0n }
    case 'compressed':
      return {
        gasUsed: (data.estimatedSize * 16n) / MILLION,
        fee: (data.estimatedSize * perByte) / (MILLION * MILLION),
      }
    case 'blobs':
      return { gasUsed: gas, fee: (gas * perByte) / (16n * MILLION) }
    case 'overhead': {
      const gasUsed = gas + overhead + rules.l1SignatureBytes * 16n
      return { gasUsed, fee: (gasUsed * baseFee * scalar) / MILLION }
    }
  }
}

/**
 * Returns wei for `gas`: the gas limit when charged in advance, the gas used when the rest is
 * refunded.
 */
export function operatorFee(gas: bigint, parameters: L1FeeParameters, rules: Rules): bigint {
  const { operatorFeeScalar, operatorFeeConstant } = parameters
  if (rules.operatorFee === undefined) return 0n
  const { multiplier, divisor } = rules.operatorFee
  return (gas * operatorFeeScalar * multiplier) / divisor + operatorFeeConstant
}

/**
 * Returns the share of the block's data gas that a transaction uses (Jovian), 0 before. Not for
 * deposits, which use none.
 */
export function daFootprint(data: RollupData, parameters: L1FeeParameters, rules: Rules): bigint {
  return rules.hasDaFootprint
    ? (data.estimatedSize / MILLION) * parameters.daFootprintGasScalar
    : 0n
}

/**
 * Returns the L1 fields of a receipt; undefined on an L1 chain. A deposit has them with a fee of 0,
 * as in reth.
 */
export function receiptL1Fee(
  { data, isDeposit }: { readonly data: RollupData; readonly isDeposit: boolean },
  parameters: L1FeeParameters,
  rules: Rules,
): L1Fee | undefined {
  if (rules.l1Fee === 'none') return undefined
  const { gasUsed, fee } = l1Cost(data, parameters, rules)
  const { operatorFeeScalar, operatorFeeConstant, daFootprintGasScalar } = parameters
  const hasBlobs = rules.l1Fee === 'blobs' || rules.l1Fee === 'compressed'
  const hasOperator =
    rules.operatorFee !== undefined && (operatorFeeScalar !== 0n || operatorFeeConstant !== 0n)
  return {
    l1GasPrice: parameters.baseFee,
    l1GasUsed: gasUsed,
    l1Fee: isDeposit ? 0n : fee,
    ...(hasBlobs
      ? {
          l1BaseFeeScalar: parameters.baseFeeScalar,
          l1BlobBaseFee: parameters.blobBaseFee,
          l1BlobBaseFeeScalar: parameters.blobBaseFeeScalar,
        }
      : { l1FeeScalar: decimal(parameters.scalar) }),
    ...(hasOperator ? { operatorFeeScalar, operatorFeeConstant } : {}),
    ...(rules.hasDaFootprint
      ? { daFootprintGasScalar, blobGasUsed: daFootprint(data, parameters, rules) }
      : {}),
  }
}

const MILLION = 1_000_000n
/** Minimum estimate of 100 bytes. */
const MIN_SIZE = 100n * MILLION

const formOf = (parameters: L1FeeParameters, rules: Rules): Rules['l1Fee'] =>
  isFirstWithBlobs(parameters, rules) ? 'overhead' : rules.l1Fee

/**
 * The first Ecotone block has no Ecotone scalars yet, so its transactions pay by the older rules.
 */
function isFirstWithBlobs(
  parameters: Pick<L1FeeParameters, 'baseFeeScalar' | 'blobBaseFee' | 'blobBaseFeeScalar'>,
  rules: Pick<Rules, 'l1Fee'>,
): boolean {
  const { baseFeeScalar, blobBaseFee, blobBaseFeeScalar } = parameters
  return (
    rules.l1Fee === 'blobs' &&
    baseFeeScalar === 0n &&
    blobBaseFee === 0n &&
    blobBaseFeeScalar === 0n
  )
}

/** Formats millionths as a decimal number without trailing zeros: 684000 → "0.684". */
function decimal(millionths: bigint): string {
  const integer = millionths / MILLION
  const fraction = (millionths % MILLION).toString().padStart(6, '0').replace(/0+$/, '')
  return fraction === '' ? `${integer}` : `${integer}.${fraction}`
}
