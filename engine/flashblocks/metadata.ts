/**
 * Side data that some producers send with a flashblock (rollup-boost: specs/flashblocks.md,
 * Metadata). It is for inspection only; execution never uses it.
 */
import type { Hex } from '../primitives/bytes.ts'
import { bytesToHex, quantity } from '../primitives/hex.ts'
import {
  field,
  isObject,
  type JsonObject,
  Refusal,
  readArray,
  readBytes,
  readObject,
  readQuantity,
} from '../primitives/json-fields.ts'

/**
 * A receipt in one style for the three on the wire: lower case, minimal quantities, boolean status,
 * null when absent.
 */
export type FeedReceipt = {
  readonly type: Hex
  readonly status: boolean
  readonly cumulativeGasUsed: Hex
  readonly logs: readonly {
    readonly address: Hex
    readonly topics: readonly Hex[]
    readonly data: Hex
  }[]
  readonly depositNonce: Hex | null
  readonly depositReceiptVersion: Hex | null
}
export type FeedSideData = {
  readonly receipts: Readonly<Record<string, FeedReceipt>> | null
  readonly newAccountBalances: Readonly<Record<string, Hex>> | null
  /** RLP of an EIP-7928 access list. */
  readonly accessList: Hex | null
}

/** Decodes side data; never throws. `refuse` names the field. */
export function decodeSideData(
  metadata: JsonObject,
): { readonly sides: FeedSideData } | { readonly refuse: string } {
  try {
    return { sides: decodeSides(metadata) }
  } catch (error) {
    if (error instanceof Refusal) return { refuse: error.message }
    throw error
  }
}

function decodeSides(metadata: JsonObject): FeedSideData {
  const receipts = field(metadata, 'receipts')
  const balances = field(metadata, 'new_account_balances')
  const accessList = field(metadata, 'access_list')
  return {
    receipts: receipts === undefined ? null : mapValues(receipts, RECEIPTS, decodeReceipt),
    newAccountBalances:
      balances === undefined
        ? null
        : mapValues(balances, BALANCES, (balance) =>
            quantity(readQuantity(balance, BALANCES, 256)),
          ),
    accessList:
      accessList === undefined ? null : bytesToHex(readBytes(accessList, 'metadata.access_list')),
  }
}

const RECEIPTS = 'metadata.receipts'
const BALANCES = 'metadata.new_account_balances'
/** Keys of the externally tagged style, with the types that they mean. */
const typeNames: Readonly<Record<string, Hex>> = {
  Legacy: '0x0',
  Eip2930: '0x1',
  Eip1559: '0x2',
  Eip7702: '0x4',
  PostExec: '0x7d',
  Deposit: '0x7e',
}

/**
 * Maps the values of an object. The result has a null prototype, because its keys come from
 * outside.
 */
function mapValues<T>(value: unknown, name: string, map: (value: unknown) => T): Record<string, T> {
  const mapped: Record<string, T> = Object.create(null)
  for (const [key, entry] of Object.entries(readObject(value, name)))
    mapped[key.toLowerCase()] = map(entry)
  return mapped
}

function decodeReceipt(value: unknown): FeedReceipt {
  const { type, receipt } = untag(readObject(value, RECEIPTS))
  const optional = (key: string) => {
    const given = field(receipt, key)
    return given === undefined ? null : quantity(readQuantity(given, `${RECEIPTS}.${key}`))
  }
  return {
    type: quantity(readQuantity(type, `${RECEIPTS}.type`, 8)),
    status: decodeStatus(field(receipt, 'status')),
    cumulativeGasUsed: quantity(
      readQuantity(field(receipt, 'cumulativeGasUsed'), `${RECEIPTS}.cumulativeGasUsed`),
    ),
    logs: readArray(field(receipt, 'logs'), `${RECEIPTS}.logs`).map(decodeLog),
    depositNonce: optional('depositNonce'),
    depositReceiptVersion: optional('depositReceiptVersion'),
  }
}

/** Reads the type of a receipt from `{"Eip1559": {…}}` or `{"type": "0x2", …}`. */
function untag(object: JsonObject): { readonly type: unknown; readonly receipt: JsonObject } {
  const [key, ...others] = Object.keys(object)
  if (key === undefined || others.length > 0 || !Object.hasOwn(typeNames, key))
    return { type: field(object, 'type'), receipt: object }
  const inner = object[key]
  if (!isObject(inner)) throw new Refusal(`${RECEIPTS}.${key}`, 'an object')
  return { type: typeNames[key], receipt: inner }
}

function decodeStatus(status: unknown): boolean {
  if (typeof status === 'boolean') return status
  if (status === '0x0' || status === '0x1') return status === '0x1'
  throw new Refusal(`${RECEIPTS}.status`, 'a boolean, 0x0 or 0x1')
}

function decodeLog(value: unknown): FeedReceipt['logs'][number] {
  const log = readObject(value, `${RECEIPTS}.logs`)
  const topics = readArray(field(log, 'topics'), `${RECEIPTS}.logs.topics`)
  return {
    address: bytesToHex(readBytes(field(log, 'address'), `${RECEIPTS}.logs.address`, 20)),
    topics: topics.map((topic) => bytesToHex(readBytes(topic, `${RECEIPTS}.logs.topics`, 32))),
    data: bytesToHex(readBytes(field(log, 'data'), `${RECEIPTS}.logs.data`)),
  }
}
