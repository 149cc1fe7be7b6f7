/**
 * Encodes transactions of eth_getBlockByNumber. Deposits differ between clients (op-geth:
 * internal/ethapi; op-reth: op-alloy-consensus, TxDeposit). `mint` and `isSystemTx` may be absent,
 * and the second may be a quantity.
 */

import type { Bytes } from '../../primitives/bytes.ts'
import {
  field,
  type JsonObject,
  Refusal,
  readArray,
  readBytes,
  readObject,
  readQuantity,
} from '../../primitives/json-fields.ts'
import type {
  AccessList,
  Authorization,
  DepositTransaction,
  SignedTransaction,
} from '../../primitives/transaction.ts'
import { encodeTransaction } from '../../primitives/transaction-codec.ts'
import { concatBytes } from '../../primitives/words.ts'

/**
 * Encodes the fields; the caller compares the hash.
 * @throws {Refusal}
 */
export function encodeTransactionJson(json: unknown): Bytes {
  const wire = readObject(json, 'transaction')
  const type = Number(readQuantity(field(wire, 'type') ?? '0x0', 'type', 8))
  // The object of a post-exec transaction has only `input`: the bytes after the type.
  if (type === 0x7d)
    return concatBytes(Uint8Array.of(type), readBytes(field(wire, 'input'), 'input'))
  const common = {
    to: toOf(wire),
    value: readQuantity(field(wire, 'value'), 'value', 256),
    gasLimit: readQuantity(field(wire, 'gas') ?? field(wire, 'gasLimit'), 'gas'),
    input: readBytes(field(wire, 'input') ?? field(wire, 'data'), 'input'),
  }
  if ((type === 3 || type === 4) && common.to === undefined)
    throw new Refusal('to', 'an address: this type creates nothing')
  if (type === 0x7e) return encodeTransaction({ ...common, ...depositOf(wire), type })
  const signed = {
    ...common,
    type,
    nonce: readQuantity(field(wire, 'nonce'), 'nonce'),
    v: type === 0 ? uint(wire, 'v') : parityOf(wire),
    r: uint(wire, 'r'),
    s: uint(wire, 's'),
    ...feesOf(wire, type),
  }
  // `feesOf` has read the fields of each type.
  return encodeTransaction(signed as unknown as Omit<SignedTransaction, 'raw' | 'hash' | 'from'>)
}

type DepositFields = Pick<
  DepositTransaction,
  'from' | 'sourceHash' | 'mint' | 'isSystemTransaction'
>

const depositOf = (wire: JsonObject): DepositFields => ({
  sourceHash: readBytes(field(wire, 'sourceHash'), 'sourceHash', 32),
  from: readBytes(field(wire, 'from'), 'from', 20),
  mint: readQuantity(field(wire, 'mint') ?? '0x0', 'mint', 256),
  isSystemTransaction: flagOf(field(wire, 'isSystemTx') ?? field(wire, 'isSystemTransaction')),
})

function flagOf(value: unknown): boolean {
  if (value === undefined || value === false || value === '0x0') return false
  if (value === true || value === '0x1') return true
  throw new Refusal('isSystemTx', 'a boolean', value)
}

/** The field of a creation is absent, null or empty. */
function toOf(wire: JsonObject): Bytes | undefined {
  const to = field(wire, 'to')
  return to === undefined || to === '0x' ? undefined : readBytes(to, 'to', 20)
}

function feesOf(wire: JsonObject, type: number): object {
  if (type === 0) return { gasPrice: uint(wire, 'gasPrice') }
  const listed = { chainId: uint(wire, 'chainId'), accessList: accessListOf(wire) }
  if (type === 1) return { ...listed, gasPrice: uint(wire, 'gasPrice') }
  const dynamic = {
    ...listed,
    maxFeePerGas: uint(wire, 'maxFeePerGas'),
    maxPriorityFeePerGas: uint(wire, 'maxPriorityFeePerGas'),
  }
  if (type === 2) return dynamic
  if (type === 3)
    return {
      ...dynamic,
      maxFeePerBlobGas: uint(wire, 'maxFeePerBlobGas'),
      blobVersionedHashes: readArray(field(wire, 'blobVersionedHashes'), 'blobVersionedHashes').map(
        (hash) => readBytes(hash, 'blobVersionedHashes', 32),
      ),
    }
  if (type === 4) return { ...dynamic, authorizationList: authorizationsOf(wire) }
  throw new Refusal('type', 'a type of transaction that is known', type)
}

const uint = (wire: JsonObject, key: string): bigint => readQuantity(field(wire, key), key, 256)

/**
 * `v` of typed transactions is the parity. Some clients have 27 or 28 there and the parity in
 * `yParity`.
 */
const parityOf = (wire: JsonObject): bigint =>
  readQuantity(field(wire, 'yParity') ?? field(wire, 'v'), 'yParity', 256)

function accessListOf(wire: JsonObject): AccessList {
  return readArray(field(wire, 'accessList') ?? [], 'accessList').map((entry) => {
    const { address, storageKeys } = readObject(entry, 'accessList')
    return {
      address: readBytes(address, 'accessList.address', 20),
      storageKeys: readArray(storageKeys ?? [], 'accessList.storageKeys').map((key) =>
        readBytes(key, 'accessList.storageKeys', 32),
      ),
    }
  })
}

function authorizationsOf(wire: JsonObject): readonly Authorization[] {
  return readArray(field(wire, 'authorizationList'), 'authorizationList').map((entry) => {
    const one = readObject(entry, 'authorizationList')
    return {
      chainId: uint(one, 'chainId'),
      address: readBytes(field(one, 'address'), 'authorizationList.address', 20),
      nonce: readQuantity(field(one, 'nonce'), 'authorizationList.nonce'),
      yParity: parityOf(one),
      r: uint(one, 'r'),
      s: uint(one, 's'),
    }
  })
}
