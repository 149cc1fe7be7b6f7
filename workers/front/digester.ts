/**
 * Digests long envelopes on a pool worker, because hash, sender recovery and byte counts take many
 * milliseconds.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Digest } from '../../engine/txpool/types.ts'
import type { RpcErrorObject } from '../../rpc/core/errors.ts'
import type { PoolClient } from '../../rpc/core/executor.ts'
import { decodeDigest, digestTransaction, envelopeText } from '../../rpc/methods/shared/digest.ts'
import { callPool, type PoolCaller } from '../pool/call-pool.ts'

/** Digests an envelope. The error is the transaction's own, or the pool was full or too slow. */
export type MakeDigest = (
  envelope: Bytes,
  client: PoolClient,
) => Promise<{ readonly digest: Digest } | { readonly error: RpcErrorObject }>

export function createDigester(pool: PoolCaller): MakeDigest {
  return async (envelope, client) => {
    const reply = await callPool(pool, digestTransaction, {
      client,
      text: () => envelopeText(envelope),
    })
    return 'error' in reply ? reply : { digest: decodeDigest(reply.result) }
  }
}
