/**
 * The sequencer's questions to the txpool, which lives on the main thread: one at a time, so that a main thread that stands still costs one
 * flashblock the patience, and not each of them, twice.
 */
import type { Offered, Wanted } from '../../engine/sources/sequencer/types.ts'
import { createQuestions } from '../thread/questions.ts'

export interface TxpoolQuestions {
  /**
   * The txpool's best; nothing when it does not answer in time, and from then on at once until it has answered. `isPatient`: it has twenty
   * times as long.
   */
  ask(wanted: Wanted, isPatient?: boolean): Promise<Offered>
  answer(request: number, offered: Offered): void
  /** The txpool may have something that it had not when it was asked last. */
  news(): void
  hasNews(): boolean
}

/** @param send asks the txpool: `answer` is called with the same `request`. */
export function createTxpoolQuestions(
  patienceMs: number,
  send: (wanted: Wanted, request: number) => void,
): TxpoolQuestions {
  const questions = createQuestions<Offered>(patienceMs)
  let hasNews = false
  /** What is asked and not answered. */
  let open: Wanted | undefined
  /** An answer that nobody waited for any more. */
  let late: { readonly wanted: Wanted; readonly offered: Offered } | undefined
  return {
    async ask(wanted, isPatient = false) {
      const kept = late
      late = undefined
      if (kept !== undefined && isForSame(kept.wanted, wanted)) return kept.offered
      if (open !== undefined) return NOTHING
      open = wanted
      hasNews = false
      const asking = questions.ask((request) => send(wanted, request), isPatient ? PATIENT : 1)
      return (await asking) ?? NOTHING
    },
    answer(request, offered) {
      if (!questions.answer(request, offered) && open !== undefined)
        late = { wanted: open, offered }
      open = undefined
    },
    news() {
      hasNews = true
    },
    hasNews: () => hasNews,
  }
}

const PATIENT = 20
const NOTHING: Offered = { transactions: [], hasMore: true }

/** What was offered for an earlier flashblock the txpool offers again by itself. */
const isForSame = (a: Wanted, b: Wanted) => a.number === b.number && a.index === b.index
