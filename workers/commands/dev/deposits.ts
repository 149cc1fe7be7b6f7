/**
 * Sends user deposits of a development chain from their method to the sequencer and returns its
 * responses.
 */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { Deposited } from '../../../engine/sources/sequencer/first-transactions.ts'
import type { Limits } from '../../../rpc/core/limits.ts'
import type { SendDeposit } from '../../../rpc/core/ports.ts'
import type { ToSequencer } from '../../thread/messages.ts'
import type { Thread } from '../../thread/thread.ts'
import { createBoundedRequests } from './bounded-requests.ts'

export interface Deposits {
  readonly send: SendDeposit
  respond(deposited: Deposited): void
}

/** A deposit waits at most this many block times. */
const TIMEOUT_BLOCKS = 10

export function createDeposits(
  sequencer: Pick<Thread<ToSequencer>, 'post'>,
  blockTimeMs: number,
  { depositsWaiting }: Pick<Limits, 'depositsWaiting'>,
): Deposits {
  const requests = createBoundedRequests<{ readonly hash: Bytes }>({
    max: depositsWaiting,
    timeoutMs: TIMEOUT_BLOCKS * blockTimeMs,
    full: 'too many deposits wait (--limit-deposits-waiting)',
    retryMs: blockTimeMs,
    late: 'timeout: the deposit is not in a block yet, and may still be included',
  })
  return {
    async send(deposit) {
      const { hash } = await requests.request((request) =>
        sequencer.post({ type: 'deposit', deposit: { ...deposit, request } }),
      )
      return hash
    },
    respond: requests.respond,
  }
}
