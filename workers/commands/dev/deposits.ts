/** User deposits of a development chain, from the method that takes them to the sequencer and back. */

import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { Deposited, UserDeposit } from '../../../engine/sources/sequencer/user-deposits.ts'
import { failed, overloaded } from '../../../rpc/seam/errors.ts'
import type { ToSequencer } from '../../thread/messages.ts'
import { createQuestions } from '../../thread/questions.ts'
import type { Thread } from '../../thread/thread.ts'

export interface Deposits {
  /** Hash of its transaction, when that is in a flashblock. @throws {RpcError} */
  send(deposit: Omit<UserDeposit, 'request'>): Promise<Bytes>
  answer(deposited: Deposited): void
}

/** Deposits that wait for their block. */
const MAX_WAITING = 64
/** Blocks that one waits at most. */
const PATIENCE_BLOCKS = 10

export function createDeposits(sequencer: Thread<ToSequencer>, blockTimeMs: number): Deposits {
  const questions = createQuestions<Deposited>(PATIENCE_BLOCKS * blockTimeMs)
  let waiting = 0
  return {
    async send(deposit) {
      if (waiting >= MAX_WAITING) throw overloaded('too many deposits wait', blockTimeMs)
      waiting++
      try {
        const answer = await questions.ask((request) =>
          sequencer.post({ type: 'deposit', deposit: { ...deposit, request } }),
        )
        if (answer === undefined) throw failed('the deposit is in no block yet')
        if ('reason' in answer) throw failed(answer.reason)
        return answer.hash
      } finally {
        waiting--
      }
    },
    answer: (deposited) => questions.answer(deposited.request, deposited),
  }
}
