/** Answers of an upstream that lies. */

import type { Header } from '../../../engine/primitives/header.ts'
import { hashHeader } from '../../../engine/primitives/header-codec.ts'
import { bytesToHex, hexToBytes } from '../../../engine/primitives/hex.ts'

type Json = Record<string, unknown>

/** A field is changed, the hash is not: whoever hashes the block sees it. */
export const wrongBlock = (block: Json): Json => ({ ...block, gasUsed: '0x1234567' })

/** What the account has is not what its proof says. */
export const wrongProof = (proof: Json): Json => ({ ...proof, balance: '0x123456789' })

/** A block of its own making, whose hash is right: only who executes it sees that it is none. */
export function forgedBlock(block: Json): Json {
  const forged: Json = { ...block, receiptsRoot: `0x${'ab'.repeat(32)}` }
  return { ...forged, hash: bytesToHex(hashHeader(headerOf(forged))) }
}

function headerOf(json: Json): Header {
  const bytes = (key: string) => hexToBytes(json[key] as `0x${string}`)
  const quantity = (key: string) => BigInt(json[key] as string)
  const has = (key: string) => json[key] !== undefined && json[key] !== null
  return {
    parentHash: bytes('parentHash'),
    ommersHash: bytes('sha3Uncles'),
    coinbase: bytes('miner'),
    stateRoot: bytes('stateRoot'),
    transactionsRoot: bytes('transactionsRoot'),
    receiptsRoot: bytes('receiptsRoot'),
    logsBloom: bytes('logsBloom'),
    difficulty: quantity('difficulty'),
    number: quantity('number'),
    gasLimit: quantity('gasLimit'),
    gasUsed: quantity('gasUsed'),
    timestamp: quantity('timestamp'),
    extraData: bytes('extraData'),
    mixHash: bytes('mixHash'),
    nonce: bytes('nonce'),
    ...(has('baseFeePerGas') ? { baseFeePerGas: quantity('baseFeePerGas') } : {}),
    ...(has('withdrawalsRoot') ? { withdrawalsRoot: bytes('withdrawalsRoot') } : {}),
    ...(has('blobGasUsed') ? { blobGasUsed: quantity('blobGasUsed') } : {}),
    ...(has('excessBlobGas') ? { excessBlobGas: quantity('excessBlobGas') } : {}),
    ...(has('parentBeaconBlockRoot')
      ? { parentBeaconBlockRoot: bytes('parentBeaconBlockRoot') }
      : {}),
    ...(has('requestsHash') ? { requestsHash: bytes('requestsHash') } : {}),
  }
}
