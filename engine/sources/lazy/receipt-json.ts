/**
 * Decodes receipts of eth_getBlockReceipts (execution-apis: schemas/receipt.yaml; op-geth:
 * core/types/receipt.go).
 */
import {
  field,
  type JsonObject,
  Refusal,
  readArray,
  readBytes,
  readObject,
  readQuantity,
} from '../../primitives/json-fields.ts'
import type { L1Fee, Log, Receipt } from '../../primitives/receipt.ts'
import { bloomOf } from '../../primitives/receipt-codec.ts'

/**
 * Decodes the receipts of a block, in order. The caller verifies the receipts root; fields outside
 * it are trusted.
 * @throws {Refusal}
 */
export function readReceipts(json: unknown): readonly Receipt[] {
  let before = 0n
  return readArray(json, 'receipts').map((one, at) => {
    const receipt = readReceipt(readObject(one, `receipts[${at}]`), before)
    before = receipt.cumulativeGasUsed
    return receipt
  })
}

/** @param before cumulative gas of the transactions before this one */
function readReceipt(json: JsonObject, before: bigint): Receipt {
  const type = field(json, 'type')
  const logs = readArray(field(json, 'logs'), 'logs').map(readLog)
  const cumulativeGasUsed = uint(json, 'cumulativeGasUsed')
  const contract = field(json, 'contractAddress')
  const depositNonce = optional(json, 'depositNonce')
  const depositReceiptVersion = optional(json, 'depositReceiptVersion')
  const isPostExec = type !== undefined && readQuantity(type, 'type', 8) === 0x7dn
  // A post-exec transaction pays no L1 fee, even if its upstream shows one.
  const l1 = isPostExec ? undefined : readL1Fee(json)
  const gasRefund = optional(json, 'opGasRefund') ?? (json['opGasRefund'] === null ? 0n : undefined)
  if (cumulativeGasUsed < before) throw new Refusal('cumulativeGasUsed', `at least ${before}`)
  return {
    type: type === undefined ? 0 : Number(readQuantity(type, 'type', 8)),
    status: readStatus(field(json, 'status')),
    cumulativeGasUsed,
    gasUsed: cumulativeGasUsed - before,
    logsBloom: bloomOf(logs),
    logs,
    contractAddress:
      contract === undefined ? undefined : readBytes(contract, 'contractAddress', 20),
    effectiveGasPrice: optional(json, 'effectiveGasPrice') ?? 0n,
    ...(depositNonce === undefined ? {} : { depositNonce }),
    ...(depositReceiptVersion === undefined ? {} : { depositReceiptVersion }),
    ...(l1 === undefined ? {} : { l1 }),
    ...(gasRefund === undefined ? {} : { gasRefund }),
    ...(isPostExec ? { blobGasUsed: 0n } : blobGasOf(json)),
  }
}

const uint = (json: JsonObject, key: string) => readQuantity(field(json, key), key, 256)
const optional = (json: JsonObject, key: string) =>
  field(json, key) === undefined ? undefined : uint(json, key)

function readStatus(value: unknown): 0 | 1 {
  const status = readQuantity(value, 'status', 1)
  return status === 0n ? 0 : 1
}

function readLog(value: unknown): Log {
  const log = readObject(value, 'logs')
  return {
    address: readBytes(field(log, 'address'), 'logs.address', 20),
    topics: readArray(field(log, 'topics'), 'logs.topics').map((topic) =>
      readBytes(topic, 'logs.topics', 32),
    ),
    data: readBytes(field(log, 'data'), 'logs.data'),
  }
}

/** undefined: the chain has no L1 fee, or the transaction is a deposit. */
function readL1Fee(json: JsonObject): L1Fee | undefined {
  const [l1GasPrice, l1GasUsed, l1Fee] = L1_REQUIRED.map((key) => optional(json, key))
  if (l1GasPrice === undefined || l1GasUsed === undefined || l1Fee === undefined) return undefined
  const more = L1_MORE.flatMap((key) => {
    const value = optional(json, key)
    return value === undefined ? [] : [[key, value] as const]
  })
  // On an OP chain this field is the footprint of a transaction's data.
  const blobGasUsed = optional(json, 'blobGasUsed')
  const scalar = field(json, 'l1FeeScalar')
  return {
    l1GasPrice,
    l1GasUsed,
    l1Fee,
    ...Object.fromEntries(more),
    ...(typeof scalar === 'string' ? { l1FeeScalar: scalar } : {}),
    ...(blobGasUsed === undefined ? {} : { blobGasUsed }),
  }
}

const L1_REQUIRED = ['l1GasPrice', 'l1GasUsed', 'l1Fee'] as const
const L1_MORE = [
  'l1BaseFeeScalar',
  'l1BlobBaseFee',
  'l1BlobBaseFeeScalar',
  'operatorFeeScalar',
  'operatorFeeConstant',
  'daFootprintGasScalar',
] as const

/** Reads blob gas of a blob transaction on an L1 chain. */
function blobGasOf(json: JsonObject) {
  const blobGasPrice = optional(json, 'blobGasPrice')
  const blobGasUsed = optional(json, 'blobGasUsed')
  return blobGasPrice === undefined || blobGasUsed === undefined
    ? {}
    : { blobGasUsed, blobGasPrice }
}
