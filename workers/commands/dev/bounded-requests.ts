/**
 * Requests to the sequencer's thread that are answered in order; the number that may wait is
 * bounded.
 */
import { failed, overloaded } from '../../../rpc/core/errors.ts'
import { createQuestions } from '../../thread/questions.ts'

export interface BoundedRequests<Result> {
  /**
   * @param times multiplies the timeout
   * @throws {RpcError} if too many wait, none responds in time, or the sequencer refuses
   */
  request(send: (request: number) => void, times?: number): Promise<Result>
  respond(response: SequencerResponse<Result>): void
}

type SequencerResponse<Value> = { readonly request: number } & (Value | { readonly reason: string })

export function createBoundedRequests<Value extends object>(options: {
  readonly max: number
  readonly timeoutMs: number
  /** Error text if too many requests wait; `retryMs` says when to try again. */
  readonly full: string
  readonly retryMs: number
  /** Error text if no response arrives in time. */
  readonly late: string
}): BoundedRequests<Value> {
  const { max, timeoutMs, full, retryMs, late } = options
  const questions = createQuestions<SequencerResponse<Value>>(timeoutMs)
  let waiting = 0
  return {
    async request(send, times) {
      if (waiting >= max) throw overloaded(full, retryMs)
      waiting++
      try {
        const response = await questions.request(send, times)
        if (response === undefined) throw failed(late)
        if ('reason' in response) throw failed(response.reason)
        return response
      } finally {
        waiting--
      }
    },
    respond: (response) => questions.respond(response.request, response),
  }
}
