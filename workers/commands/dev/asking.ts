/** Questions to the sequencer that are answered one after the other: so many of a kind at a time. */
import { failed, overloaded } from '../../../rpc/seam/errors.ts'
import { createQuestions } from '../../thread/questions.ts'

export interface Asking<Answer> {
  /** `times`: as in `Questions`. @throws {RpcError} where too many wait, none comes in time, or the answer is a reason why not */
  ask(send: (request: number) => void, times?: number): Promise<Answer>
  answer(answer: Asked<Answer>): void
}

/** What the sequencer answers to a question of this number. */
type Asked<Answer> = { readonly request: number } & (Answer | { readonly reason: string })

export function createAsking<Answer extends object>(options: {
  readonly most: number
  readonly patienceMs: number
  /** What is said where too many wait, and when to try again. */
  readonly full: string
  readonly retryMs: number
  /** What is said where no answer comes. */
  readonly late: string
}): Asking<Answer> {
  const { most, patienceMs, full, retryMs, late } = options
  const questions = createQuestions<Asked<Answer>>(patienceMs)
  let waiting = 0
  return {
    async ask(send, times) {
      if (waiting >= most) throw overloaded(full, retryMs)
      waiting++
      try {
        const answer = await questions.ask(send, times)
        if (answer === undefined) throw failed(late)
        if ('reason' in answer) throw failed(answer.reason)
        return answer
      } finally {
        waiting--
      }
    },
    answer: (answer) => questions.answer(answer.request, answer),
  }
}
