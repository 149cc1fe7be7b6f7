/**
 * Authorizations of a set-code transaction (EIP-7702), by which accounts delegate to a contract's
 * code.
 */
import type { Session } from '../../evm/engine.ts'
import { MAX_NONCE } from '../../evm/nonce-limit.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { EMPTY_HASH } from '../../primitives/keccak.ts'
import { recoverAuthority } from '../../primitives/signature.ts'
import type { Authorization } from '../../primitives/transaction.ts'
import { concatBytes, equalBytes, ZERO_20 } from '../../primitives/words.ts'
import { isDelegation } from './validation.ts'

/**
 * Applies the valid authorizations and skips the others.
 * @returns gas to refund for authorities that existed
 */
export function applyAuthorizations(
  session: Session,
  list: readonly Authorization[],
  chainId: bigint,
): bigint {
  let refund = 0n
  for (const authorization of list) refund += apply(session, authorization, chainId)
  return refund
}

/** PER_EMPTY_ACCOUNT_COST − PER_AUTH_BASE_COST. */
const EXISTING_REFUND = 12_500n
const DELEGATION = Uint8Array.of(0xef, 0x01, 0x00)

/**
 * Returns the authority that the authorization warms, even if code or nonce make the authorization
 * invalid.
 */
export function warmedAuthority(authorization: Authorization, chainId: bigint): Bytes | undefined {
  if (authorization.chainId !== 0n && authorization.chainId !== chainId) return undefined
  if (authorization.nonce >= MAX_NONCE) return undefined
  return recoverAuthority(authorization)
}

function apply(session: Session, authorization: Authorization, chainId: bigint): bigint {
  const authority = warmedAuthority(authorization, chainId)
  if (authority === undefined) return 0n
  session.warm(authority)
  const { nonce, codeHash } = session.account(authority)
  if (!equalBytes(codeHash, EMPTY_HASH) && !isDelegation(session.code(authority))) return 0n
  if (nonce !== authorization.nonce) return 0n
  const isExisting = session.exists(authority)
  const isReset = equalBytes(authorization.address, ZERO_20)
  session.setCode(authority, isReset ? NO_BYTES : concatBytes(DELEGATION, authorization.address))
  session.setNonce(authority, nonce + 1n)
  return isExisting ? EXISTING_REFUND : 0n
}
