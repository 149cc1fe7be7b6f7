/** User deposits of a development chain, from the method that takes them to the sequencer and back. */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { Deposited } from '../../../engine/sources/sequencer/user-deposits.ts'
import type { Limits } from '../../../rpc/seam/limits.ts'
import type { SendDeposit } from '../../../rpc/seam/ports.ts'
import type { ToSequencer } from '../../thread/messages.ts'
import type { Thread } from '../../thread/thread.ts'
import { createAsking } from './asking.ts'

export interface Deposits {
  readonly send: SendDeposit
  answer(deposited: Deposited): void
}

/** Blocks that one waits at most. */
const PATIENCE_BLOCKS = 10

export function createDeposits(
  sequencer: Pick<Thread<ToSequencer>, 'post'>,
  blockTimeMs: number,
  { depositsWaiting }: Pick<Limits, 'depositsWaiting'>,
): Deposits {
  const asking = createAsking<{ readonly hash: Bytes }>({
    most: depositsWaiting,
    patienceMs: PATIENCE_BLOCKS * blockTimeMs,
    full: 'too many deposits wait (--limit-deposits-waiting)',
    retryMs: blockTimeMs,
    late: 'the deposit is in no block yet',
  })
  return {
    async send(deposit) {
      const { hash } = await asking.ask((request) =>
        sequencer.post({ type: 'deposit', deposit: { ...deposit, request } }),
      )
      return hash
    },
    answer: asking.answer,
  }
}
