/**
 * The sequencer's questions to the txpool, which lives on the main thread: one at a time, so that a main thread that stands still costs one
 * flashblock the patience, and not each of them, twice.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { keccak256 } from '../../engine/primitives/keccak.ts'
import type { Offered, Wanted } from '../../engine/sources/sequencer/types.ts'

export interface TxpoolQuestions {
  /**
   * Asks for the txpool's best. Without an answer in time there is nothing, and from then on at
   * once until the answer is there. A patient caller waits for `PATIENT_MS`, also for the answer to
   * an earlier question.
   */
  ask(wanted: Wanted, isPatient?: boolean): Promise<Offered>
  answer(request: number, offered: Offered): void
  /** The txpool may have something that it had not when it was asked last. */
  news(): void
  hasNews(): boolean
}

export type TxpoolQuestionsOptions = {
  readonly patienceMs: number
  /** Asks the txpool: `answer` is called with the same `request`. */
  readonly send: (wanted: Wanted, request: number) => void
  /** The txpool may offer these hashes again: its answer came too late for them. */
  readonly giveBack: (transactions: readonly Bytes[]) => void
}

/** A main thread stood still for 4 s at a start on a busy machine (2026-11). */
const PATIENT_MS = 20_000
const NOTHING: Offered = { transactions: [], hasMore: true }

type Question = {
  readonly wanted: Wanted
  readonly request: number
  readonly answered: PromiseWithResolvers<Offered>
  /** The sequencer goes on without the answer. */
  isGivenUp: boolean
}

export function createTxpoolQuestions(options: TxpoolQuestionsOptions): TxpoolQuestions {
  const { patienceMs, send, giveBack } = options
  let asked = 0
  let hasNews = false
  /** Sent and not answered. */
  let open: Question | undefined
  /** An answer that came after its question was given up. */
  let late: { readonly wanted: Wanted; readonly offered: Offered } | undefined

  /** @returns the late answer, where it is for the same flashblock */
  function takeLate(wanted: Wanted, isPatient: boolean): Offered | undefined {
    const kept = late
    late = undefined
    if (kept === undefined) return undefined
    // A late answer may lack what the txpool has got since then.
    if (!isPatient && isForSame(kept.wanted, wanted)) return kept.offered
    // The txpool offers them by itself only once their flashblock is visible, which may take long.
    if (kept.offered.transactions.length > 0)
      giveBack(kept.offered.transactions.map(({ raw }) => keccak256(raw)))
    return undefined
  }

  return {
    async ask(wanted, isPatient = false) {
      const ms = isPatient ? Math.max(patienceMs, PATIENT_MS) : patienceMs
      if (isPatient && open !== undefined) await within(open.answered.promise, ms)
      const kept = takeLate(wanted, isPatient)
      if (kept !== undefined) return kept
      if (open !== undefined) return NOTHING
      hasNews = false
      const answered = Promise.withResolvers<Offered>()
      const question: Question = { wanted, request: ++asked, answered, isGivenUp: false }
      open = question
      send(wanted, question.request)
      const offered = await within(answered.promise, ms)
      question.isGivenUp = offered === undefined
      return offered ?? NOTHING
    },
    answer(request, offered) {
      if (open?.request !== request) return
      if (open.isGivenUp) late = { wanted: open.wanted, offered }
      open.answered.resolve(offered)
      open = undefined
    },
    news() {
      hasNews = true
    },
    hasNews: () => hasNews,
  }
}

/** undefined: it takes longer. */
function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, undefined)
    void promise.then((value) => {
      clearTimeout(timer)
      resolve(value)
    })
  })
}

/** An offer for an earlier flashblock is not valid for a later one. */
const isForSame = (a: Wanted, b: Wanted) => a.number === b.number && a.index === b.index
