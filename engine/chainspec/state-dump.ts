/**
 * Reads an account dump (reth's `init-state` form) and the header of its block.
 * The dump is JSON lines: first `{"root": "0x…"}`, then one account per line, `{"address",
 * "balance", "nonce", "code", "storage"}`. Accounts are as in a genesis.json, the header as in a
 * response of `eth_getBlockByNumber`.
 */
import type { Bytes } from '../primitives/bytes.ts'
import { type Header, hashHeader } from '../primitives/header.ts'
import { bytesToHex } from '../primitives/hex.ts'
import { isGiven, readHex, readObject, readUint } from '../primitives/json-fields.ts'
import { equalBytes } from '../primitives/words.ts'
import { ChainError, readingChain } from './error.ts'
import { type AccountKey, accountOf } from './genesis-file.ts'
import type { GenesisAccount } from './types.ts'

export type DumpedAccount = { readonly address: Bytes; readonly account: GenesisAccount }

/**
 * Decodes the first line of a dump.
 * @param where name of the line in messages
 * @throws {ChainError} that names the wrong key
 */
export function decodeDumpRoot(line: string, where: string): Bytes {
  return readingChain(() => {
    const { root } = readObject<'root'>(parsed(line, where), where)
    return readHex(root, `${where}: root`, 32)
  })
}

/**
 * Decodes an account's line.
 * @param where name of the line in messages
 * @throws {ChainError} that names the wrong key
 */
export function decodeDumpAccount(line: string, where: string): DumpedAccount {
  return readingChain(() => {
    const json = readObject<AccountKey | 'address'>(parsed(line, where), where)
    return {
      address: readHex(json.address, `${where}: address`, 20),
      account: accountOf(json, where),
    }
  })
}

type HeaderKey =
  | Exclude<keyof Header, 'ommersHash' | 'coinbase'>
  | 'sha3Uncles'
  | 'miner'
  | 'hash'
  | 'result'

/**
 * Decodes the header.
 * @throws {ChainError} for wrong fields, or for a hash that does not match the fields
 */
export function decodeHeaderFile(text: string, where: string): Header {
  return readingChain(() => readHeader(text, where))
}

function readHeader(text: string, where: string): Header {
  const file = readObject<HeaderKey>(parsed(text, where), where)
  // The file may contain the whole response of a node.
  const json = isGiven(file.result) ? readObject<HeaderKey>(file.result, `${where}: result`) : file
  const at = (key: HeaderKey) => `${where}: ${key}`
  const word = (key: HeaderKey, length = 32) => readHex(json[key], at(key), length)
  const uint = (key: HeaderKey, bits?: number) => readUint(json[key], at(key), bits)
  const optional = <Value>(key: HeaderKey & keyof Header, read: (key: HeaderKey) => Value) =>
    isGiven(json[key]) ? { [key]: read(key) } : {}
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
    extraData: readHex(json.extraData, at('extraData')),
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
  if (isGiven(json.hash) && !equalBytes(word('hash'), hash))
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
