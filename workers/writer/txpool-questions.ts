/**
 * The sequencer's requests to the txpool, which lives on the main thread. Only one is open at a
 * time. A blocked main thread therefore delays one flashblock by the timeout, and not every one.
 */
import type { Bytes } from '../../engine/primitives/bytes.ts'
import { keccak256 } from '../../engine/primitives/keccak.ts'
import type { Offered, Wanted } from '../../engine/sources/sequencer/types.ts'

export interface TxpoolQuestions {
  /**
   * Requests the txpool's best transactions. After a timeout it returns none at once, until the
   * open request is answered.
   * A patient caller waits for `PATIENT_MS`, also for the response to an earlier request.
   */
  request(wanted: Wanted, isPatient?: boolean): Promise<Offered>
  respond(request: number, offered: Offered): void
  /** The txpool may have transactions that it lacked at the last request. */
  news(): void
  hasNews(): boolean
}

export type TxpoolQuestionsOptions = {
  readonly timeoutMs: number
  /** Sends a request to the txpool, which calls `respond` with the same number. */
  readonly send: (wanted: Wanted, request: number) => void
  /** Returns hashes to the txpool, because its response came too late for them. */
  readonly giveBack: (transactions: readonly Bytes[]) => void
}

/** The main thread was blocked for 4 s at a start on a busy machine (2026-11). */
const PATIENT_MS = 20_000
const NOTHING: Offered = { transactions: [], hasMore: true }

type Question = {
  readonly wanted: Wanted
  readonly request: number
  readonly response: PromiseWithResolvers<Offered>
  /** The sequencer continues without the response. */
  isGivenUp: boolean
}

export function createTxpoolQuestions(options: TxpoolQuestionsOptions): TxpoolQuestions {
  const { timeoutMs, send, giveBack } = options
  let requested = 0
  let hasNews = false
  let open: Question | undefined
  /** A response that came after the timeout of its request. */
  let late: { readonly wanted: Wanted; readonly offered: Offered } | undefined

  /** @returns the late response, if it is for the same flashblock */
  function takeLate(wanted: Wanted, isPatient: boolean): Offered | undefined {
    const lateResponse = late
    late = undefined
    if (lateResponse === undefined) return undefined
    /*
     * A patient caller skips the late response, because the txpool may have got more transactions
     * since.
     */
    if (!isPatient && isForSame(lateResponse.wanted, wanted)) return lateResponse.offered
    /*
     * Otherwise the txpool would offer these transactions again only when their flashblock is
     * visible, which may take long.
     */
    if (lateResponse.offered.transactions.length > 0)
      giveBack(lateResponse.offered.transactions.map(({ raw }) => keccak256(raw)))
    return undefined
  }

  return {
    async request(wanted, isPatient = false) {
      const ms = isPatient ? Math.max(timeoutMs, PATIENT_MS) : timeoutMs
      if (isPatient && open !== undefined) await within(open.response.promise, ms)
      const lateResponse = takeLate(wanted, isPatient)
      if (lateResponse !== undefined) return lateResponse
      if (open !== undefined) return NOTHING
      hasNews = false
      const response = Promise.withResolvers<Offered>()
      const question: Question = { wanted, request: ++requested, response, isGivenUp: false }
      open = question
      send(wanted, question.request)
      const offered = await within(response.promise, ms)
      question.isGivenUp = offered === undefined
      return offered ?? NOTHING
    },
    respond(request, offered) {
      if (open?.request !== request) return
      if (open.isGivenUp) late = { wanted: open.wanted, offered }
      open.response.resolve(offered)
      open = undefined
    },
    news() {
      hasNews = true
    },
    hasNews: () => hasNews,
  }
}

/** Resolves to undefined after the timeout. */
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
