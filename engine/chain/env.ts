/** Block environments of blocks that are there already. */
import type { ChainSpec } from '../chainspec/types.ts'
import type { BlockEnv } from '../evm/engine.ts'
import type { Header } from '../primitives/header.ts'

/** What the block of this header ran in. */
export function envOf(header: Header, chain: ChainSpec): BlockEnv {
  const { blobs } = chain.rulesAt(header.number, header.timestamp)
  return {
    number: header.number,
    timestamp: header.timestamp,
    gasLimit: header.gasLimit,
    baseFee: header.baseFeePerGas ?? 0n,
    coinbase: header.coinbase,
    prevRandao: header.mixHash,
    blobBaseFee:
      blobs === undefined ? 1n : blobBaseFee(header.excessBlobGas ?? 0n, blobs.updateFraction),
    difficulty: header.difficulty,
  }
}

/** Wei per blob gas: e^(excess / fraction), as the sum of the terms of its series that are not yet 0 (EIP-4844). */
function blobBaseFee(excessBlobGas: bigint, fraction: bigint): bigint {
  let sum = 0n
  let term = fraction
  for (let i = 1n; term > 0n; i++) {
    sum += term
    term = (term * excessBlobGas) / (fraction * i)
  }
  return sum / fraction
}
