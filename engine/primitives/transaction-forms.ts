/** The fields of each type of transaction in their order, and how each kind of field is read and written. */
import type { Bytes } from './bytes.ts'
import {
  decodeRlp,
  RlpError,
  type RlpItem,
  readBytes,
  readFixed,
  readList,
  readUint,
  rlpUint,
} from './rlp.ts'
import type { AccessList, Authorization, Transaction } from './transaction.ts'

export type Form = {
  readonly type: Transaction['type']
  /** geth's name for it, for messages. */
  readonly name: string
  readonly fields: readonly Field[]
}
export type Values = Record<string, unknown>

/** undefined: no such type. */
export function formOf(type: number): Form | undefined {
  return FORMS.get(type)
}

/** Every field of the form by its name, each of the type its kind says. @throws {RlpError} */
export function readFields(form: Form, data: Bytes): Values {
  const name = `types.${form.name}`
  const items = readList(decodeRlp(data), ` for ${name}`)
  if (items.length < form.fields.length) throw new RlpError(`rlp: too few elements for ${name}`)
  if (items.length > form.fields.length)
    throw new RlpError(`rlp: input list has too many elements for ${name}`)
  const values: Values = {}
  for (const [index, [field, kind]] of form.fields.entries())
    values[field] = readField(kind, items[index]!, `, decoding into (${name}).${field}`)
  return values
}

function readField(kind: Kind, item: RlpItem, where: string): unknown {
  switch (kind) {
    case 'uint64':
      return readUint(item, 8, where)
    case 'uint256':
      return readUint(item, 32, where)
    case 'to':
      return item.length === 0 && item instanceof Uint8Array
        ? undefined
        : readFixed(item, 20, where)
    case 'address':
      return readFixed(item, 20, where)
    case 'hash':
      return readFixed(item, 32, where)
    case 'bytes':
      return readBytes(item, where)
    case 'bool':
      return readBoolean(item, where)
    case 'accessList':
      return readList(item, where).map((entry) => readAccess(entry, where))
    case 'hashes':
      return readList(item, where).map((hash) => readFixed(hash, 32, where))
    case 'authorizations':
      return readList(item, where).map((entry) => readAuthorization(entry, where))
  }
}

function readBoolean(item: RlpItem, where: string): boolean {
  const value = readUint(item, 1, where)
  if (value > 1n) throw new RlpError(`rlp: invalid boolean value: ${value}${where}`)
  return value === 1n
}

function readAccess(item: RlpItem, where: string): AccessList[number] {
  const [address, keys] = readTuple(item, 2, { name: 'AccessTuple', where })
  return {
    address: readFixed(address!, 20, where),
    storageKeys: readList(keys!, where).map((key) => readFixed(key, 32, where)),
  }
}

function readAuthorization(item: RlpItem, where: string): Authorization {
  const fields = readTuple(item, 6, { name: 'SetCodeAuthorization', where })
  const [chainId, address, nonce, yParity, r, s] = fields
  return {
    chainId: readUint(chainId!, 32, where),
    address: readFixed(address!, 20, where),
    nonce: readUint(nonce!, 8, where),
    yParity: readUint(yParity!, 1, where),
    r: readUint(r!, 32, where),
    s: readUint(s!, 32, where),
  }
}

function readTuple(
  item: RlpItem,
  length: number,
  { name, where }: { readonly name: string; readonly where: string },
): readonly RlpItem[] {
  const fields = readList(item, where)
  if (fields.length < length) throw new RlpError(`rlp: too few elements for types.${name}${where}`)
  if (fields.length > length)
    throw new RlpError(`rlp: input list has too many elements for types.${name}${where}`)
  return fields
}

/** @param transaction has the fields of its form */
export function writeFields(fields: readonly Field[], transaction: object): RlpItem[] {
  const values = transaction as Values
  return fields.map(([name, kind]) => writeField(kind, values[name]))
}

/** `value` has the type that `kind` says: the tables above and transaction.ts list the same fields. */
function writeField(kind: Kind, value: unknown): RlpItem {
  switch (kind) {
    case 'uint64':
    case 'uint256':
      return rlpUint(value as bigint)
    case 'to':
      return (value as Bytes | undefined) ?? EMPTY
    case 'bool':
      return rlpUint(value === true ? 1 : 0)
    case 'accessList':
      return (value as AccessList).map(({ address, storageKeys }) => [address, storageKeys])
    case 'authorizations':
      return (value as readonly Authorization[]).map((entry) => [
        rlpUint(entry.chainId),
        entry.address,
        rlpUint(entry.nonce),
        rlpUint(entry.yParity),
        rlpUint(entry.r),
        rlpUint(entry.s),
      ])
    default:
      return value as RlpItem
  }
}

const EMPTY: Bytes = new Uint8Array(0)

type Kind =
  | 'uint64'
  | 'uint256'
  | 'to'
  | 'address'
  | 'bytes'
  | 'hash'
  | 'bool'
  | 'accessList'
  | 'hashes'
  | 'authorizations'
type Field = readonly [name: string, kind: Kind]

const SIGNATURE: readonly Field[] = [
  ['v', 'uint256'],
  ['r', 'uint256'],
  ['s', 'uint256'],
]
const GAS_PRICE: readonly Field[] = [['gasPrice', 'uint256']]
const DYNAMIC_FEE: readonly Field[] = [
  ['maxPriorityFeePerGas', 'uint256'],
  ['maxFeePerGas', 'uint256'],
]
const NONCE: Field = ['nonce', 'uint64']
const CHAIN: readonly Field[] = [['chainId', 'uint256'], NONCE]
const message = (to: 'to' | 'address'): readonly Field[] => [
  ['gasLimit', 'uint64'],
  ['to', to],
  ['value', 'uint256'],
  ['input', 'bytes'],
]
const ACCESS_LIST: Field = ['accessList', 'accessList']

const FORMS: ReadonlyMap<number, Form> = new Map(
  (
    [
      {
        type: 0,
        name: 'LegacyTx',
        fields: [NONCE, ...GAS_PRICE, ...message('to'), ...SIGNATURE],
      },
      {
        type: 1,
        name: 'AccessListTx',
        fields: [...CHAIN, ...GAS_PRICE, ...message('to'), ACCESS_LIST, ...SIGNATURE],
      },
      {
        type: 2,
        name: 'DynamicFeeTx',
        fields: [...CHAIN, ...DYNAMIC_FEE, ...message('to'), ACCESS_LIST, ...SIGNATURE],
      },
      {
        type: 3,
        name: 'BlobTx',
        fields: [
          ...CHAIN,
          ...DYNAMIC_FEE,
          ...message('address'),
          ACCESS_LIST,
          ['maxFeePerBlobGas', 'uint256'],
          ['blobVersionedHashes', 'hashes'],
          ...SIGNATURE,
        ],
      },
      {
        type: 4,
        name: 'SetCodeTx',
        fields: [
          ...CHAIN,
          ...DYNAMIC_FEE,
          ...message('address'),
          ACCESS_LIST,
          ['authorizationList', 'authorizations'],
          ...SIGNATURE,
        ],
      },
      {
        type: 0x7e,
        name: 'DepositTx',
        fields: [
          ['sourceHash', 'hash'],
          ['from', 'address'],
          ['to', 'to'],
          ['mint', 'uint256'],
          ['value', 'uint256'],
          ['gasLimit', 'uint64'],
          ['isSystemTransaction', 'bool'],
          ['input', 'bytes'],
        ],
      },
    ] satisfies Form[]
  ).map((form) => [form.type, form]),
)
