/**
 * The fields of each type of transaction in order, and the reader and writer of each kind of field.
 */
import { type Bytes, NO_BYTES } from './bytes.ts'
import { checkRlp, FieldError, inField, RlpError, type RlpItem, rlpUint, spanAt } from './rlp.ts'
import type { AccessList, Authorization, GasRefund, Transaction } from './transaction.ts'
import { bytesToBigint } from './words.ts'

export type Form = {
  readonly type: Transaction['type']
  /** geth's name of the type, for messages. */
  readonly name: string
  readonly fields: readonly Field[]
}
export type Values = Record<string, unknown>

export function formOf(type: number): Form | undefined {
  return FORMS.get(type)
}

/**
 * Reads every field of the form, each with the type of its kind.
 * @throws {RlpError} when the data does not match the form
 */
export function readFields(form: Form, data: Bytes): Values {
  checkRlp(data)
  return fieldsOf(form, data, (values, [name, kind], item) => {
    values[name] = readField(item, kind)
  })
}

/**
 * Reads data that `readFields` has accepted before, for a fraction of the cost. Inner lists are
 * decoded on first use.
 * @throws {RlpError} for other data, at once or at the first use of a list
 */
export function peekFields(form: Form, data: Bytes): Values {
  return fieldsOf(form, data, (values, [name, kind], item) => {
    if (!LISTS.has(kind)) values[name] = readField(item, kind)
    else {
      const list = { data, at: item.at }
      readLater(values, name, () => {
        checkRlp(data.subarray(list.at, spanAt(data, list.at).next))
        return readField(list, kind)
      })
    }
  })
}

/** One item of a list. */
type Item = { readonly data: Bytes; at: number }
type Put = (values: Values, field: Field, item: Item) => void

/**
 * Items are counted before the first one is read, so that an attack with thousands of small items
 * allocates nothing.
 */
function fieldsOf({ name, fields }: Form, data: Bytes, put: Put): Values {
  if (spanAt(data, 0).next !== data.length)
    throw new RlpError('rlp: input contains more than one value')
  try {
    return readTuple({ data, at: 0 }, { name, fields }, put)
  } catch (error) {
    throw error instanceof FieldError ? error.decodingInto(name) : error
  }
}

type Tuple = { readonly name: string; readonly fields: readonly Field[] }
const putNow: Put = (values, [name, kind], item) => {
  values[name] = readField(item, kind)
}

/** @throws {FieldError} */
function readTuple(item: Item, { name, fields }: Tuple, put: Put): Values {
  const type = `types.${name}`
  const list = listOf(item, type)
  checkCount(list, fields.length, type)
  const values: Values = {}
  const one: Item = { data: list.data, at: list.start }
  let at = 0
  try {
    for (; at < fields.length; at++) {
      put(values, fields[at]!, one)
      one.at = spanAt(one.data, one.at).next
    }
  } catch (error) {
    throw inField(error, `.${goNameOf(fields[at]!)}`)
  }
  return values
}

type List = { readonly data: Bytes; readonly start: number; readonly end: number }

function checkCount({ data, start, end }: List, count: number, type: string): void {
  let found = 0
  for (let at = start; at < end && found <= count; at = spanAt(data, at).next) found++
  if (found < count) throw new FieldError('too few elements', type)
  if (found > count) throw new FieldError('input list has too many elements', type)
}

const isListAt = (data: Bytes, at: number) => (data[at] ?? 0) >= 0xc0

function readLater(values: Values, field: string, read: () => unknown): void {
  let value: unknown
  Object.defineProperty(values, field, {
    get: () => (value ??= read()),
    enumerable: true,
    configurable: true,
  })
}

/** @throws {FieldError} */
function readField(item: Item, kind: Kind): unknown {
  const type = GO_TYPES[kind]
  switch (kind) {
    case 'uint8':
      return uintOf(item, 1, type)
    case 'uint64':
      return uintOf(item, 8, type)
    case 'bigInt':
    case 'uint256':
      return uintOf(item, 32, type)
    case 'to':
      return isEmpty(item) ? undefined : fixedOf(item, 20, type)
    case 'address':
      return fixedOf(item, 20, type)
    case 'hash':
      return fixedOf(item, 32, type)
    case 'bytes':
      return bytesOf(item, type)
    case 'bool':
      return readBoolean(item, type)
    case 'hashes':
      return each(item, type, (hash) => readField(hash, 'hash'))
    case 'accessList':
      return each(item, type, (entry) => readTuple(entry, ACCESS, putNow))
    case 'authorizations':
      return each(item, type, (entry) => readTuple(entry, AUTHORIZATION, putNow))
    case 'refunds':
      return each(item, type, (entry) => readTuple(entry, REFUND, putNow))
  }
}

