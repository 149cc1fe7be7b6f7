/** Has the proofs of blobs checked by a worker of the pool: that takes up to seconds, which the thread of the sockets does not have. */
import { setImmediate } from 'node:timers/promises'
import type { InvalidTransaction } from '../engine/execution/types.ts'
import type { BlobSidecar } from '../engine/primitives/blob-sidecar.ts'
import { invalid } from '../engine/txpool/validation.ts'
import { internalError } from '../rpc/errors.ts'
import type { Executor } from '../rpc/executor.ts'
import { proveSidecar, sidecarText } from '../rpc/sidecar.ts'

/** undefined: the proofs are right. An error too when there was no time or no place to check them. */
export function createProver(options: {
  readonly executor: Executor
  readonly patienceMs: number
  /** Monotonic milliseconds. */
  readonly now: () => number
}): (sidecar: BlobSidecar) => Promise<InvalidTransaction | undefined> {
  const { executor, patienceMs, now } = options
  return async (sidecar) => {
    const deadline = now() + patienceMs
    // A megabyte has just been decoded, and becomes text: others get a turn between the two.
    await setImmediate()
    const reply = await executor.execute({
      method: proveSidecar,
      params: [],
      text: sidecarText(sidecar),
      endpoint: 'flashblocks',
      record: undefined,
      deadline,
      client: { isGone: false },
    })
    if ('error' in reply) return reply.error
    if (!('result' in reply)) return internalError().toObject()
    const fault: string | null = JSON.parse(reply.result)
    return fault === null ? undefined : invalid(`KZG verification error: ${fault}`)
  }
}
