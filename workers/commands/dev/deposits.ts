/** User deposits of a development chain, from the method that takes them to the sequencer and back. */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { Deposited } from '../../../engine/sources/sequencer/user-deposits.ts'
import type { SendDeposit } from '../../../rpc/seam/ports.ts'
import type { ToSequencer } from '../../thread/messages.ts'
import type { Thread } from '../../thread/thread.ts'
import { createAsking } from './asking.ts'

export interface Deposits {
  readonly send: SendDeposit
  answer(deposited: Deposited): void
}

/** Deposits that wait for their block. */
const MAX_WAITING = 64
/** Blocks that one waits at most. */
const PATIENCE_BLOCKS = 10

export function createDeposits(sequencer: Thread<ToSequencer>, blockTimeMs: number): Deposits {
  const asking = createAsking<{ readonly hash: Bytes }>({
    most: MAX_WAITING,
    patienceMs: PATIENCE_BLOCKS * blockTimeMs,
    full: 'too many deposits wait',
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
