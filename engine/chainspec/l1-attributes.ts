/** L1 attributes: the calldata of the first transaction of every OP block, and that transaction. */
import type { Bytes, Hex } from '../primitives/bytes.ts'
import { hexToBytes } from '../primitives/hex.ts'
import type { DepositTransaction } from '../primitives/transaction.ts'
import { makeDeposit, sourceHash } from '../primitives/transaction-codec.ts'
import { bigintToBytes, bytesToBigint, concatBytes, equalBytes } from '../primitives/words.ts'
import type { Rules } from './types.ts'

export const L1_ATTRIBUTES_DEPOSITOR: Hex = '0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001'
export const L1_BLOCK: Hex = '0x4200000000000000000000000000000000000015'
export const SEQUENCER_FEE_VAULT: Hex = '0x4200000000000000000000000000000000000011'

/** The fields of all forms. A form has some of them; missing ones are read as 0. */
export type L1Attributes = {
  /** L1 block number. */
  readonly number: bigint
  /** Timestamp of the L1 block, in seconds. */
  readonly timestamp: bigint
  readonly baseFee: bigint
  /** From Ecotone on. */
  readonly blobBaseFee: bigint
  readonly hash: Bytes
  /** Number of the L2 block among those with this L1 block. */
  readonly sequenceNumber: bigint
  /** The batcher's address, left-padded to 32 bytes. */
  readonly batcherHash: Bytes
  /** From Ecotone on. */
  readonly baseFeeScalar: bigint
  /** From Ecotone on. */
  readonly blobBaseFeeScalar: bigint
  /** From Isthmus on. */
  readonly operatorFeeScalar: bigint
  /** From Isthmus on. */
  readonly operatorFeeConstant: bigint
  /** From Jovian on. */
  readonly daFootprintGasScalar: bigint
  /** Before Ecotone. */
  readonly overhead: bigint
  /** Before Ecotone. */
  readonly scalar: bigint
}
export type AttributesForm = Rules['l1Attributes']

/**
 * Encodes L1 attributes.
 * @param form follows from the parent's rules, because the activation block of a fork uses the
 * older form
 * @throws {RangeError} when a number does not fit its field
 */
export function encodeL1Attributes(attributes: L1Attributes, form: AttributesForm): Bytes {
  const parts = LAYOUTS[form].fields.map(([name, length]) => {
    const value = attributes[name]
    return typeof value === 'bigint' ? bigintToBytes(value, length) : value
  })
  return concatBytes(LAYOUTS[form].selector, ...parts)
}

/** Decodes L1 attributes; undefined: the calldata is something else. */
export function decodeL1Attributes(
  calldata: Bytes,
): { readonly form: AttributesForm; readonly attributes: L1Attributes } | undefined {
  const form = FORMS.find((name) => equalBytes(LAYOUTS[name].selector, calldata.subarray(0, 4)))
  if (form === undefined || calldata.length !== lengthOf(form)) return undefined
  const read: Partial<Record<keyof L1Attributes, bigint | Bytes>> = {}
  let at = 4
  for (const [name, length] of LAYOUTS[form].fields) {
    const field = calldata.subarray(at, at + length)
    read[name] = name === 'hash' || name === 'batcherHash' ? field : bytesToBigint(field)
    at += length
  }
  // Every form has hash and batcherHash, the only fields of bytes.
  return { form, attributes: { ...ABSENT, ...read } as L1Attributes }
}

/**
 * Makes the first transaction of a block. `isSystemTransaction`, used before Regolith, is never
 * set.
 */
export function l1AttributesDeposit(
  attributes: L1Attributes,
  form: AttributesForm,
): DepositTransaction {
  return makeDeposit({
    sourceHash: sourceHash(1, attributes.hash, attributes.sequenceNumber),
    from: hexToBytes(L1_ATTRIBUTES_DEPOSITOR),
    to: hexToBytes(L1_BLOCK),
    mint: 0n,
    value: 0n,
    gasLimit: 1_000_000n,
    isSystemTransaction: false,
    input: encodeL1Attributes(attributes, form),
  })
}

type Layout = {
  readonly selector: Bytes
  readonly fields: readonly (readonly [name: keyof L1Attributes, bytes: number])[]
}
const BLOB_FIELDS = [
  ['baseFeeScalar', 4],
  ['blobBaseFeeScalar', 4],
  ['sequenceNumber', 8],
  ['timestamp', 8],
  ['number', 8],
  ['baseFee', 32],
  ['blobBaseFee', 32],
  ['hash', 32],
  ['batcherHash', 32],
] as const
const OPERATOR_FIELDS = [
  ...BLOB_FIELDS,
  ['operatorFeeScalar', 4],
  ['operatorFeeConstant', 8],
] as const
const LAYOUTS: Readonly<Record<AttributesForm, Layout>> = {
  // setL1BlockValues
  overhead: {
    selector: Uint8Array.of(0x01, 0x5d, 0x8e, 0xb9),
    fields: [
      ['number', 32],
      ['timestamp', 32],
      ['baseFee', 32],
      ['hash', 32],
      ['sequenceNumber', 32],
      ['batcherHash', 32],
      ['overhead', 32],
      ['scalar', 32],
    ],
  },
  // setL1BlockValuesEcotone
  blobs: { selector: Uint8Array.of(0x44, 0x0a, 0x5e, 0x20), fields: BLOB_FIELDS },
  // setL1BlockValuesIsthmus
  operator: { selector: Uint8Array.of(0x09, 0x89, 0x99, 0xbe), fields: OPERATOR_FIELDS },
  // setL1BlockValuesJovian
  footprint: {
    selector: Uint8Array.of(0x3d, 0xb6, 0xbe, 0x2b),
    fields: [...OPERATOR_FIELDS, ['daFootprintGasScalar', 2]],
  },
}
const FORMS = Object.keys(LAYOUTS) as AttributesForm[]
const ABSENT = {
  blobBaseFee: 0n,
  baseFeeScalar: 0n,
  blobBaseFeeScalar: 0n,
  operatorFeeScalar: 0n,
  operatorFeeConstant: 0n,
  daFootprintGasScalar: 0n,
  overhead: 0n,
  scalar: 0n,
}

const lengthOf = (form: AttributesForm) =>
  LAYOUTS[form].fields.reduce((sum, [, length]) => sum + length, 4)
