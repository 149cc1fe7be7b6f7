/** P256VERIFY (EIP-7951): digest, r, s, x and y of the key, a word each. What is no valid signature gives no output, and is no fault. */
import { p256 } from '@noble/curves/nist.js'
import { type Contract, fixed, NOTHING, truth } from './contract.ts'

export const p256Verify = (gas: bigint): Contract => ({
  gas: fixed(gas),
  run(input) {
    if (input.length !== 160) return NOTHING
    const key = new Uint8Array(65)
    key[0] = 4
    key.set(input.subarray(96), 1)
    return isSigned(input.subarray(0, 32), input.subarray(32, 96), key) ? truth(true) : NOTHING
  },
})

function isSigned(digest: Uint8Array, signature: Uint8Array, key: Uint8Array): boolean {
  try {
    return p256.verify(signature, digest, key, { lowS: false, prehash: false })
  } catch {
    return false
  }
}
