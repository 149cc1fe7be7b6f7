/**
 * The fields of each type of transaction in order, and the reader and writer of each kind of field.
 */
import { type Bytes, NO_BYTES } from './bytes.ts'
import { checkRlp, RlpError, type RlpItem, readFixed, readUint, rlpUint, spanAt } from './rlp.ts'
import type { AccessList, Authorization, GasRefund, Transaction } from './transaction.ts'

export type Form = {
  readonly type: Transaction['type']
  /** geth's name of the type, for messages. */
  readonly name: string
  readonly fields: readonly Field[]
  /** Path of each field, for messages. */
  readonly paths: readonly string[]
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
  return fieldsOf(form, data, (values, { name, kind }, item) => {
    values[name] = readField(item, kind)
  })
}

/**
 * Reads data that `readFields` has accepted before, for a fraction of the cost. Inner lists are
 * decoded on first use.
 * @throws {RlpError} for other data, at once or at the first use of a list
 */
export function peekFields(form: Form, data: Bytes): Values {
  return fieldsOf(form, data, (values, { name, kind }, item) => {
    if (!LISTS.has(kind)) values[name] = readField(item, kind)
    else {
      const { at, where } = item
      readLater(values, name, () => {
        const list = { data, at, where }
        checkRlp(data.subarray(at, spanAt(data, at).next))
        return readField(list, kind)
      })
    }
  })
}

/** One item of a list; `where` is appended to error texts. */
type Item = { readonly data: Bytes; at: number; where: string }
type Put = (
  values: Values,
  field: { readonly name: string; readonly kind: Kind },
  item: Item,
) => void

/**
 * Items are counted before the first one is read, so that an attack with thousands of small items
 * allocates nothing.
 */
function fieldsOf(form: Form, data: Bytes, put: Put): Values {
  const name = `types.${form.name}`
  if (!isListAt(data, 0)) throw new RlpError(`rlp: expected input list for ${name}`)
  const { start, next: end } = spanAt(data, 0)
  if (end !== data.length) throw new RlpError('rlp: input contains more than one value')
  checkCount({ data, start, end }, form.fields.length, `for ${name}`)
  const values: Values = {}
  const item: Item = { data, at: start, where: '' }
  for (const [index, [field, kind]] of form.fields.entries()) {
    item.where = form.paths[index]!
    put(values, { name: field, kind }, item)
    item.at = spanAt(data, item.at).next
  }
  return values
}

type List = { readonly data: Bytes; readonly start: number; readonly end: number }

/** @param where appended to "too few elements" */
function checkCount({ data, start, end }: List, count: number, where: string): void {
  let found = 0
  for (let at = start; at < end && found <= count; at = spanAt(data, at).next) found++
  if (found < count) throw new RlpError(`rlp: too few elements ${where}`)
  if (found > count) throw new RlpError(`rlp: input list has too many elements ${where}`)
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

function readField(item: Item, kind: Kind): unknown {
  switch (kind) {
    case 'uint64':
      return uintOf(item, 8)
    case 'uint256':
      return uintOf(item, 32)
    case 'to':
      return item.data[item.at] === 0x80 ? undefined : fixedOf(item, 20)
    case 'address':
      return fixedOf(item, 20)
    case 'hash':
      return fixedOf(item, 32)
    case 'bytes':
      return bytesOf(item)
    case 'bool':
      return readBoolean(item)
    case 'accessList':
      return each(item, readAccess)
    case 'hashes':
      return each(item, (hash) => fixedOf(hash, 32))
    case 'authorizations':
      return each(item, readAuthorization)
    case 'refunds':
      return each(item, readRefund)
  }
}

function bytesOf({ data, at, where }: Item): Bytes {
  const { start, next } = spanAt(data, at)
  if (isListAt(data, at)) throw new RlpError(`rlp: expected input string or byte${where}`)
  return data.subarray(start, next)
}
function fixedOf(item: Item, length: number): Bytes {
  return readFixed(bytesOf(item), length, item.where)
}
function uintOf(item: Item, maxBytes: number): bigint {
  const first = item.data[item.at]!
  if (first < 0x80 && first > 0) return BigInt(first)
  return first === 0x80 ? 0n : readUint(bytesOf(item), maxBytes, item.where)
}

function readBoolean(item: Item): boolean {
  const value = uintOf(item, 1)
  if (value > 1n) throw new RlpError(`rlp: invalid boolean value: ${value}${item.where}`)
  return value === 1n
}

function listOf({ data, at, where }: Item): List {
  if (!isListAt(data, at)) throw new RlpError(`rlp: expected input list${where}`)
  const { start, next: end } = spanAt(data, at)
  return { data, start, end }
}

function each<T>(item: Item, read: (one: Item) => T): T[] {
  const { data, start, end } = listOf(item)
  const one: Item = { data, at: start, where: item.where }
  const all: T[] = []
  for (; one.at < end; one.at = spanAt(data, one.at).next) all.push(read(one))
  return all
}

/** Returns an item that moves from field to field of a tuple. */
function tupleOf(item: Item, count: number, name: string): Item {
  const list = listOf(item)
  checkCount(list, count, `for types.${name}${item.where}`)
  return { data: list.data, at: list.start, where: item.where }
}
function pass<T>(item: Item, value: T): T {
  item.at = spanAt(item.data, item.at).next
  return value
}

function readAccess(item: Item): AccessList[number] {
  const field = tupleOf(item, 2, 'AccessTuple')
  const address = pass(field, fixedOf(field, 20))
  return { address, storageKeys: each(field, (key) => fixedOf(key, 32)) }
}

function readAuthorization(item: Item): Authorization {
  const field = tupleOf(item, 6, 'SetCodeAuthorization')
  return {
    chainId: pass(field, uintOf(field, 32)),
    address: pass(field, fixedOf(field, 20)),
    nonce: pass(field, uintOf(field, 8)),
    yParity: pass(field, uintOf(field, 1)),
    r: pass(field, uintOf(field, 32)),
    s: uintOf(field, 32),
  }
}

function readRefund(item: Item): GasRefund {
  const field = tupleOf(item, 2, 'SDMGasEntry')
  return { index: pass(field, uintOf(field, 8)), gasRefund: uintOf(field, 8) }
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
    case 'uint64':
    case 'uint256':
      return rlpUint(value as bigint)
    case 'to':
      return (value as Bytes | undefined) ?? NO_BYTES
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
    case 'refunds':
      return (value as readonly GasRefund[]).map((entry) => [
        rlpUint(entry.index),
        rlpUint(entry.gasRefund),
      ])
    default:
      return value as RlpItem
  }
}

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
  | 'refunds'
type Field = readonly [name: string, kind: Kind]
const LISTS: ReadonlySet<Kind> = new Set(['accessList', 'hashes', 'authorizations', 'refunds'])

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

const fieldPathsOf = ({ name, fields }: Pick<Form, 'name' | 'fields'>): string[] =>
  fields.map(([field]) => `, decoding into (types.${name}).${field}`)

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
          ['mint', 'uint256'],
          ['value', 'uint256'],
          ['gasLimit', 'uint64'],
          ['isSystemTransaction', 'bool'],
          ['input', 'bytes'],
        ],
      },
    ] satisfies Omit<Form, 'paths'>[]
  ).map((form) => [form.type, { ...form, paths: fieldPathsOf(form) }]),
)