/** The recipient of a creation is an empty string. */
function isEmpty({ data, at }: Item): boolean {
  if (data[at] === 0xc0)
    throw new FieldError('wrong kind of empty value (got List, want String)', '*common.Address')
  return data[at] === 0x80
}

function bytesOf({ data, at }: Item, type: string): Bytes {
  const { start, next } = spanAt(data, at)
  if (isListAt(data, at)) throw new FieldError('expected input string or byte', type)
  return data.subarray(start, next)
}
function fixedOf(item: Item, length: number, type: string): Bytes {
  const bytes = bytesOf(item, type)
  if (bytes.length === length) return bytes
  throw new FieldError(`input string too ${bytes.length < length ? 'short' : 'long'}`, type)
}
function uintOf(item: Item, maxBytes: number, type: string): bigint {
  const first = item.data[item.at]!
  if (first < 0x80 && first > 0) return BigInt(first)
  if (first === 0x80) return 0n
  const bytes = bytesOf(item, type)
  if (bytes.length > maxBytes) throw new FieldError('input string too long', type)
  if (bytes[0] === 0) throw new FieldError('non-canonical integer (leading zero bytes)', type)
  return bytesToBigint(bytes)
}

function readBoolean(item: Item, type: string): boolean {
  const value = uintOf(item, 1, type)
  if (value > 1n) throw new RlpError(`rlp: invalid boolean value: ${value}`)
  return value === 1n
}

function listOf({ data, at }: Item, type: string): List {
  if (!isListAt(data, at)) throw new FieldError('expected input list', type)
  const { start, next: end } = spanAt(data, at)
  return { data, start, end }
}

function each<T>(item: Item, type: string, read: (one: Item) => T): T[] {
  const { data, start, end } = listOf(item, type)
  const one: Item = { data, at: start }
  const all: T[] = []
  try {
    for (; one.at < end; one.at = spanAt(data, one.at).next) all.push(read(one))
  } catch (error) {
    throw inField(error, `[${all.length}]`)
  }
  return all
}

/** @param transaction an object with the fields of its form */
export function writeFields(fields: readonly Field[], transaction: object): RlpItem[] {
  const values = transaction as Values
  return fields.map(([name, kind]) => writeField(kind, values[name]))
}

/**
 * `value` has the type of `kind`, because the tables below and transaction.ts list the same fields.
 */
function writeField(kind: Kind, value: unknown): RlpItem {
  switch (kind) {
    case 'uint8':
    case 'uint64':
    case 'bigInt':
    case 'uint256':
      return rlpUint(value as bigint)
    case 'to':
      return (value as Bytes | undefined) ?? NO_BYTES
    case 'bool':
      return rlpUint(value === true ? 1 : 0)
    case 'accessList':
      return (value as AccessList).map((entry) => writeFields(ACCESS.fields, entry))
    case 'authorizations':
      return (value as readonly Authorization[]).map((entry) =>
        writeFields(AUTHORIZATION.fields, entry),
      )
    case 'refunds':
      return (value as readonly GasRefund[]).map((entry) => writeFields(REFUND.fields, entry))
    default:
      return value as RlpItem
  }
}

type Kind = keyof typeof GO_TYPES
/** geth's type of each kind, for messages. Older transactions have `big.Int`. */
const GO_TYPES = {
  uint8: 'uint8',
  uint64: 'uint64',
  bigInt: '*big.Int',
  uint256: '*uint256.Int',
  to: 'common.Address',
  address: 'common.Address',
  hash: 'common.Hash',
  bytes: '[]uint8',
  bool: 'bool',
  accessList: 'types.AccessList',
  hashes: '[]common.Hash',
  authorizations: '[]types.SetCodeAuthorization',
  refunds: '[]types.SDMGasEntry',
} as const
type Field = readonly [name: string, kind: Kind]
const LISTS: ReadonlySet<Kind> = new Set(['accessList', 'hashes', 'authorizations', 'refunds'])

