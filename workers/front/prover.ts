/** Checks the proofs of blobs on a pool worker, because that takes up to seconds. */
import type { BlobSidecar } from '../../engine/primitives/blob-sidecar.ts'
import { failed, type RpcErrorObject } from '../../rpc/core/errors.ts'
import type { PoolClient } from '../../rpc/core/executor.ts'
import { proveSidecar, sidecarText } from '../../rpc/methods/shared/sidecar.ts'
import { callPool, type PoolCaller } from '../pool/call-pool.ts'

/**
 * Checks the proofs; undefined means that they are valid. A full or slow pool gives an error too.
 */
export type Prove = (
  sidecar: BlobSidecar,
  client: PoolClient,
) => Promise<RpcErrorObject | undefined>

export function createProver(pool: PoolCaller): Prove {
  return async (sidecar, client) => {
    const reply = await callPool(pool, proveSidecar, {
      client,
      text: () => sidecarText(sidecar),
    })
    if ('error' in reply) return reply.error
    const fault: string | null = JSON.parse(reply.result)
    return fault === null ? undefined : failed(`KZG verification error: ${fault}`).toObject()
  }
}
