/**
 * An account dump: JSON lines, the first `{"root": "0x…"}`, then one account a line, `{"address", "balance", "nonce", "code", "storage"}`
 * as in a genesis.json's allocation (reth's `init-state` form); and the header of the block whose state it is, as
 * `eth_getBlockByNumber` answers it.
 */
import type { Bytes } from '../primitives/bytes.ts'
import type { Header } from '../primitives/header.ts'
import { hashHeader } from '../primitives/header-codec.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { equalBytes } from '../primitives/words.ts'
import { ChainError } from './error.ts'
import { type AccountKey, accountOf } from './genesis-file.ts'
import { bytesOf, fixedOf, given, objectOf, uintOf } from './json.ts'
import type { GenesisAccount } from './types.ts'

export type DumpedAccount = { readonly address: Bytes; readonly account: GenesisAccount }

/** @param where names the line in messages @throws {ChainError} */
export function decodeDumpRoot(line: string, where: string): Bytes {
  const { root } = objectOf<'root'>(parsed(line, where), where)
  return fixedOf(root, 32, `${where}: root`)
}

/** @param where names the line in messages @throws {ChainError} */
export function decodeDumpAccount(line: string, where: string): DumpedAccount {
  const json = objectOf<AccountKey | 'address'>(parsed(line, where), where)
  return {
    address: fixedOf(json.address, 20, `${where}: address`),
    account: accountOf(json, where),
  }
}

type HeaderKey =
  | Exclude<keyof Header, 'ommersHash' | 'coinbase'>
  | 'sha3Uncles'
  | 'miner'
  | 'hash'
  | 'result'

/** @throws {ChainError} also where a hash is given that is not that of the fields */
export function decodeHeaderFile(text: string, where: string): Header {
  const file = objectOf<HeaderKey>(parsed(text, where), where)
  // The whole answer of a node, as it was saved.
  const json = given(file.result) ? objectOf<HeaderKey>(file.result, `${where}: result`) : file
  const at = (key: HeaderKey) => `${where}: ${key}`
  const word = (key: HeaderKey, length = 32) => fixedOf(json[key], length, at(key))
  const uint = (key: HeaderKey, bits?: number) => uintOf(json[key], at(key), bits)
  const optional = <Value>(key: HeaderKey & keyof Header, read: (key: HeaderKey) => Value) =>
    given(json[key]) ? { [key]: read(key) } : {}
  const header: Header = {
    parentHash: word('parentHash'),
    ommersHash: word('sha3Uncles'),
    coinbase: word('miner', 20),
    stateRoot: word('stateRoot'),
    transactionsRoot: word('transactionsRoot'),
    receiptsRoot: word('receiptsRoot'),
    logsBloom: word('logsBloom', 256),
    difficulty: uint('difficulty', 256),
    number: uint('number', 53),
    gasLimit: uint('gasLimit'),
    gasUsed: uint('gasUsed'),
    timestamp: uint('timestamp'),
    extraData: bytesOf(json.extraData, at('extraData')),
    mixHash: word('mixHash'),
    nonce: word('nonce', 8),
    ...optional('baseFeePerGas', (key) => uint(key, 256)),
    ...optional('withdrawalsRoot', word),
    ...optional('blobGasUsed', uint),
    ...optional('excessBlobGas', uint),
    ...optional('parentBeaconBlockRoot', word),
    ...optional('requestsHash', word),
    ...optional('blockAccessListHash', word),
    ...optional('slotNumber', uint),
  }
  const hash = hashHeader(header)
  if (given(json.hash) && !equalBytes(word('hash'), hash))
    throw new ChainError(
      `${at('hash')} is ${bytesToHex(word('hash'))}, its fields have the hash ${bytesToHex(hash)}`,
    )
  return header
}

function parsed(text: string, where: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new ChainError(`${where} is not JSON: ${(error as Error).message}`)
  }
}