/** geth's names of fields, for messages. Other names only begin with a capital letter there. */
const GO_NAMES: Readonly<Record<string, string>> = {
  chainId: 'ChainID',
  maxPriorityFeePerGas: 'GasTipCap',
  maxFeePerGas: 'GasFeeCap',
  gasLimit: 'Gas',
  input: 'Data',
  maxFeePerBlobGas: 'BlobFeeCap',
  blobVersionedHashes: 'BlobHashes',
  authorizationList: 'AuthList',
  yParity: 'V',
}
const goNameOf = ([name]: Field): string =>
  GO_NAMES[name] ?? `${name.charAt(0).toUpperCase()}${name.slice(1)}`

const ACCESS: Tuple = {
  name: 'AccessTuple',
  fields: [
    ['address', 'address'],
    ['storageKeys', 'hashes'],
  ],
}
const AUTHORIZATION: Tuple = {
  name: 'SetCodeAuthorization',
  fields: [
    ['chainId', 'uint256'],
    ['address', 'address'],
    ['nonce', 'uint64'],
    ['yParity', 'uint8'],
    ['r', 'uint256'],
    ['s', 'uint256'],
  ],
}
const REFUND: Tuple = {
  name: 'SDMGasEntry',
  fields: [
    ['index', 'uint64'],
    ['gasRefund', 'uint64'],
  ],
}

type Uint = 'bigInt' | 'uint256'
const NONCE: Field = ['nonce', 'uint64']
const ACCESS_LIST: Field = ['accessList', 'accessList']
const signature = (uint: Uint): readonly Field[] => [
  ['v', uint],
  ['r', uint],
  ['s', uint],
]
const message = (to: 'to' | 'address', uint: Uint): readonly Field[] => [
  ['gasLimit', 'uint64'],
  ['to', to],
  ['value', uint],
  ['input', 'bytes'],
]
/** The fields of a transaction with dynamic fees, up to its access list. */
const dynamicFee = (to: 'to' | 'address', uint: Uint): readonly Field[] => [
  ['chainId', uint],
  NONCE,
  ['maxPriorityFeePerGas', uint],
  ['maxFeePerGas', uint],
  ...message(to, uint),
  ACCESS_LIST,
]

const FORMS: ReadonlyMap<number, Form> = new Map(
  (
    [
      {
        type: 0,
        name: 'LegacyTx',
        fields: [NONCE, ['gasPrice', 'bigInt'], ...message('to', 'bigInt'), ...signature('bigInt')],
      },
      {
        type: 1,
        name: 'AccessListTx',
        fields: [
          ['chainId', 'bigInt'],
          NONCE,
          ['gasPrice', 'bigInt'],
          ...message('to', 'bigInt'),
          ACCESS_LIST,
          ...signature('bigInt'),
        ],
      },
      {
        type: 2,
        name: 'DynamicFeeTx',
        fields: [...dynamicFee('to', 'bigInt'), ...signature('bigInt')],
      },
      {
        type: 3,
        name: 'BlobTx',
        fields: [
          ...dynamicFee('address', 'uint256'),
          ['maxFeePerBlobGas', 'uint256'],
          ['blobVersionedHashes', 'hashes'],
          ...signature('uint256'),
        ],
      },
      {
        type: 4,
        name: 'SetCodeTx',
        fields: [
          ...dynamicFee('address', 'uint256'),
          ['authorizationList', 'authorizations'],
          ...signature('uint256'),
        ],
      },
      {
        type: 0x7d,
        name: 'PostExecTx',
        fields: [
          ['version', 'uint64'],
          ['blockNumber', 'uint64'],
          ['refunds', 'refunds'],
        ],
      },
      {
        type: 0x7e,
        name: 'DepositTx',
        fields: [
          ['sourceHash', 'hash'],
          ['from', 'address'],
          ['to', 'to'],
          ['mint', 'bigInt'],
          ['value', 'bigInt'],
          ['gasLimit', 'uint64'],
          ['isSystemTransaction', 'bool'],
          ['input', 'bytes'],
        ],
      },
    ] satisfies Form[]
  ).map((form) => [form.type, form]),
)
