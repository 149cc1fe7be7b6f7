/** Answers of an upstream that lies. */
import { hashHeader } from '../../../engine/primitives/header-codec.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { headerOfJson } from '../../fixtures/blocks.ts'

type Json = Record<string, unknown>

/** A field is changed, the hash is not: whoever hashes the block sees it. */
export const wrongBlock = (block: Json): Json => ({ ...block, gasUsed: '0x1234567' })

/** What the account has is not what its proof says. */
export const wrongProof = (proof: Json): Json => ({ ...proof, balance: '0x123456789' })

/** A block of its own making, whose hash is right: only who executes it sees that it is none. */
export function forgedBlock(block: Json): Json {
  const forged: Json = { ...block, receiptsRoot: `0x${'ab'.repeat(32)}` }
  return { ...forged, hash: bytesToHex(hashHeader(headerOfJson(forged))) }
}
