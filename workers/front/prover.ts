/** Has the proofs of blobs checked by a worker of the pool: that takes up to seconds. */
import type { BlobSidecar } from '../../engine/primitives/blob-sidecar.ts'
import { proveSidecar, sidecarText } from '../../rpc/methods/shared/sidecar.ts'
import { failed, type RpcErrorObject } from '../../rpc/seam/errors.ts'
import type { PoolClient } from '../../rpc/seam/executor.ts'
import { type Asking, askPool } from '../pool/ask.ts'

/** undefined: the proofs are right. An error too when there was no time or no place to check them. */
export type Prove = (
  sidecar: BlobSidecar,
  client: PoolClient,
) => Promise<RpcErrorObject | undefined>

export function createProver(asking: Asking): Prove {
  return async (sidecar, client) => {
    const reply = await askPool(asking, proveSidecar, {
      client,
      text: () => sidecarText(sidecar),
    })
    if ('error' in reply) return reply.error
    const fault: string | null = JSON.parse(reply.result)
    return fault === null ? undefined : failed(`KZG verification error: ${fault}`).toObject()
  }
}
