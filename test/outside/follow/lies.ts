/** These functions make responses of an upstream that lies. */
import { hashHeader } from '../../../engine/primitives/header.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { headerOfJson } from '../../fixtures/blocks.ts'

type Json = Record<string, unknown>

/** Changes a field but not the hash, so that hashing the block shows the lie. */
export const wrongBlock = (block: Json): Json => ({ ...block, gasUsed: '0x1234567' })

/** Makes a proof whose balance contradicts the proven account. */
export const wrongProof = (proof: Json): Json => ({ ...proof, balance: '0x123456789' })

/** Makes an invented block with a correct hash, so that only its execution shows the lie. */
export function forgedBlock(block: Json): Json {
  const forged: Json = { ...block, receiptsRoot: `0x${'ab'.repeat(32)}` }
  return { ...forged, hash: bytesToHex(hashHeader(headerOfJson(forged))) }
}
