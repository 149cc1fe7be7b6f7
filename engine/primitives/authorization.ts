/** Authorizations of set-code transactions (EIP-7702): who signed one. */
import type { Bytes } from './bytes.ts'
import { keccak256 } from './keccak.ts'
import { encodeRlp, rlpUint } from './rlp.ts'
import { MAX_LOW_S, recoverAddress } from './signature.ts'
import type { Authorization } from './transaction.ts'
import { concatBytes } from './words.ts'

/** What an authority signs. 32 bytes. */
export function authorizationHash(
  authorization: Pick<Authorization, 'chainId' | 'address' | 'nonce'>,
): Bytes {
  const { chainId, address, nonce } = authorization
  return keccak256(
    concatBytes(Uint8Array.of(0x05), encodeRlp([rlpUint(chainId), address, rlpUint(nonce)])),
  )
}

/** The authority's address; undefined: such an authorization is skipped. Chain id and nonce are the caller's to check. */
export function recoverAuthority(authorization: Authorization): Bytes | undefined {
  const { r, s, yParity } = authorization
  if (s > MAX_LOW_S || yParity > 1n) return undefined
  return recoverAddress(authorizationHash(authorization), r, s, yParity === 0n ? 0 : 1)
}
