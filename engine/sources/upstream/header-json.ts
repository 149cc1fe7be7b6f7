/** Decodes headers of eth_getBlockByNumber and newHeads (execution-apis: schemas/block.yaml). */

import type { Hex } from '../../primitives/bytes.ts'
import type { Header } from '../../primitives/header.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import {
  type JsonObject,
  readBytes,
  readObject,
  readQuantity,
} from '../../primitives/json-fields.ts'

/** The announced part of a block, before it is fetched. */
export type Head = {
  readonly number: number
  readonly hash: Hex
  readonly parentHash: Hex
  /** Seconds. */
  readonly timestamp: number
}

/**
 * Decodes a head without a check; the fetched block is verified against its hash.
 * @throws {Refusal}
 */
export function decodeHead(json: unknown): Head {
  const block = readObject(json, 'block')
  return {
    number: Number(readQuantity(block['number'], 'number', 53)),
    hash: bytesToHex(readBytes(block['hash'], 'hash', 32)),
    parentHash: bytesToHex(readBytes(block['parentHash'], 'parentHash', 32)),
    timestamp: Number(readQuantity(block['timestamp'], 'timestamp', 53)),
  }
}

/**
 * Decodes every field that a header may have. Fields of later forks are absent if the block lacks
 * them.
 * @throws {Refusal}
 */
export function decodeHeaderJson(block: JsonObject): Header {
  const header: Record<string, unknown> = {}
  for (const [key, name, size] of FIELDS) {
    const value = block[key] ?? undefined
    if (value === undefined && OPTIONAL.has(name)) continue
    header[name] =
      size === 'quantity'
        ? readQuantity(value, key, 256)
        : readBytes(value, key, size === 'bytes' ? undefined : size)
  }
  // FIELDS has all fields of a header with their kinds.
  return header as unknown as Header
}

type Field = readonly [key: string, name: keyof Header, size: number | 'bytes' | 'quantity']
const FIELDS: readonly Field[] = [
  ['parentHash', 'parentHash', 32],
  ['sha3Uncles', 'ommersHash', 32],
  ['miner', 'coinbase', 20],
  ['stateRoot', 'stateRoot', 32],
  ['transactionsRoot', 'transactionsRoot', 32],
  ['receiptsRoot', 'receiptsRoot', 32],
  ['logsBloom', 'logsBloom', 256],
  ['difficulty', 'difficulty', 'quantity'],
  ['number', 'number', 'quantity'],
  ['gasLimit', 'gasLimit', 'quantity'],
  ['gasUsed', 'gasUsed', 'quantity'],
  ['timestamp', 'timestamp', 'quantity'],
  ['extraData', 'extraData', 'bytes'],
  ['mixHash', 'mixHash', 32],
  ['nonce', 'nonce', 8],
  ['baseFeePerGas', 'baseFeePerGas', 'quantity'],
  ['withdrawalsRoot', 'withdrawalsRoot', 32],
  ['blobGasUsed', 'blobGasUsed', 'quantity'],
  ['excessBlobGas', 'excessBlobGas', 'quantity'],
  ['parentBeaconBlockRoot', 'parentBeaconBlockRoot', 32],
  ['requestsHash', 'requestsHash', 32],
  ['blockAccessListHash', 'blockAccessListHash', 32],
  ['slotNumber', 'slotNumber', 'quantity'],
]
const OPTIONAL: ReadonlySet<keyof Header> = new Set([
  'baseFeePerGas',
  'withdrawalsRoot',
  'blobGasUsed',
  'excessBlobGas',
  'parentBeaconBlockRoot',
  'requestsHash',
  'blockAccessListHash',
  'slotNumber',
])
