/** Price of blob gas on an L1 chain (EIP-4844). */
import type { Rules } from '../../chainspec/types.ts'

/** Wei per blob gas; 1 where there are no blobs, as on an OP chain. */
export function blobBaseFee(rules: Rules, excessBlobGas: bigint): bigint {
  if (rules.blobs === undefined || excessBlobGas === 0n) return 1n
  return fakeExponential(excessBlobGas, rules.blobs.updateFraction)
}

/** e^(numerator / denominator) by the series that the EIP fixes. */
function fakeExponential(numerator: bigint, denominator: bigint): bigint {
  let sum = 0n
  let term = denominator
  for (let n = 1n; term > 0n; n++) {
    sum += term
    term = (term * numerator) / (denominator * n)
  }
  return sum / denominator
}
