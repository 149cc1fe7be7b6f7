/** Has long envelopes hashed, their senders recovered and their bytes counted by a worker of the pool: that takes many milliseconds. */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import type { Digest } from '../../engine/txpool/types.ts'
import { decodeDigest, digestTransaction, envelopeText } from '../../rpc/methods/shared/digest.ts'
import type { RpcErrorObject } from '../../rpc/seam/errors.ts'
import type { PoolClient } from '../../rpc/seam/executor.ts'
import { type Asking, askPool } from '../pool/ask.ts'

/** The error is the transaction's own, or there was no time or no place. */
export type MakeDigest = (
  envelope: Bytes,
  client: PoolClient,
) => Promise<{ readonly digest: Digest } | { readonly error: RpcErrorObject }>

export function createDigester(asking: Asking): MakeDigest {
  return async (envelope, client) => {
    const reply = await askPool(asking, digestTransaction, {
      client,
      text: () => envelopeText(envelope),
    })
    return 'error' in reply ? reply : { digest: decodeDigest(reply.result) }
  }
}
